"""Matlab files (version 5), looked through before SciPy reads them.

SciPy's reader believes what a file says about its own sizes: one changed byte can end the whole
process. Here every element must lie inside the one that holds it, and have as many numbers as
its dimensions ask for.
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path
from typing import Any

from luvli.errors import InputError, brief, require
from luvli.files import PathLike, check_plain

_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
"""bytes of a number, by the type of an element"""
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCT, _CHARACTERS, _NUMBERS = 1, 2, 4, range(6, 16)
"""classes of matrices; others (sparse ones, objects, functions) hold no labels"""
_LARGEST = 1 << 30
_DEEPEST = 20


class _Wrong(ValueError):
    """The file contradicts itself."""


class _Strange(Exception):
    """A variable that holds no labels, whatever it holds."""


def read_matlab(path: PathLike) -> dict[str, Any]:
    """The variables of a file (before version 7.3), as `scipy.io.loadmat` gives them; without
    those of other kinds than numbers, words, cells and structs."""
    source = Path(path)
    check_plain(source)
    reader = require("scipy.io", "evaluate")
    try:
        return dict(reader.loadmat(source, variable_names=_checked(source.read_bytes())))
    except Exception as error:  # scipy raises many kinds on damaged files
        raise InputError(
            f"{source} is not a readable Matlab file ({brief(error)}): download it again."
        ) from error


def _checked(content: bytes) -> list[str]:
    """Names of the variables that can be read."""
    if len(content) < 128 or content[126:128] not in (b"IM", b"MI"):
        raise _Wrong("not of version 5")
    order = "<" if content[126:128] == b"IM" else ">"
    if content[124:126] != struct.pack(f"{order}H", 0x0100):
        raise _Wrong("not of version 5")
    names = []
    place = 128
    while place < len(content):
        kind, data, place = _element(content, place, order)
        if kind == _COMPRESSED:
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(data, _LARGEST)
            if not unpacker.eof:
                raise _Wrong("a packed part is cut off, or too large")
            kind, data, _ = _element(data, 0, order)
        if kind != _MATRIX:
            raise _Wrong(f"an element of type {kind} where a variable should be")
        try:
            names.append(_check_matrix(data, order, 0))
        except _Strange:
            continue  # SciPy passes over it, too
    return names


def _element(content: bytes, place: int, order: str) -> tuple[int, bytes, int]:
    """Type and data of the element at `place`, and where the next one begins."""
    if place + 8 > len(content):
        raise _Wrong("it ends too early")
    word, size = struct.unpack_from(f"{order}II", content, place)
    if word >> 16:  # a small one: type, size and data in eight bytes
        kind, size = word & 0xFFFF, word >> 16
        if size > 4:
            raise _Wrong("a small element that is not small")
        return kind, content[place + 4 : place + 4 + size], place + 8
    start = place + 8
    if start + size > len(content):
        raise _Wrong("an element reaches beyond its end")
    following = start + size if word == _COMPRESSED else start + -(-size // 8) * 8
    return word, content[start : start + size], following


def _check_matrix(data: bytes, order: str, depth: int) -> str:
    """Refuse what contradicts itself; -> the matrix's name."""
    if depth > _DEEPEST:
        raise _Wrong("cells inside cells without end")
    if not data:
        return ""  # an empty cell
    kind, flags, place = _element(data, 0, order)
    if kind != 6 or len(flags) != 8:
        raise _Wrong("a variable without flags")
    word = struct.unpack_from(f"{order}I", flags)[0]
    matrix_class, is_complex = word & 0xFF, bool(word & 0x0800)
    kind, raw, place = _element(data, place, order)
    if kind != 5 or len(raw) % 4 or not 8 <= len(raw) <= 128:
        raise _Wrong("a variable without dimensions")
    sizes = struct.unpack(f"{order}{len(raw) // 4}i", raw)
    if min(sizes) < 0:
        raise _Wrong("a negative dimension")
    count = math.prod(sizes)
    kind, name, place = _element(data, place, order)
    if kind not in (1, 16):
        raise _Wrong("a variable without a name")
    if matrix_class in (_CELL, _STRUCT):
        if matrix_class == _STRUCT:
            fields, place = _fields(data, place, order)
            count *= fields
        for _ in range(count):
            kind, inner, place = _element(data, place, order)
            if kind != _MATRIX:
                raise _Wrong(f"an element of type {kind} in a cell")
            _check_matrix(inner, order, depth + 1)
    elif matrix_class in _NUMBERS or matrix_class == _CHARACTERS:
        for _ in range(2 if is_complex else 1):
            kind, raw, place = _element(data, place, order)
            _check_numbers(kind, raw, count, characters=matrix_class == _CHARACTERS)
    else:
        raise _Strange
    if place < len(data):
        raise _Wrong("something behind the end of a variable")
    return name.decode("latin-1")


def _fields(data: bytes, place: int, order: str) -> tuple[int, int]:
    """How many fields a struct has, and where the first begins."""
    kind, raw, place = _element(data, place, order)
    if kind != 5 or len(raw) != 4:
        raise _Wrong("a struct without the length of names")
    width = struct.unpack(f"{order}i", raw)[0]
    kind, names, place = _element(data, place, order)
    if kind not in (1, 2, 16) or not 0 < width <= 256 or len(names) % width:
        raise _Wrong("a struct without names")
    return len(names) // width, place


def _check_numbers(kind: int, raw: bytes, count: int, characters: bool) -> None:
    width = _WIDTHS.get(kind)
    if width is None or len(raw) % width:
        raise _Wrong(f"numbers of type {kind}")
    found = len(raw) // width
    # characters of UTF-8 may take several bytes, and spaces at the end may be left out
    if found != count and not (characters and count <= 4 * found + 4):
        raise _Wrong(f"{found} numbers where the dimensions ask for {count}")
