"""A detector that need not look: a file says where the faces are."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from luvli.errors import InputError
from luvli.files import PathLike, read_text
from luvli.image.box import Box
from luvli.image.read import ImageArray


class BoxesFromFile:
    """Boxes that are known already, looked up by the image's path or file name.

    A file with a box that cannot be one (an infinite edge or score, no area) is refused.

    The file is a CSV with the columns image, x0, y0, x1, y1 and, if known, score; or JSON,
    either `{"a.jpg": [[x0, y0, x1, y1], ...]}` or a list `faces` whose members have
    `image` and `box` (what `luvli predict` writes).
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        read = _from_csv if self.path.suffix.lower() == ".csv" else _from_json
        self._boxes: dict[str, list[Box]] = {}
        try:
            for image, edges, score in read(read_text(self.path)):
                x0, y0, x1, y1 = map(float, edges)
                try:
                    box = Box(x0, y0, x1, y1, float(score))
                except InputError as error:
                    raise InputError(f"the box of {image}: {error}") from error
                self._boxes.setdefault(image, []).append(box)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, csv.Error,
                RecursionError) as error:  # fmt: skip
            raise InputError(
                f"{self.path} is not a list of boxes ({str(error).rstrip('.')}): it needs image, "
                "x0, y0, x1, y1."
            ) from error

    def __call__(self, image: ImageArray, name: str = "") -> list[Box]:
        boxes = self._boxes.get(name) or self._boxes.get(Path(name).name, [])
        return sorted(boxes, key=lambda box: -box.score)


_Row = tuple[str, Sequence[Any], Any]
"""image, edges, score"""


def _from_csv(text: str) -> Iterator[_Row]:
    for row in csv.DictReader(io.StringIO(text)):
        yield row["image"], [row[edge] for edge in ("x0", "y0", "x1", "y1")], row.get("score") or 1


def _from_json(text: str) -> Iterator[_Row]:
    data: Any = json.loads(text)
    if not isinstance(data, Mapping):
        raise InputError("the top level is not an object")
    if isinstance(data.get("faces"), list):
        for face in data["faces"]:
            yield str(face["image"]), face["box"], face.get("score", 1)
        return
    for image, boxes in data.items():
        for box in boxes:
            yield image, box, 1
