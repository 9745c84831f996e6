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

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from luvli.data.formats.common import check_unpacked
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
    path: Path, needs: Sequence[str], columns: Sequence[str] | None = None, size: int | None = None
) -> Iterator[Any]:
    """A file as pyarrow tables, at most `size` rows or a row group in each, of those of `columns`
    that it has; one sentence where it is damaged or has none of the columns that it `needs`."""
    arrow = require("pyarrow", "scale")
    parquet = require("pyarrow.parquet", "scale")
    try:
        with parquet.ParquetFile(path) as content:
            names = content.schema_arrow.names
            for column in needs:
                if column not in names:
                    raise InputError(
                        f"{path} has no column {column!r} (it has {', '.join(names)}): write it "
                        "with luvli, or name its columns so."
                    )
            wanted = names if columns is None else [c for c in columns if c in names]
            groups = [content.metadata.row_group(i) for i in range(content.num_row_groups)]
            _check_size(path, groups)
            if not content.metadata.num_rows:
                yield content.schema_arrow.empty_table()
            for i, group in enumerate(groups):
                rows = size or max(1, group.num_rows)
                for batch in content.iter_batches(rows, row_groups=[i], columns=wanted):
                    table = arrow.Table.from_batches([batch])
                    table.validate(full=True)  # words that are none, lists that end too late
                    yield table
    except InputError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise InputError(
            f"{path} is not a readable Parquet file ({type(error).__name__}): write it again."
        ) from error


def _check_size(file: Path, groups: Sequence[Any]) -> None:
    """Refuse a file that holds far more numbers than bytes: repeated values take no space."""
    values = sum(g.column(i).num_values for g in groups for i in range(g.num_columns))
    check_unpacked(file, max(8 * values, sum(group.total_byte_size for group in groups)))


def face_batches(path: PathLike, size: int = 1000) -> Iterator[Any]:
    """The faces of a file or folder as pyarrow tables of at most `size` rows, in order.

    Only one of them is in memory at a time. Rows without a face are left out.
    """
    first: tuple[Path, Any] | None = None
    for file in face_files(path):
        for table in parquet_tables(file, ["points"], size=size):
            schema = table.schema.remove_metadata()
            first = first or (file, schema)
            if not schema.equals(first[1]):
                raise InputError(
                    f"{file} has other columns than {first[0]}: give results of one run."
                )
            yield _only_faces(_as_schema(table, file))


def read_face_table(path: PathLike) -> Any:
    """The pyarrow table of the faces of a file, or of all files of a folder."""
    tables = list(face_batches(path))
    if not tables:  # rows were promised, and there are none
        raise InputError(f"{path} is not a whole parquet file: write it again.")
    return require("pyarrow", "scale").concat_tables(tables)


def _as_schema(table: Any, file: Path) -> Any:
    """The table with the types of `face_schema`, and of the labels in reports, where others wrote
    its columns in wider or other ones."""
    arrow = require("pyarrow", "scale")
    numbers = arrow.list_(arrow.float64())
    labels = {"truth": numbers, "visibility_class": arrow.list_(arrow.int8()), "label_box": numbers,
              "face_id": arrow.string(), "paper_pixel": arrow.float64()}  # fmt: skip
    for field in (*face_schema(), *(arrow.field(*label) for label in labels.items())):
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
