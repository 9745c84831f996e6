"""Matlab files (version 5), checked before SciPy reads them, and MenpoBenchmark's faces in them.

SciPy 1.17's reader believes what a file says about its own sizes: one changed byte can end the
whole process (`tests/data/formats/test_matlab.py`). So every element must lie inside the one that
holds it, and have as many numbers as its dimensions ask for.
"""

from __future__ import annotations

import math
import struct
import zlib
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

_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
"""bytes of a number, by the type of an element"""
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCT, _CHARACTERS, _NUMBERS = 1, 2, 4, range(6, 16)
"""classes of matrices; others (sparse ones, objects, functions) hold no labels"""
_MAX_BYTES, _MAX_DEPTH = 1 << 30, 20


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
    """The variables of a file that are numbers, words, cells or structs."""
    check_plain(path)
    reader = require("scipy.io", "evaluate")
    with expecting(path, "a readable Matlab file", "download it again"):
        content = reader.loadmat(path, variable_names=_check_file(path.read_bytes()))
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


# --- the check -----------------------------------------------------------------------------


def _check_file(content: bytes) -> list[str]:
    """Names of the variables that can be read; ValueError where the file contradicts itself."""
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None or content[124:126] != struct.pack(f"{order}H", 0x0100):
        raise ValueError("not of version 5")
    names = []
    for kind, data in _elements(content[128:], order):
        if kind == _COMPRESSED:
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(data, _MAX_BYTES)
            if not unpacker.eof:
                raise ValueError("a packed part is cut off, or too large")
            kind, data = _elements(data, order)[0]
        if kind != _MATRIX:
            raise ValueError(f"an element of type {kind} where a variable should be")
        name = _check_matrix(data, order, 0)
        if name is not None:
            names.append(name)
    return names


def _elements(content: bytes, order: str) -> list[tuple[int, bytes]]:
    """Types and data of the elements in a row."""
    elements = []
    place = 0
    while place < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, place)
        place += 8
        if kind >> 16:  # a small one: type, size and data in eight bytes
            kind, size = kind & 0xFFFF, kind >> 16
            start, following = place - 4, place
        else:
            start = place
            following = place + (size if kind == _COMPRESSED else -(-size // 8) * 8)
        if start + size > min(following, len(content)):
            raise ValueError("an element reaches beyond its end")
        elements.append((kind, content[start : start + size]))
        place = following
    return elements


def _check_matrix(data: bytes, order: str, depth: int) -> str | None:
    """The name of a matrix that does not contradict itself; None for one without labels."""
    if depth > _MAX_DEPTH:
        raise ValueError("cells inside cells without end")
    if not data:
        return ""  # an empty cell
    (flags_type, flags), (sizes_type, sizes), (_, name), *parts = _elements(data, order)
    if (flags_type, sizes_type, len(flags)) != (6, 5, 8):
        raise ValueError("a variable without flags or dimensions")
    bits = struct.unpack(f"{order}II", flags)[0]
    matrix_class, is_complex = bits & 0xFF, bool(bits & 0x0800)
    shape = np.frombuffer(sizes, f"{order}i4").tolist()
    if not 2 <= len(shape) <= 32 or min(shape) < 0:
        raise ValueError("dimensions that are none")
    count = math.prod(shape)
    if matrix_class == _STRUCT:
        (_, width), (_, names), *parts = parts
        (length,) = struct.unpack(f"{order}i", width)
        if not 0 < length <= 256 or len(names) % length:
            raise ValueError("a struct without names")
        count *= len(names) // length
    if matrix_class in (_CELL, _STRUCT):
        if len(parts) != count or any(kind != _MATRIX for kind, _ in parts):
            raise ValueError(f"{len(parts)} values where the dimensions ask for {count}")
        for _, inner in parts:
            _check_matrix(inner, order, depth + 1)
    elif matrix_class in _NUMBERS or matrix_class == _CHARACTERS:
        if len(parts) != 1 + is_complex:
            raise ValueError("numbers that are missing")
        for kind, raw in parts:
            _check_numbers(kind, raw, count, matrix_class == _CHARACTERS)
    else:
        return None  # SciPy passes over it, too
    return name.decode("latin-1")


def _check_numbers(kind: int, raw: bytes, count: int, characters: bool) -> None:
    numbers, rest = divmod(len(raw), _WIDTHS.get(kind, len(raw) + 1))
    # characters of UTF-8 may take several bytes, and spaces at the end may be left out
    if rest or (numbers != count and not (characters and count <= 4 * numbers + 4)):
        raise ValueError(f"{numbers} numbers of type {kind} where {count} are asked for")
