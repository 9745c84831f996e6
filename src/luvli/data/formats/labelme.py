"""LabelMe JSON: one file for each image, one point shape for each landmark.

Faces of an image are distinguished by `group_id`. The flag `occluded` is our externally
occluded. LabelMe has no shape without a place, so a self-occluded landmark is left out and
reads back as unlabelled. LabelMe measures from the corner of the first pixel, whose centre
is therefore (0.5, 0.5).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, FiniteFloat

from luvli.data.formats.checked import parse_json, read_each
from luvli.data.formats.common import (
    face_of_parts,
    image_name,
    names_or_numbers,
    warn_losses,
)
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, write_text

_FIRST_PIXEL = 0.5
"""what the file calls the centre of the first pixel"""


class _Shape(BaseModel):
    label: str
    points: list[tuple[FiniteFloat, FiniteFloat]]
    group_id: int | None = None
    shape_type: str = "point"
    flags: dict[str, bool] | None = None


class _File(BaseModel):
    shapes: list[_Shape]
    imagePath: str = ""  # LabelMe's own spelling


def read_labelme(path: PathLike) -> list[FaceRecord]:
    """Read the point shapes of an image, a record for each group; other shapes are ignored."""
    data = parse_json(path, _File, "a LabelMe file")
    groups: dict[int | None, list[_Shape]] = {}
    for shape in data.shapes:
        if shape.shape_type == "point" and len(shape.points) == 1:
            groups.setdefault(shape.group_id, []).append(shape)

    def read(shapes: list[_Shape]) -> FaceRecord:
        return face_of_parts(map(_part, shapes), data.imagePath)

    return read_each(path, "group", groups.items(), read)


def _part(shape: _Shape) -> tuple[str, ArrayLike, Visibility]:
    """Name, place and class of a landmark."""
    occluded = (shape.flags or {}).get("occluded", False)
    kind = Visibility.EXTERNALLY_OCCLUDED if occluded else Visibility.UNOCCLUDED
    return shape.label, np.array(shape.points[0]) - _FIRST_PIXEL, kind


def write_labelme(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write the faces of one image, whole or not at all."""
    images = {image_name(record) for record in records}
    if len(images) > 1:
        raise InputError(
            f"{path} was not written: a LabelMe file holds one image, these are {len(images)}."
        )
    warn_losses(path, records, "LabelMe", self_occluded="left out and will read as unlabelled")
    shapes = [shape for number, record in enumerate(records) for shape in _shapes(number, record)]
    unknown = dict.fromkeys(("imageData", "imageHeight", "imageWidth"))
    about = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": "".join(images)}
    write_text(path, json.dumps(about | unknown, indent=1, allow_nan=False) + "\n")


def _shapes(number: int, record: FaceRecord) -> list[dict[str, Any]]:
    names = names_or_numbers(record.markup, len(record.points))
    return [
        {
            "label": names[j],
            "points": [(record.points[j] + _FIRST_PIXEL).tolist()],
            "group_id": number,
            "shape_type": "point",
            "flags": {"occluded": bool(record.visibility[j] == Visibility.EXTERNALLY_OCCLUDED)},
        }
        for j in np.flatnonzero(record.visible).tolist()
    ]
