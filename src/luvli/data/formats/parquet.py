"""Predicted faces as parquet: one row for each face, numbers as flat lists.

`luvli predict --format parquet` writes these columns, `luvli score` reads them, and the
`predictions.parquet` of a report has them too, beside the labels:

| column | holds |
|---|---|
| image, frame, time, track | where the face was found; the last three for videos |
| markup, score, visibility_trained | as in `FaceLandmarks` |
| box | x0, y0, x1, y1 |
| points | x, y of each landmark, image pixels |
| covariance | xx, xy, yx, yy of each landmark, image pixels squared |
| visibility | a probability for each landmark |
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from luvli.errors import InputError, require
from luvli.files import PathLike, unreadable


def face_schema() -> Any:
    """The pyarrow schema of predicted faces."""
    arrow = require("pyarrow", "scale")
    numbers = arrow.list_(arrow.float64())
    return arrow.schema(
        [
            ("image", arrow.string()),
            ("frame", arrow.int64()),
            ("time", arrow.float64()),
            ("track", arrow.int64()),
            ("markup", arrow.string()),
            ("score", arrow.float64()),
            ("confidence", arrow.float64()),
            ("expected_error", arrow.float64()),
            ("accepted", arrow.bool_()),
            ("visibility_trained", arrow.bool_()),
            ("box", numbers),
            ("points", numbers),
            ("covariance", numbers),
            ("visibility", numbers),
        ],
        metadata={"luvli": "points x, y; covariance xx, xy, yx, yy of each landmark; image pixels"},
    )


def read_face_table(path: PathLike) -> Any:
    """The pyarrow table of a file that has at least a column `points`."""
    parquet = require("pyarrow.parquet", "scale")
    source = Path(path)
    if not source.is_file():
        raise unreadable(source)
    try:
        table = parquet.read_table(source)
        table.validate(full=True)  # words that are no words, lists that end behind their column
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise InputError(
            f"{source} is not a readable parquet file ({type(error).__name__}): write it again."
        ) from error
    if "points" not in table.column_names:
        raise InputError(
            f"{source} has no column 'points': write it with luvli predict, evaluate or score."
        )
    return table
