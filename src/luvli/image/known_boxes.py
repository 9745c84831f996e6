"""Detectors that need not look: the whole image is the face, or a file says where it is."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from luvli.errors import InputError, check_range
from luvli.files import PathLike, read_text
from luvli.image.box import Box
from luvli.image.read import ImageArray


class WholeImage:
    """For images that are face crops already: one box, set in from the border.

    `margin` is the share of each side left around the landmarks; 0.1 suits crops made by
    enlarging the tight box 1.25 times.
    """

    def __init__(self, margin: float = 0.1) -> None:
        check_range("margin", margin, 0, 0.49)
        self.margin = margin

    def __call__(self, image: ImageArray, name: str = "") -> list[Box]:
        height, width = image.shape[:2]
        x, y = self.margin * width, self.margin * height
        return [Box(x - 0.5, y - 0.5, width - x - 0.5, height - y - 0.5)]


class BoxesFromFile:
    """Boxes that are known already, looked up by the image's path or file name.

    A box that cannot be one (an infinite edge or score, no area) concerns its own image alone:
    looking that image up raises `InputError`.

    The file is a CSV with the columns image, x0, y0, x1, y1 and, if known, score; or JSON,
    either `{"a.jpg": [[x0, y0, x1, y1], ...]}` or a list `faces` whose members have
    `image` and `box` (what `luvli predict` writes).
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        rows = _from_csv if self.path.suffix.lower() == ".csv" else _from_json
        self._boxes: dict[str, list[Box]] = {}
        self._wrong: dict[str, str] = {}
        try:
            for image, edges, score in rows(read_text(self.path)):
                try:
                    x0, y0, x1, y1 = edges
                    self._boxes.setdefault(image, []).append(Box(x0, y0, x1, y1, score))
                except InputError as error:
                    self._wrong[image] = str(error).rstrip(".")
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, csv.Error,
                RecursionError) as error:  # fmt: skip
            raise InputError(
                f"{self.path} is not a list of boxes ({error}): it needs image, x0, y0, x1, y1."
            ) from error

    def __call__(self, image: ImageArray, name: str = "") -> list[Box]:
        for key in (name, Path(name).name):
            if key in self._wrong:
                raise InputError(
                    f"{self.path} has a box for {key} that is none ({self._wrong[key]}): mend it."
                )
            if key in self._boxes:
                return sorted(self._boxes[key], key=lambda box: -box.score)
        return []


_Row = tuple[str, list[float], float]
"""image, edges, score"""


def _from_csv(text: str) -> Iterator[_Row]:
    for row in csv.DictReader(io.StringIO(text)):
        edges = [float(row[edge]) for edge in ("x0", "y0", "x1", "y1")]
        yield row["image"], edges, float(row.get("score") or 1.0)


def _from_json(text: str) -> Iterator[_Row]:
    data: Any = json.loads(text)
    if isinstance(data, Mapping) and isinstance(data.get("faces"), list):
        for face in data["faces"]:
            yield str(face["image"]), _edges(face["box"]), float(face.get("score", 1.0))
        return
    if not isinstance(data, Mapping):
        raise InputError("the top level is not an object")
    for image, boxes in data.items():
        for box in boxes:
            yield str(image), _edges(box), 1.0


def _edges(numbers: Any) -> list[float]:
    edges = [float(number) for number in numbers]
    if len(edges) != 4:
        raise InputError(f"a box has {len(edges)} numbers, not four")
    return edges
