"""Labelled faces as Parquet, images inside.

`luvli data export SET FOLDER --format parquet --out SHARDS` writes these columns; training
(`set: parquet`) and `luvli predict SHARDS --engine ray` read them, whoever wrote them:

| column | type | holds |
|---|---|---|
| image | binary | the image file's bytes: JPEG, PNG, ... |
| face_id | string | unique in the set |
| points | list of double | x, y of each landmark, image pixels; NaN where there is no location |
| visibility | list of int8 | `Visibility` classes: -1, 0, 1, 2. May be missing: all seen |
| name | string | the image's file name. May be missing |
| markup, dataset | string | may be missing: told by the number of points; none |
| box, box_kind | list of double, string | x0, y0, x1, y1. May be missing: around the landmarks |
| attributes | string | JSON. May be missing |
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from luvli.data.formats.common import default_markup
from luvli.data.record import FaceRecord
from luvli.errors import InputError, OutputError, require
from luvli.files import PathLike, unreadable

FILE_FACES, GROUP_FACES = 1024, 128
"""faces in a file and in a row group: what Ray does at a time"""
LABEL_COLUMNS = (
    *("face_id", "points", "visibility", "name", "markup", "dataset"),
    *("box", "box_kind", "attributes"),
)
"""all but the image"""


def label_schema() -> Any:
    """The pyarrow schema of labelled faces."""
    arrow = require("pyarrow", "scale")
    numbers = arrow.list_(arrow.float64())
    return arrow.schema(
        [
            ("image", arrow.binary()),
            ("face_id", arrow.string()),
            ("name", arrow.string()),
            ("dataset", arrow.string()),
            ("markup", arrow.string()),
            ("points", numbers),
            ("visibility", arrow.list_(arrow.int8())),
            ("box", numbers),
            ("box_kind", arrow.string()),
            ("attributes", arrow.string()),
        ]
    )


def write_label_shards(
    folder: PathLike,
    records: Sequence[FaceRecord],
    file_faces: int = FILE_FACES,
    group_faces: int = GROUP_FACES,
    track: Callable[[Iterable[FaceRecord]], Iterable[FaceRecord]] = iter,
) -> list[Path]:
    """Write faces with their images as a folder of Parquet files, which appears whole.

    One row group is in memory at a time.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} is there already: choose another --out.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".luvli-tmp-", dir=target.parent))
    except OSError as error:
        raise OutputError(
            f"{target} cannot be written ({error.strerror}): choose another place."
        ) from error
    try:
        names = _write(made, track(records), file_faces, group_faces)
        made.chmod(0o755)
        made.replace(target)
    except OSError as error:
        raise OutputError(
            f"{target} could not be written ({error.strerror or error}): free some space or "
            "choose another place."
        ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return [target / name for name in names]


def _write(
    folder: Path, records: Iterable[FaceRecord], file_faces: int, group_faces: int
) -> list[str]:
    arrow = require("pyarrow", "scale")
    parquet = require("pyarrow.parquet", "scale")
    schema = label_schema()
    names: list[str] = []
    writer: Any = None
    rows: list[dict[str, Any]] = []
    in_file = 0

    def flush() -> None:
        nonlocal rows
        if rows:
            writer.write_table(arrow.Table.from_pylist(rows, schema), row_group_size=group_faces)
            rows = []

    try:
        for record in records:
            if writer is None or in_file == file_faces:
                flush()
                if writer is not None:
                    writer.close()
                names.append(f"{len(names):05d}.parquet")
                compression = {"image": "none"} | dict.fromkeys(schema.names[1:], "zstd")
                writer = parquet.ParquetWriter(
                    folder / names[-1], schema, compression=compression, use_dictionary=False
                )
                in_file = 0
            rows.append(row_of_record(record))
            in_file += 1
            if len(rows) == group_faces:
                flush()
        flush()
    finally:
        if writer is not None:
            writer.close()
    return names


def row_of_record(record: FaceRecord) -> dict[str, Any]:
    """A face as a row of `label_schema`; its image's bytes as they are in the file."""
    image = record.image
    try:
        content = None if image is None else image.read_bytes()
    except OSError as error:
        raise unreadable(image or "", error) from error
    return {
        "image": content,
        "face_id": record.face_id,
        "name": None if image is None else image.name,
        "dataset": record.dataset,
        "markup": record.markup,
        "points": record.points.ravel(),
        "visibility": record.visibility,
        "box": record.box,
        "box_kind": record.box_kind,
        "attributes": json.dumps(dict(record.attributes)) if record.attributes else None,
    }


def record_of_row(
    row: Mapping[str, Any], fallback: str = "", image: Path | None = None
) -> FaceRecord:
    """A row of `label_schema` as a face. `fallback`: its id, where the row has none."""
    points = np.reshape(np.asarray(row["points"], np.float64), (-1, 2))
    visibility = row.get("visibility")
    if visibility is None:
        visibility = np.where(np.isfinite(points).all(axis=1), 1, -1)
    box = row.get("box")
    attributes = row.get("attributes")
    return FaceRecord(
        points=points,
        visibility=np.asarray(visibility, np.int8),
        image=image or (Path(row["name"]) if row.get("name") else None),
        box=None if box is None else np.asarray(box, np.float64),
        box_kind=row.get("box_kind") or ("tight" if box is None else "given"),
        markup=row.get("markup") or default_markup(len(points)),
        dataset=row.get("dataset") or "",
        face_id=row.get("face_id") or fallback,
        attributes=json.loads(attributes) if attributes else {},
    )


def open_labels(path: Path, wanted: Sequence[str] = ("image", "points")) -> Any:
    """A Parquet file of labelled faces, or one sentence."""
    parquet = require("pyarrow.parquet", "scale")
    try:
        content = parquet.ParquetFile(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise InputError(
            f"{path} is not a readable Parquet file ({type(error).__name__}): copy it again."
        ) from error
    names = content.schema_arrow.names
    for column in wanted:
        if column not in names:
            raise InputError(
                f"{path} has no column {column!r} (it has {', '.join(names)}): write it with luvli "
                "data export --format parquet, or name its columns so."
            )
    return content


def image_at(place: str) -> bytes | None:
    """The image of `FILE.parquet#ROW`, as predictions of Parquet name it; None if it is not there.

    Only its row group is read.
    """
    file, mark, number = place.rpartition("#")
    if not mark or not number.isdecimal() or not Path(file).is_file():
        return None
    row = int(number)
    try:
        with open_labels(Path(file), ("image",)) as content:
            for group in range(content.num_row_groups):
                count = content.metadata.row_group(group).num_rows
                if row < count:
                    column = content.read_row_group(group, columns=["image"])["image"]
                    return bytes(column[row].as_py())
                row -= count
    except (InputError, TypeError):
        return None
    return None
