"""Labelled faces as Parquet, images inside.

`luvli data convert FOLDER SHARDS --set SET --to parquet` writes the columns that docs/data.md
lists; the data set `parquet` and `luvli predict SHARDS --engine ray` read them, whoever wrote them.
Only `image` and `points` must be there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from luvli.data.cache import whole_folder
from luvli.data.formats.common import face
from luvli.data.formats.parquet import parquet_tables
from luvli.data.record import FaceRecord
from luvli.errors import InputError, require
from luvli.files import PathLike, unreadable

SHARD_COLUMNS = (
    *("face_id", "points", "visibility", "name", "markup", "dataset"),
    *("box", "box_kind", "attributes"),
)
"""all but the image"""


def write_label_shards(
    folder: PathLike,
    records: Iterable[FaceRecord],
    file_faces: int = 1024,
    group_faces: int = 128,
) -> list[Path]:
    """Write faces with their images as a folder of Parquet files, which appears whole.

    `file_faces` in a file, which are in memory at a time, and `group_faces` in a row group, which
    readers have in memory at a time.
    """
    arrow = require("pyarrow", "scale")
    parquet = require("pyarrow.parquet", "scale")
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} is there already: choose another --out.")
    numbers, words = arrow.list_(arrow.float64()), arrow.string()
    types = dict.fromkeys(SHARD_COLUMNS, words) | {"points": numbers, "box": numbers}
    types["visibility"] = arrow.list_(arrow.int8())
    schema = arrow.schema({"image": arrow.binary(), **types})
    compression = {"image": "none"} | dict.fromkeys(types, "zstd")
    options = {"row_group_size": group_faces, "compression": compression, "use_dictionary": False}
    names: list[str] = []
    with whole_folder(target, "choose another --out") as temporary:
        rows = map(row_of_record, records)
        while part := list(islice(rows, file_faces)):
            names.append(f"{len(names):05d}.parquet")
            table = arrow.Table.from_pylist(part, schema)
            parquet.write_table(table, temporary / names[-1], **options)
    return [target / name for name in names]


def row_of_record(record: FaceRecord) -> dict[str, Any]:
    """A face as a row; its image's bytes as they are in the file."""
    row = {name: getattr(record, name, None) for name in SHARD_COLUMNS}
    row |= {"image": None, "name": None, "points": record.points.ravel(), "attributes": None}
    if record.attributes:
        row["attributes"] = json.dumps(dict(record.attributes))
    if image := record.image:
        try:
            row["image"], row["name"] = image.read_bytes(), image.name
        except OSError as error:
            raise unreadable(image, error) from error
    return row


def record_of_row(row: Mapping[str, Any], fallback: str = "") -> FaceRecord:
    """A row as a face. `fallback`: its id, where the row has none."""
    box, attributes = row.get("box"), row.get("attributes")
    return face(
        row["points"],
        row.get("name") or "",
        row.get("visibility"),
        row.get("markup"),
        box=box,
        box_kind=row.get("box_kind") or "given",
        dataset=row.get("dataset") or "",
        face_id=row.get("face_id") or fallback,
        attributes=json.loads(attributes) if attributes else {},
    )


def label_groups(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """The row groups of a file as pyarrow tables with those of these columns that it has; or one
    sentence."""
    return parquet_tables(path, ("image", "points"), columns)


def image_at(place: str) -> bytes | None:
    """The image of `FILE.parquet#ROW`, as predictions name it; None where there is none."""
    file, _, number = place.rpartition("#")
    if not number.isdecimal() or not Path(file).is_file():
        return None
    row = int(number)
    try:
        for table in label_groups(Path(file), ("image",)):
            if row < len(table):
                return bytes(table["image"][row].as_py())
            row -= len(table)
    except (InputError, TypeError):
        pass
    return None
