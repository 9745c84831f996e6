"""Images inside other files: row groups of Parquet files, and members of tars."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

from luvli.errors import InputError, brief, require
from luvli.image.read import IMAGE_SUFFIXES
from luvli.prediction.inputs import Input
from luvli.prediction.parts import Content, Part
from luvli.prediction.places import is_uri, join, open_input, read_bytes
from luvli.prediction.settings import JobSettings

IMAGE_COLUMNS = ("image", "img", "jpg", "jpeg", "png", "bytes", "content", "picture", "path",
                 "file")  # fmt: skip
"""columns that are taken for the images when none is named; the first one counts"""
BATCH = 16
"""rows whose images are in memory together"""
TAR_SIZE = 256
"""images in a part of a tar"""
MAX_MEMBER = 1 << 30
"""bytes of the largest image in a tar"""


@dataclass
class ParquetPart(Part):
    """A row group of a Parquet file."""

    row_group: int
    first_row: int
    image: str
    """the column of the images, as bytes, paths, or both in a struct"""
    names: str | None
    """the column of their names"""

    def name_of(self, index: int) -> str:
        return f"{self.place}#{self.first_row + index}"

    def contents(self, start: int) -> Iterator[tuple[str, Content]]:
        columns = [self.image, *([self.names] if self.names else [])]
        with _opened(self.place) as file:
            batches = file.iter_batches(BATCH, row_groups=[self.row_group], columns=columns)
            rows = (values for batch in batches for values in batch.to_pylist())
            for index, values in islice(enumerate(rows), start, None):
                value = values[self.image]
                default = value if isinstance(value, str) and value else self.name_of(index)
                name = str((self.names and values[self.names]) or default)
                yield name, _cell(self.place, value, name)

    def other_columns(self) -> Any:
        with _opened(self.place) as file:
            names = [name for name in file.schema_arrow.names if name != self.image]
            return file.read_row_group(self.row_group, columns=names)


def parquet_parts(items: Iterable[Input], settings: JobSettings) -> Iterator[ParquetPart]:
    """A part for each row group; all files must have the columns of the first one."""
    first: tuple[str, Any] | None = None
    image = ""
    for item in items:
        with _opened(item.path) as file:
            schema = file.schema_arrow.remove_metadata()
            groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        if first is None:
            first, image = (item.path, schema), _image_column(item.path, schema, settings)
        elif not schema.equals(first[1]):
            differ = [f"{f.name}: {f.type}" for f in schema if f not in set(first[1])]
            raise InputError(
                f"{item.path} has other columns than {first[0]} "
                f"({', '.join(differ[:3]) or 'fewer'}): give files of one schema."
            )
        starts = accumulate(groups, initial=0)
        for group, (rows, start) in enumerate(zip(groups, starts, strict=False)):
            if rows:
                about = (group, start, image, settings.name_column)
                yield ParquetPart(item.path, rows, item.stamp, *about)


def _image_column(place: str, schema: Any, settings: JobSettings) -> str:
    """The column of the images, which are bytes, paths, or both in one, as data sets on the Hugging
    Face Hub have them."""
    has = f"it has {', '.join(schema.names)}"
    for column in (settings.image_column, settings.name_column):
        if column is not None and column not in schema.names:
            raise InputError(f"{place} has no column {column!r}: {has}.")
    chosen = settings.image_column or next((n for n in IMAGE_COLUMNS if n in schema.names), None)
    kind = str(schema.field(chosen).type) if chosen else ""
    plain = kind.removeprefix("large_") in ("binary", "string")
    if not plain and not ("bytes: " in kind and "path: " in kind):
        raise InputError(f"{place}: name the column of the images, --columns; {has}.")
    return str(chosen)


def _opened(place: str) -> Any:
    parquet = require("pyarrow.parquet", "scale")
    stream = open_input(place)
    try:
        return parquet.ParquetFile(stream)
    except Exception as error:  # pyarrow raises many kinds on damaged files
        stream.close()
        raise InputError(
            f"{place} is not a readable Parquet file ({type(error).__name__}): copy it again."
        ) from error


def _cell(place: str, value: Any, name: str) -> Content:
    """The bytes of a cell: they themselves, a path, or either of them in a struct. A path counts
    from the folder of the Parquet file."""
    if isinstance(value, dict):
        value = value["bytes"] or value["path"]
    if value is None:
        return InputError(f"{name} has no image in its row: fill it, or drop the row.")
    if isinstance(value, bytes):
        return value
    if not is_uri(value) and not Path(value).is_absolute():
        folder = place.rpartition("/")[0]
        value = join(folder, value) if is_uri(place) else str(Path(place).parent / value)
    try:
        return read_bytes(value)
    except InputError as error:
        return error


# -- tars ------------------------------------------------------------------------------------


class Member(NamedTuple):
    """An image in a tar."""

    name: str
    offset: int
    size: int
    error: str = ""
    """why it cannot be read"""


@dataclass
class TarPart(Part):
    """Some of the images of a tar, one after the other."""

    members: list[Member]

    def name_of(self, index: int) -> str:
        return f"{self.place}#{self.members[index].name}"

    def contents(self, start: int) -> Iterator[tuple[str, Content]]:
        with open_input(self.place) as stream:
            for member in self.members[start:]:
                full = f"{self.place}#{member.name}"
                if member.error:
                    why = f"{full} {member.error}" if member.name else member.error
                    yield full, InputError(why)
                    continue
                stream.seek(member.offset)
                yield full, bytes(stream.read(member.size))


def tar_parts(items: Iterable[Input], settings: JobSettings) -> Iterator[TarPart]:
    """The images of each tar, so many at a time."""
    for item in items:
        members = iter(tar_members(item.path))
        while some := list(islice(members, settings.part_size or TAR_SIZE)):
            yield TarPart(item.path, len(some), item.stamp, some)


def tar_members(place: str) -> list[Member]:
    """The images of a tar; only headers are read.

    A tar that breaks off keeps what comes before; the rest is one member with an error.
    """
    members: list[Member] = []
    with open_input(place) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        try:
            with tarfile.open(fileobj=stream, mode="r:", bufsize=1 << 20) as tar:
                for member in tar:
                    if member.isfile() and member.name.lower().endswith(IMAGE_SUFFIXES):
                        about = (member.name, member.offset_data, member.size)
                        members.append(Member(*about, _member_error(member, size)))
                    tar.members = []  # type: ignore[attr-defined]  # it would keep all of them
        except (tarfile.TarError, OSError, ValueError, MemoryError, OverflowError) as error:
            why = f"{place} is not a whole tar ({brief(error)}): copy it again."
            if not members:
                raise InputError(why) from error
            members.append(Member("", 0, 0, why))
    return members


def _member_error(member: tarfile.TarInfo, size: int) -> str:
    if member.issparse():
        return "is a sparse member, whose size nobody can check: pack it again as a plain file."
    if member.size > MAX_MEMBER or member.offset_data + member.size > size:
        return f"claims {member.size:,} bytes, more than there are: pack it again."
    return ""
