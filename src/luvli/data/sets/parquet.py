"""Labelled faces in Parquet, images inside: as `luvli data convert --to parquet` writes them.

Labels are read a row group at a time; images are unpacked once into the cache folder, so that
everything that reads a folder of images (checking, evaluating, training) reads this set as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from luvli.data.cache import unpacked_folder
from luvli.data.formats.label_parquet import SHARD_COLUMNS, label_groups, record_of_row
from luvli.data.formats.parquet import face_files
from luvli.data.record import IMAGE_NAME
from luvli.data.sets.definition import Reading


def read_parquet_set(reading: Reading) -> None:
    """Every row of every file."""
    for file in face_files(reading.root):
        write = partial(_write_images, file)
        folder = unpacked_folder("parquet", file, write) if reading.images else None
        for row, label in enumerate(_rows(file, SHARD_COLUMNS)):
            place = f"{file}#{row}"
            try:
                record = record_of_row(label, f"{file.stem}-{row}")
            except (ValueError, TypeError) as error:
                why = f"is no labelled face ({error}): write it again."
                reading.problem(place, "bad label", f"{place} {why}")
                continue
            attributes = dict(record.attributes)
            if record.image is not None:  # the unpacked file has another name
                attributes[IMAGE_NAME] = record.image.as_posix()
            image = None if folder is None else folder / str(row)
            if image is None or image.is_file():
                reading.add(record.with_changes(image=image, attributes=attributes))
            else:
                why = "has no image: fill it, or drop the row."
                reading.problem(place, "missing image", f"{place} {why}")


def _rows(file: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    return (row for table in label_groups(file, columns) for row in table.to_pylist())


def _write_images(file: Path, folder: Path) -> None:
    """The image of each row, named after the row's number."""
    for row, label in enumerate(_rows(file, ("image",))):
        if isinstance(label["image"], bytes):
            (folder / str(row)).write_bytes(label["image"])
