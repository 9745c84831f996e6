"""MenpoBenchmark's Matlab files: a cell of structs, one for each face.

`semifrontal.mat` and `profile.mat` hold, for each face, its `name`, the labels `gt` and one
field for each participant, all (k, 2) and counted from 1. (The curves that the project keeps
beside them, x and y of a cumulative error distribution, are no landmarks and are refused.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from luvli.data.formats.common import default_markup
from luvli.data.formats.matlab import read_matlab
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError, unknown_choice
from luvli.files import PathLike

FIRST_PIXEL = 1.0
"""What the file calls the centre of the first pixel."""


def read_menpo_mat(path: PathLike, field: str = "gt") -> list[FaceRecord]:
    """The faces of one field: the labels, or a participant's predictions."""
    source = Path(path)
    content = read_matlab(source)
    faces = _faces(content)
    if faces is None:
        raise InputError(
            f"{source} holds no cell of faces with the fields name and gt: it is not one of "
            "MenpoBenchmark's semifrontal.mat and profile.mat."
        )
    fields = [name for name in faces[0].dtype.names if name != "name"]
    if field not in fields:
        raise unknown_choice(f"field of {source}", field, fields)
    return [_record(face, field) for face in faces]


def _faces(content: dict[str, Any]) -> list[Any] | None:
    for name, value in content.items():
        if name.startswith("__") or getattr(value, "dtype", None) != np.dtype(object):
            continue
        cells = [np.ravel(cell)[0] for cell in np.ravel(value) if np.size(cell)]
        if cells and all(
            getattr(cell, "dtype", None) is not None
            and cell.dtype.names
            and {"name", "gt"} <= set(cell.dtype.names)
            for cell in cells
        ):
            return cells
    return None


def _record(face: Any, field: str) -> FaceRecord:
    name = str(np.ravel(face["name"])[0])
    points = np.asarray(face[field], dtype=np.float64) - FIRST_PIXEL
    located = np.isfinite(points).all(axis=1)
    return FaceRecord(
        points=points,
        visibility=np.where(located, Visibility.UNOCCLUDED, Visibility.UNLABELLED),
        markup=default_markup(len(points)),
        dataset="menpo",
        face_id=name,
    )
