"""Images inside other files: row groups of Parquet files, and members of tars."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from luvli.errors import InputError, brief, require
from luvli.image.read import IMAGE_SUFFIXES
from luvli.prediction.parts import Part
from luvli.prediction.places import is_uri, join, open_input, read_bytes

IMAGE_COLUMNS = ("image", "img", "jpg", "jpeg", "png", "bytes", "content", "picture", "path",
                 "file")  # fmt: skip
"""columns that are taken for the images when none is named; the first one counts"""
BATCH = 16
"""rows whose images are in memory together"""
MAX_MEMBER = 1 << 30
"""bytes of the largest image in a tar"""

Content = bytes | InputError
"""an image's bytes, or why there are none"""


class ParquetFiles:
    """Looks into Parquet files, which must agree, and gives a part for each row group."""

    def __init__(self, image: str | None, name: str | None) -> None:
        self.image, self.name = image, name
        self._first: tuple[str, Any] | None = None

    def parts(self, place: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Rows and description of each row group of a file."""
        with _opened(place) as file:
            schema = file.schema_arrow.remove_metadata()
            groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        if self._first is None:
            self._first, self.image = (place, schema), self._image_column(place, schema)
        first, expected = self._first
        if not schema.equals(expected):
            differ = [f"{f.name}: {f.type}" for f in schema if f not in set(expected)]
            raise InputError(
                f"{place} has other columns than {first} ({', '.join(differ[:3]) or 'fewer'}): "
                "give files of one schema."
            )
        about = {"image": self.image, "name": self.name}
        first_rows = accumulate(groups, initial=0)
        for group, (rows, first_row) in enumerate(zip(groups, first_rows, strict=False)):
            if rows:
                yield rows, {"row_group": group, "first_row": first_row, **about}

    def _image_column(self, place: str, schema: Any) -> str:
        """The column of the images, which are bytes, paths, or both in one, as data sets on the
        Hugging Face Hub have them."""
        has = f"it has {', '.join(schema.names)}"
        for column in (self.image, self.name):
            if column is not None and column not in schema.names:
                raise InputError(f"{place} has no column {column!r}: {has}.")
        chosen = self.image or next((n for n in IMAGE_COLUMNS if n in schema.names), None)
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


def read_parquet_part(part: Part, start: int) -> Iterator[tuple[str, Content]]:
    """Name and bytes of each image from row `start` of the part on, a few in memory at a time."""
    image, name_column = part.about["image"], part.about["name"]
    columns, groups = [image, *([name_column] if name_column else [])], [part.about["row_group"]]
    with _opened(part.place) as file:
        batches = file.iter_batches(BATCH, row_groups=groups, columns=columns)
        rows = (values for batch in batches for values in batch.to_pylist())
        for number, values in enumerate(rows):
            if number >= start:
                value = values[image]
                default = value if isinstance(value, str) and value else part.name_of(number)
                name = str((name_column and values[name_column]) or default)
                yield name, _content(part.place, value, name)


def _content(place: str, value: Any, name: str) -> Content:
    """The bytes of a cell: they themselves, a path, or either of them in a struct. A path counts
    from the folder of the Parquet file."""
    if isinstance(value, dict):
        value = value["bytes"] or value["path"]
    if value is None:
        return InputError(f"{name} has no image in its row: fill it, or drop the row.")
    if isinstance(value, bytes):
        return value
    folder = place.rpartition("/")[0]
    inside = folder and not is_uri(value) and not value.startswith("/")
    try:
        return read_bytes(join(folder, value) if inside else value)
    except InputError as error:
        return error


def carried_columns(part: Part) -> Any:
    """The other columns of a part's rows, as a pyarrow table."""
    with _opened(part.place) as file:
        names = [name for name in file.schema_arrow.names if name != part.about["image"]]
        return file.read_row_group(part.about["row_group"], columns=names)


def tar_entries(place: str) -> list[tuple[str, int, int, str]]:
    """Name, offset, size and error of each image of a tar; only headers are read.

    A tar that breaks off keeps what comes before; the rest is one entry with an error.
    """
    entries: list[tuple[str, int, int, str]] = []
    with open_input(place) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        try:
            with tarfile.open(fileobj=stream, mode="r:", bufsize=1 << 20) as tar:
                for member in tar:
                    if member.isfile() and member.name.lower().endswith(IMAGE_SUFFIXES):
                        error = _member_error(member, size)
                        entries.append((member.name, member.offset_data, member.size, error))
                    tar.members = []  # type: ignore[attr-defined]  # it would keep all of them
        except (tarfile.TarError, OSError, ValueError, MemoryError, OverflowError) as error:
            why = f"{place} is not a whole tar ({brief(error)}): copy it again."
            if not entries:
                raise InputError(why) from error
            entries.append(("", 0, 0, why))
    return entries


def _member_error(member: tarfile.TarInfo, size: int) -> str:
    if member.issparse():
        return "is a sparse member, whose size nobody can check: pack it again as a plain file."
    if member.size > MAX_MEMBER or member.offset_data + member.size > size:
        return f"claims {member.size:,} bytes, more than there are: pack it again."
    return ""


def read_tar_part(part: Part, start: int) -> Iterator[tuple[str, Content]]:
    """Names and bytes of the images of a part."""
    with open_input(part.place) as stream:
        for index, (name, offset, size, error) in enumerate(part.items[start:], start):
            full = part.name_of(index)
            if error:
                yield full, InputError(f"{full} {error}" if name else error)
                continue
            stream.seek(offset)
            yield full, bytes(stream.read(size))
