"""Photographs that lend rendered faces their skins and backgrounds."""

from __future__ import annotations

from pathlib import Path

from luvli.errors import InputError
from luvli.files import read_text
from luvli.image.read import IMAGE_SUFFIXES


def photographs(folder: str) -> tuple[Path, ...]:
    """The pictures in a folder, in order, or those that a .txt file names, one on each line.

    A sentence when there are none.
    """
    if Path(folder).suffix == ".txt" and Path(folder).is_file():
        listed = [Path(folder).parent / line for line in read_text(folder).split("\n") if line]
        for file in listed:
            if not file.is_file():
                raise InputError(f"{folder} names {file}, which does not exist: take it out.")
        return tuple(listed)
    if not Path(folder).is_dir():
        raise InputError(f"{folder} is not a folder: give one with photographs.")
    found = sorted(f for f in Path(folder).rglob("*") if f.suffix.lower() in IMAGE_SUFFIXES)
    if not found:
        raise InputError(f"{folder} holds no photographs: give a folder with images.")
    return tuple(found)
