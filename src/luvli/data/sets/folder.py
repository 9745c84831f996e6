"""Your own images: a folder with `.pts` files beside them, or with a label file that names them.

The point set follows from the number of points (68, 98, 29 or 19), or declared in a small
`markup.yaml` in the folder (see `read_markup`); then any number will do. Where the folder
has the subfolders `train` and `test` (or trainset, testset), these are its splits; `all` is
everything. MERL-RAV's signs for hidden landmarks are understood in `.pts` files.
"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from luvli.arrays import Floats
from luvli.data.formats import read_labels
from luvli.data.formats.checked import expecting, naming, parse_yaml
from luvli.data.formats.tables import numbered_columns
from luvli.data.record import IMAGE_NAME, FaceRecord
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import (
    first_existing,
    label_pairs,
    natural_key,
    read_labelled,
    walk,
)
from luvli.errors import InputError
from luvli.files import is_there, read_text
from luvli.markup import Markup, get_markup, is_markup, markup_by_size, mirrored, register_markup

_MARKUP_FILE = "markup.yaml"
_NO_LABELS = re.compile(r"synthetic\.json|photographs-[0-9a-f]{16}\.json")
"""names of files that `luvli data synthesize` and `profile` keep beside their faces"""


def read_folder(reading: Reading) -> None:
    """Every labelled face under the folder, `.pts` and label files alike.

    A face that several of them hold, as after an export into the folder, is taken once.
    """
    declared = reading.root / _MARKUP_FILE
    markup = read_markup(declared) if declared.is_file() else None
    start, word = reading.root, ""
    if reading.split != "all":
        part = first_existing(reading.root, [reading.split, f"{reading.split}set"])
        start, word = (part, "") if part else (reading.root, reading.split)
    is_empty = True
    for folder, names in walk(start):
        if any(name.endswith(".pts") for name in names) and not word:
            is_empty = False
            for label, image in label_pairs(folder, reading):
                face_id = str(label.relative_to(reading.root).with_suffix(""))
                reading.face(label, face_id, partial(_face, label, markup), image)
        for name in sorted(names, key=natural_key):
            if word in name and is_label_file(folder / name):
                is_empty = False
                _read_labels(reading, folder / name, markup)
    if word and is_empty:
        reading.missing_folder(reading.root / reading.split, "the faces of this split")
    _take_once(reading)


def _take_once(reading: Reading) -> None:
    """Leave out faces that stand in a second file."""
    known: dict[str, list[Floats]] = {}
    faces = []
    for record in reading.found:
        image = record.image or record.attributes.get(IMAGE_NAME)
        place = Path(image).with_suffix("") if image else reading.root / record.face_id
        same_image = known.setdefault(os.path.normpath(place.absolute()), [])
        if not any(_is_same(points, record.points) for points in same_image):
            same_image.append(record.points)
            faces.append(record)
    if repeated := len(reading.found) - len(faces):
        why = f"{repeated:,} faces stand in a second label file; each is taken once."
        reading.found.notes.append(f"{reading.root}: {why}")
    reading.found[:] = faces


def _is_same(one: Floats, other: Floats) -> bool:
    """Whether two faces of an image are one, written by formats of different precision."""
    if one.shape != other.shape:
        return False
    gap = np.abs(one - other)[np.isfinite(one) & np.isfinite(other)]
    return bool(gap.size and gap.max() <= 1.0)


def is_label_file(path: Path) -> bool:
    """Whether a file names images and their landmarks: COCO, SPIGA, ours, CVAT, dlib, tables."""
    suffix = path.suffix.lower()
    if _NO_LABELS.fullmatch(path.name) or suffix not in (".json", ".xml", ".csv", ".tsv"):
        return False
    if suffix in (".json", ".xml"):
        return True
    with path.open(encoding="utf-8", errors="replace") as stream:
        header = next(stream, "").rstrip("\r\n").split("," if suffix == ".csv" else "\t")
    return bool(numbered_columns(header)) or "center_w" in header


def _read_labels(reading: Reading, path: Path, markup: Markup | None) -> None:
    """The faces of a label file."""
    records: list[FaceRecord] = []
    with reading.reporting(path):
        records = read_labels(path)
    for number, record in enumerate(records):
        name, image = record.face_id or f"{path.stem}#{number}", record.image
        reading.face(
            f"{path}, face {name},",
            name,
            partial(_with_markup, path, record, markup),
            image if image is not None and is_there(image) else None,
            "" if image is None else image.as_posix(),
            names_image=image is not None,
        )


def _face(label: Path, declared: Markup | None) -> FaceRecord:
    """The face of a `.pts` file."""
    points = declared.size if declared else None
    return _with_markup(label, read_labelled(label, points=points), declared)


def _with_markup(path: Path, record: FaceRecord, declared: Markup | None) -> FaceRecord:
    """The face with the points that the folder declares, or those that it has so many of."""
    known = declared or markup_by_size(len(record.points))
    if known is None:
        raise InputError(
            f"{path} has {len(record.points)} points, which no built-in markup has: "
            f"declare yours in a {_MARKUP_FILE} in the data folder."
        )
    return record.with_changes(markup=known.name)


class _MarkupFile(BaseModel):
    """A point set as people declare it."""

    model_config = ConfigDict(coerce_numbers_to_str=True, allow_inf_nan=False)

    name: str
    points: list[str]
    outer_eye_corners: tuple[int, int]
    parts: dict[str, tuple[int, ...]] = {}
    closed: frozenset[str] = frozenset()
    groups: dict[Literal["jaw", "brows", "nose", "eyes", "mouth"], tuple[int, ...]] = {}
    eyes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    schematic: list[tuple[float, float]] | None = None

    @model_validator(mode="after")
    def _points_exist(self) -> _MarkupFile:
        count = len(self.points)
        lists = (self.outer_eye_corners, *self.parts.values(), *self.groups.values())
        for number in (n for numbers in (*lists, *(self.eyes or ())) for n in numbers):
            if not 0 <= number < count:
                raise ValueError(f"there is no point {number}: they count from 0 to {count - 1}")
        for name in {mirrored(name) for name in self.points} - {*self.points}:
            raise ValueError(
                f"no point is called {name!r}, which a name on the other side asks for: names must "
                "pair up by the words right and left"
            )
        if self.schematic is not None and len(self.schematic) != count:
            raise ValueError(f"schematic has {len(self.schematic)} points instead of {count}")
        return self


def read_markup(path: Path) -> Markup:
    """A point set of your own, declared in a few lines, and registered under its name.

    ```yaml
    name: mine5
    points: [right eye, left eye, nose tip, right mouth corner, left mouth corner]
    outer_eye_corners: [0, 1]
    parts: {mouth: [3, 4]}        # lines to draw; may be left out
    closed: []                    # parts whose line closes
    groups: {eyes: [0, 1], nose: [2], mouth: [3, 4]}
    eyes: [[0], [1]]              # right and left: their means are the pupils
    ```

    Names must pair up by the words right and left, because flips are made from them. Without a
    `schematic` the points are drawn around a circle.
    """
    content = parse_yaml(read_text(path), str(path), "markup")
    with expecting(path, "a point set", "mend it"):
        file = _MarkupFile.model_validate(content)
    right, left = file.outer_eye_corners
    angle = np.linspace(0, 2 * np.pi, len(file.points), endpoint=False)
    markup = Markup(
        name=file.name,
        names=tuple(file.points),
        parts=file.parts,
        closed=file.closed,
        groups={str(group): numbers for group, numbers in file.groups.items()},
        outer_eye_corners=(right, left),
        eyes=file.eyes or ((right,), (left,)),
        schematic=np.array(file.schematic or 0.8 * np.stack([np.sin(angle), -np.cos(angle)], 1)),
    )
    if not (is_markup(markup.name) and get_markup(markup.name).names == markup.names):
        with naming(path, "name"):
            register_markup(markup)
    return markup
