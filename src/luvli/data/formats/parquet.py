"""Predicted faces as Parquet: one row for each face, numbers as flat lists. Images without a face
and images that failed have a row with nothing else, so that every image is accounted for.

`luvli predict --format parquet` writes these columns, which docs/scale.md lists; `luvli score`
reads them, and the `predictions.parquet` of a report has them too, beside the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from luvli.data.formats.checked import check_unpacked, expecting
from luvli.errors import InputError, require
from luvli.files import PathLike, unreadable


def face_schema() -> Any:
    """The pyarrow schema of predicted faces."""
    arrow = require("pyarrow", "scale")
    word, number, count = arrow.string(), arrow.float64(), arrow.int64()
    yes_or_no, numbers = arrow.bool_(), arrow.list_(arrow.float64())
    types = {
        "image": word, "status": word, "error": word, "frame": count, "time": number,
        "track": count, "markup": word, "score": number, "confidence": number,
        "expected_error": number, "eyes_closed": number, "accepted": yes_or_no,
        "visibility_trained": yes_or_no,
        "covariance_trained": yes_or_no, "box": numbers, "points": numbers, "covariance": numbers,
        "likelihood": word, "visibility": numbers, "occlusion_trained": yes_or_no,
        "occlusion": numbers, "width": count, "height": count,
    }  # fmt: skip
    about = "points x, y; covariance xx, xy, yx, yy of each landmark; image pixels"
    return arrow.schema(types, metadata={"luvli": about})


def face_files(path: PathLike) -> list[Path]:
    """A file, or the Parquet files of a folder in order, as `luvli predict --engine ray` writes it.

    What begins with a dot or an underscore is no result.
    """
    source = Path(path)
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise unreadable(source)
    files = sorted(
        file
        for file in source.rglob("*.parquet")
        if not any(name.startswith((".", "_")) for name in file.relative_to(source).parts)
    )
    if not files:
        raise InputError(f"{source} holds no Parquet file: check the path.")
    return files


def parquet_tables(
    path: Path, needs: Sequence[str], columns: Sequence[str] | None = None
) -> Iterator[Any]:
    """The row groups of a file as pyarrow tables of those of `columns` that it has; one sentence
    where it is damaged or has none of the columns that it `needs`."""
    parquet = require("pyarrow.parquet", "scale")
    with (
        expecting(path, "a readable Parquet file", "write it again"),
        parquet.ParquetFile(path) as content,
    ):
        names = content.schema_arrow.names
        if lacking := [column for column in needs if column not in names]:
            raise InputError(
                f"{path} has no column {lacking[0]!r} (it has {', '.join(names)}): write it "
                "with luvli, or name its columns so."
            )
        groups = [content.metadata.row_group(i) for i in range(content.num_row_groups)]
        # repeated values take no space: what numbers there are counts, and not the bytes alone
        values = sum(g.column(i).num_values for g in groups for i in range(g.num_columns))
        check_unpacked(path, max(8 * values, sum(group.total_byte_size for group in groups)))
        wanted = names if columns is None else [c for c in columns if c in names]
        if not groups:
            yield content.schema_arrow.empty_table().select(wanted)
        for i in range(len(groups)):
            table = content.read_row_group(i, columns=wanted)
            table.validate(full=True)  # words that are none, lists that end too late
            yield table


def read_face_table(path: PathLike) -> Any:
    """The faces of a file, or of all files of a folder, as a pyarrow table; rows without a face
    are left out."""
    arrow, compute = require("pyarrow", "scale"), require("pyarrow.compute", "scale")
    tables: list[Any] = []
    files = face_files(path)
    for file in files:
        for table in parquet_tables(file, ["points"]):
            faces = _as_schema(table, file)
            if "status" in faces.column_names:
                faces = faces.filter(compute.equal(faces["status"], "face"))
            if tables and not faces.schema.equals(tables[0].schema):
                raise InputError(
                    f"{file} has other columns than {files[0]}: give results of one run."
                )
            tables.append(faces)
    if not tables:  # rows were promised, and there are none
        raise InputError(f"{path} is not a whole parquet file: write it again.")
    return arrow.concat_tables(tables)


def _as_schema(table: Any, file: Path) -> Any:
    """The table with the types of `face_schema`, and of the labels in reports, where others wrote
    its columns in wider or other ones."""
    arrow = require("pyarrow", "scale")
    numbers = arrow.list_(arrow.float64())
    labels = {"source_points": numbers, "source_visibility": arrow.list_(arrow.int8()),
              "source_box": numbers, "face_id": arrow.string(),
              "paper_pixel": arrow.float64()}  # fmt: skip
    types = {field.name: field.type for field in face_schema()} | labels
    for place, name in enumerate(table.column_names):
        if name in types:
            column = table.column(place)
            try:
                values = column.cast(types[name])
            except Exception as error:  # pyarrow has a kind for each pair of types
                raise InputError(
                    f"{file}: the column {name!r} holds {column.type} instead of {types[name]}: "
                    "write it so."
                ) from error
            table = table.set_column(place, arrow.field(name, types[name]), values)
    return table
