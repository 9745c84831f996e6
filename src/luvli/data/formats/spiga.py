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
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from luvli.data.formats.checked import parse_json, read_each
from luvli.data.formats.common import (
    corner_and_size,
    edges_of,
    face,
    row_name,
    warn_losses,
)
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, write_text

_COFW_IMAGE = re.compile(r"(?:.*/)?images/0(\d{4})\.jpg")


class _Face(BaseModel):
    imgpath: str
    landmarks: list[tuple[float, float]]
    bbox: tuple[float, float, float, float] | None = None
    visible: list[float] | None = None


def _first_pixel(image: str) -> float:
    """What the coordinates of a face count from, by the name of its image: COFW's 507 test faces
    follow its 1,345 training faces."""
    match = _COFW_IMAGE.fullmatch(image)
    return float(match is not None and 1345 <= int(match[1]) <= 1851)


def read_spiga(path: PathLike) -> list[FaceRecord]:
    """Read annotations or results."""
    return read_each(
        path, "face", enumerate(parse_json(path, list[_Face], "a SPIGA file")), _record
    )


def _record(row: _Face) -> FaceRecord:
    count, first = len(row.landmarks), _first_pixel(row.imgpath)
    visible = np.ones(count) if row.visible is None else np.array(row.visible)
    if len(visible) != count:
        raise InputError(f"{count} landmarks, {len(visible)} visible.")
    return face(
        np.array(row.landmarks, dtype=np.float64) - first,
        row.imgpath,
        np.where(visible > 0, Visibility.UNOCCLUDED, Visibility.EXTERNALLY_OCCLUDED),
        box=None if row.bbox is None else edges_of(*row.bbox) - first,
    )


def write_spiga(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces, whole or not at all; a landmark must have a location."""
    nowhere = dict.fromkeys(("self_occluded", "unlabelled"), "written at 0, 0")
    warn_losses(path, records, "SPIGA", **nowhere)
    write_text(path, json.dumps([_fields(record) for record in records]) + "\n")


def _fields(record: FaceRecord) -> dict[str, Any]:
    first = _first_pixel(row_name(record))
    x, y, width, height = corner_and_size(record)
    return {
        "imgpath": row_name(record),
        "bbox": [x + first, y + first, width, height],
        "landmarks": np.nan_to_num(record.points + first).tolist(),
        "visible": (record.visibility == Visibility.UNOCCLUDED).astype(float).tolist(),
    }
