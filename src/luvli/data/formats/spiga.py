"""SPIGA's JSON, of annotations and of results alike: a list of faces.

    [{"imgpath": "images/01345.jpg", "bbox": [x, y, width, height], "headpose": [...],
      "ids": [101, 102, ...], "landmarks": [[x, y], ...], "visible": [1.0, 0.0, ...]}, ...]

`visible` 0 is a hidden landmark that has a location: our externally occluded. The numbers in
`ids` are SPIGA's own names of the landmarks; they are neither needed nor written.
Coordinates are taken as they stand, but for SPIGA's files of COFW-68, whose images are called
images/01345.jpg to images/01851.jpg: they hold the numbers of the Matlab files, which count from
1 (all 34,476 landmarks compared), and are read and written so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, TypeAdapter

from luvli.data.formats.common import (
    box_or_tight,
    face,
    parse_json,
    row_name,
    warn_if_predictions,
    warn_lost,
)
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, write_text


class _Face(BaseModel):
    imgpath: str
    landmarks: list[tuple[float, float]]
    bbox: tuple[float, float, float, float] | None = None
    visible: list[float] | None = None


_FACES = TypeAdapter(list[_Face])
_COFW_IMAGES = range(1345, 1852)
"""COFW's 507 test faces in SPIGA's files: they follow the 1,345 training faces, from 0"""


def read_spiga(path: PathLike) -> list[FaceRecord]:
    """Read annotations or results."""
    return [_record(row, path) for row in parse_json(path, _FACES, "a SPIGA file")]


def write_spiga(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces, whole or not at all; a landmark must have a location."""
    warn_if_predictions(path, records, "SPIGA")
    hidden = sum(int((~record.visible).sum()) for record in records)
    if hidden:
        warn_lost(
            path, f"SPIGA cannot hold landmarks without a place; {hidden} are written at 0, 0."
        )
    faces = []
    for record in records:
        name = row_name(record)
        first = _first_pixel(name)
        x0, y0, x1, y1 = (box_or_tight(record) + first).tolist()
        faces.append(
            {
                "imgpath": name,
                "bbox": [x0, y0, x1 - x0, y1 - y0],
                "landmarks": np.nan_to_num(record.points + first).tolist(),
                "visible": (record.visibility == Visibility.UNOCCLUDED).astype(float).tolist(),
            }
        )
    write_text(path, json.dumps(faces) + "\n")


def _first_pixel(image: str) -> float:
    """What the coordinates of a face count from, by the name of its image."""
    *_, folder, name = ("", *Path(image).parts) if image else ("", "")
    stem, _, suffix = name.partition(".")
    cofw = folder == "images" and suffix == "jpg" and len(stem) == 5 and stem.isdecimal()
    return 1.0 if cofw and int(stem) in _COFW_IMAGES else 0.0


def _record(row: _Face, path: PathLike) -> FaceRecord:
    first = _first_pixel(row.imgpath)
    visible = np.ones(len(row.landmarks)) if row.visible is None else np.array(row.visible)
    if len(visible) != len(row.landmarks):
        raise InputError(
            f"{path}, {row.imgpath}: {len(row.landmarks)} landmarks, {len(visible)} visible."
        )
    box = None
    if row.bbox is not None:
        x, y, width, height = row.bbox
        box = np.array([x, y, x + width, y + height]) - first
    return face(
        np.array(row.landmarks, dtype=np.float64) - first,
        row.imgpath,
        np.where(visible > 0, Visibility.UNOCCLUDED, Visibility.EXTERNALLY_OCCLUDED),
        box=box,
        box_kind="tight" if box is None else "given",
    )
