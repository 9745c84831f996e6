"""Matlab files (version 5), read by SciPy, and MenpoBenchmark's faces in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.checked import expecting
from luvli.data.formats.common import face
from luvli.data.record import FaceRecord
from luvli.errors import InputError, require
from luvli.files import PathLike, check_plain


def read_matlab(path: PathLike, *names: str) -> list[Any]:
    """These variables of a file (before version 7.3), as `scipy.io.loadmat` gives them."""
    content = _load(Path(path))
    for name in names:
        if name not in content:
            known = ", ".join(content) or "nothing"
            raise InputError(
                f"{path} has no variable {name!r} (it holds {known}): is it the right file?"
            )
    return [content[name] for name in names]


def read_matlab_floats(path: PathLike, name: str, shape: tuple[int, ...]) -> Floats:
    """A variable of numbers; -1 in the shape stands for any."""
    values = np.asarray(read_matlab(path, name)[0], dtype=np.float64)
    wanted = [size if n == -1 else n for size, n in zip(values.shape, shape, strict=False)]
    if values.ndim != len(shape) or list(values.shape) != wanted:
        raise InputError(f"{path} has {name} of shape {values.shape} instead of {shape}.")
    return values


def _load(path: Path) -> dict[str, Any]:
    """The variables of a file by their names."""
    check_plain(path)
    reader = require("scipy.io", "evaluate")
    with expecting(path, "a readable Matlab file", "download it again"):
        content = reader.loadmat(path)
    return {name: value for name, value in content.items() if not name.startswith("__")}


def read_menpo_mat(path: PathLike) -> list[FaceRecord]:
    """The faces of MenpoBenchmark's `semifrontal.mat` and `profile.mat`: a cell of structs with a
    `name` and the labels `gt` (k, 2), counted from 1.

    The curves that the project keeps beside them are no landmarks and are refused.
    """
    faces = _menpo_faces(_load(Path(path)))
    if not faces:
        raise InputError(
            f"{path} holds no cell of faces with the fields name and gt: it is not one of "
            "MenpoBenchmark's semifrontal.mat and profile.mat."
        )
    records = []
    for row in faces:
        points, name = np.asarray(row["gt"], np.float64) - 1, str(np.ravel(row["name"])[0])
        records.append(face(points, dataset="menpo", face_id=name))
    return records


def _menpo_faces(content: Mapping[str, Any]) -> list[Any]:
    for value in content.values():
        if getattr(value, "dtype", None) != np.dtype(object):
            continue
        cells = [np.ravel(cell)[0] for cell in np.ravel(value) if np.size(cell)]
        fields = [getattr(getattr(cell, "dtype", None), "names", None) or () for cell in cells]
        if cells and all({"name", "gt"} <= set(names) for names in fields):
            return cells
    return []
