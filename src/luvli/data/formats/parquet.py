"""Predicted faces as parquet: one row for each face, numbers as flat lists. Images without a face
and images that failed have a row with nothing else, so that every image is accounted for.

`luvli predict --format parquet` writes these columns, `luvli score` reads them, and the
`predictions.parquet` of a report has them too, beside the labels:

| column | holds |
|---|---|
| image, frame, time, track | where the face was files; the last three for videos |
| status | `face`; `no face` where there is none, `failed` where nothing could be read |
| error | why it failed |
| markup, score, visibility_trained, covariance_trained | as in `FaceLandmarks` |
| box | x0, y0, x1, y1 |
| points | x, y of each landmark, image pixels |
| covariance | xx, xy, yx, yy of each landmark, image pixels squared |
| likelihood | the density that they belong to; null for the Laplacian |
| visibility | a probability for each landmark |
| occlusion, occlusion_trained | a probability for each landmark; null where the model tells none |
| width, height | of the image, in pixels |
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from luvli.data.formats.common import check_unpacked
from luvli.errors import InputError, require
from luvli.files import PathLike, unreadable


def face_schema() -> Any:
    """The pyarrow schema of predicted faces."""
    arrow = require("pyarrow", "scale")
    numbers = arrow.list_(arrow.float64())
    return arrow.schema(
        [
            ("image", arrow.string()),
            ("status", arrow.string()),
            ("error", arrow.string()),
            ("frame", arrow.int64()),
            ("time", arrow.float64()),
            ("track", arrow.int64()),
            ("markup", arrow.string()),
            ("score", arrow.float64()),
            ("confidence", arrow.float64()),
            ("expected_error", arrow.float64()),
            ("eyes_closed", arrow.float64()),
            ("accepted", arrow.bool_()),
            ("visibility_trained", arrow.bool_()),
            ("covariance_trained", arrow.bool_()),
            ("box", numbers),
            ("points", numbers),
            ("covariance", numbers),
            ("likelihood", arrow.string()),
            ("visibility", numbers),
            ("occlusion_trained", arrow.bool_()),
            ("occlusion", numbers),
            ("width", arrow.int64()),
            ("height", arrow.int64()),
        ],
        metadata={"luvli": "points x, y; covariance xx, xy, yx, yy of each landmark; image pixels"},
    )


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


def face_batches(path: PathLike, size: int = 1000) -> Iterator[Any]:
    """The faces of a file or folder as pyarrow tables of at most `size` rows, in order.

    Only one of them is in memory at a time. Rows without a face are left out.
    """
    arrow = require("pyarrow", "scale")
    parquet = require("pyarrow.parquet", "scale")
    schema: tuple[Path, Any] | None = None
    for file in face_files(path):
        try:
            with parquet.ParquetFile(file) as content:
                columns = content.schema_arrow.remove_metadata()
                if "points" not in columns.names:
                    raise InputError(
                        f"{file} has no column 'points': write it with luvli predict, evaluate "
                        "or score."
                    )
                _check_size(file, content.metadata)
                schema = schema or (file, columns)
                if not columns.equals(schema[1]):
                    raise InputError(
                        f"{file} has other columns than {schema[0]}: give results of one run."
                    )
                if not content.metadata.num_rows:
                    yield _as_schema(content.schema_arrow.empty_table(), file)
                for batch in content.iter_batches(size):
                    table = arrow.Table.from_batches([batch])
                    table.validate(full=True)  # words that are none, lists that end too late
                    yield _only_faces(_as_schema(table, file))
        except InputError:
            raise
        except Exception as error:  # pyarrow raises many kinds on damaged files
            raise InputError(
                f"{file} is not a readable parquet file ({type(error).__name__}): write it again."
            ) from error


def read_face_table(path: PathLike) -> Any:
    """The pyarrow table of the faces of a file, or of all files of a folder."""
    tables = list(face_batches(path))
    if not tables:  # rows were promised, and there are none
        raise InputError(f"{path} is not a whole parquet file: write it again.")
    return require("pyarrow", "scale").concat_tables(tables)


def _check_size(file: Path, metadata: Any) -> None:
    """Refuse a file that holds far more numbers than bytes: repeated values take no space."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    values = sum(g.column(i).num_values for g in groups for i in range(g.num_columns))
    packed = sum(group.total_byte_size for group in groups)
    check_unpacked(file, max(8 * values, packed))


def _as_schema(table: Any, file: Path) -> Any:
    """The table with the types of `face_schema`, and of the labels in reports, where others wrote
    its columns in wider or other ones."""
    arrow = require("pyarrow", "scale")
    numbers = arrow.list_(arrow.float64())
    labels = {"truth": numbers, "visibility_class": arrow.list_(arrow.int8()), "label_box": numbers}
    names = {"face_id": arrow.string(), "paper_pixel": arrow.float64()}
    fields = [arrow.field(name, kind) for name, kind in (labels | names).items()]
    for field in (*face_schema(), *fields):
        if field.name in table.column_names:
            column = table.schema.get_field_index(field.name)
            try:
                values = table[field.name].cast(field.type)
            except Exception as error:  # pyarrow has a kind for each pair of types
                raise InputError(
                    f"{file}: the column {field.name!r} holds {table.schema.field(column).type} "
                    f"instead of {field.type}: write it so."
                ) from error
            table = table.set_column(column, field, values)
    return table


def _only_faces(table: Any) -> Any:
    if "status" not in table.column_names:
        return table
    compute = require("pyarrow.compute", "scale")
    return table.filter(compute.equal(table["status"], "face"))
