"""Labels beside predictions in Parquet: the columns of predicted faces, and those of the labels.

`predictions.parquet` of a report has one row for each label, NaN where it has no prediction. `luvli
predict LABELS --engine ray` carries the columns of its source along and has one row for each face,
so that several rows, or one without a face, may have the same label. The columns of labels that
predictions have too are called `source_points` and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from luvli.data.formats.label_parquet import SHARD_COLUMNS, record_of_row
from luvli.data.formats.parquet import parquet_tables
from luvli.data.record import FaceRecord
from luvli.errors import InputError, brief, require
from luvli.evaluation.labelled_faces import LabelledFaces, faces_at, predicted_faces
from luvli.faces import Faces
from luvli.files import PathLike, whole_file
from luvli.image.box import Box, best_match
from luvli.prediction.read_results import faces_of

ROWS = 1000
"""labels in memory at a time"""
CARRIED = "source_"
"""what stands before the names of a label's columns that predictions have too"""
PREDICTED = (
    *("image", "status", "markup", "score", "confidence", "expected_error", "likelihood"),
    *("visibility_trained", "covariance_trained", "box", "points", "covariance", "visibility"),
)
_ABOUT = ("method", "dataset", "subset", "notes")
_Row = dict[str, Any]


def write_predictions(path: PathLike, faces: LabelledFaces) -> None:
    """One row for each label: its prediction, and the label beside it."""
    arrow = require("pyarrow", "evaluate")
    parquet = require("pyarrow.parquet", "evaluate")
    predicted, n = faces.faces, len(faces)
    arrays = {
        "points": faces.points, "covariance": faces.covariance,
        "visibility": None if faces.visibility is None else predicted.visibility,
        "source_points": faces.labels, "source_visibility": faces.label_visibility,
        "source_box": faces.label_boxes,
    }  # fmt: skip
    same = ("markup", "likelihood", "visibility_trained", "covariance_trained")
    columns = {
        "face_id": faces.names,
        "image": faces.images,
        **{name: [getattr(predicted, name)] * n for name in same},
        "confidence": predicted.confidence,
        "expected_error": predicted.expected_error,
        "paper_pixel": faces.paper_pixel,
        **{name: list(a.reshape(n, -1)) for name, a in arrays.items() if a is not None},
        "attributes": [_attributes(faces, i) for i in range(n)],
    }
    about = {name: getattr(faces, name) for name in _ABOUT}
    table = arrow.table({name: each for name, each in columns.items() if each is not None})
    with whole_file(path) as temporary:
        table = table.replace_schema_metadata({"luvli": json.dumps(about)})
        parquet.write_table(table, temporary, compression="zstd")


def _attributes(faces: LabelledFaces, row: int) -> str:
    subsets = [name for name, mask in faces.subsets.items() if mask[row]]
    lengths = {name: float(values[row]) for name, values in faces.lengths.items()}
    return json.dumps({"subsets": subsets, **lengths})


def read_report_faces(path: PathLike) -> LabelledFaces:
    """The inverse of `write_predictions`."""
    tables = list(parquet_tables(Path(path), ["points"]))
    about = (tables[0].schema.metadata or {}).get(b"luvli", b"")
    rows: list[_Row] = [row for table in tables for row in table.to_pylist()]
    if not about.startswith(b"{") or not rows or "source_points" not in rows[0]:
        raise InputError(
            f"{path} is not the predictions.parquet of a report: score it with luvli score --truth."
        )
    settings: _Row = json.loads(about)
    settings["notes"] = tuple(settings.get("notes", ()))
    if "paper_pixel" in rows[0]:
        settings["paper_pixel"] = np.array([row["paper_pixel"] for row in rows], dtype=np.float64)
    return labelled_rows([[row | {"box": None}] for row in rows], Path(path), **settings)


def label_batches(file: Path) -> Iterator[LabelledFaces]:
    """`ROWS` labels at a time; the rows of one label stand one after the other."""
    labels = groupby(_rows(file), key=lambda row: (row["image"], row.get("face_id")))
    groups = (list(rows) for _, rows in labels)
    while some := list(islice(groups, ROWS)):
        yield labelled_rows(some, file)


def _rows(file: Path) -> Iterator[_Row]:
    wanted = [*PREDICTED, *SHARD_COLUMNS, *(f"{CARRIED}{name}" for name in SHARD_COLUMNS)]
    for table in parquet_tables(file, [], wanted):
        if f"{CARRIED}points" not in table.column_names:
            raise InputError(
                f"{file} has no labels beside its predictions: predict the Parquet of luvli data "
                "export with --engine ray, which carries them along."
            )
        yield from table.to_pylist()


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """What is wrong with a row is one sentence that names the file."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # InputError among them
        no_face = f"it holds a row that is no face ({brief(error)}): write it again."
        why = str(error) if isinstance(error, InputError) else no_face
        raise InputError(f"{file}: {why}") from error


def labelled_rows(groups: Sequence[list[_Row]], file: Path, **about: Any) -> LabelledFaces:
    """The labels of groups of rows, each with the face among its rows that lies where it does."""
    with _reading(file):
        records = [label_of_row(rows[0]) for rows in groups]
        matched = [_at_label(*pair) for pair in zip(records, groups, strict=True)]
        found = [row for row in matched if row is not None]
        if found:
            faces = _faces([{n: row.get(n) for n in PREDICTED} for row in found])
            if found[0].get("covariance_trained"):  # even where no face has a prediction
                faces = replace(faces, covariance_trained=True)
            there = np.array([row is not None for row in matched])
            faces = faces_at(faces, np.where(there, there.cumsum() - 1, -1))
        else:
            points = np.full((len(records), *records[0].points.shape), np.nan)
            faces = predicted_faces(points, markup=records[0].markup)
        images = [str(rows[0].get("image") or "") for rows in groups]
        return LabelledFaces.from_records(records, faces, images=images, **about)


def faces_of_rows(rows: list[_Row], file: Path) -> Faces:
    """Rows of one of our result files as faces."""
    with _reading(file):
        return _faces(rows)


def _faces(rows: list[_Row]) -> Faces:
    return faces_of([row | {"points": np.reshape(row["points"], (-1, 2))} for row in rows]).check()


def label_of_row(row: _Row) -> FaceRecord:
    """The label beside a prediction, whose own columns may have the same names."""
    label = {name: row.get(name) for name in SHARD_COLUMNS if name not in PREDICTED}
    carried = {name: row.get(f"{CARRIED}{name}") for name in SHARD_COLUMNS}
    label |= {name: value for name, value in carried.items() if value is not None}
    label.setdefault("markup", row.get("markup"))
    return record_of_row(label, str(row.get("face_id") or row["image"]))


def _at_label(record: FaceRecord, rows: Sequence[_Row]) -> _Row | None:
    if rows[0].get("box") is None and rows[0].get("points"):  # of a report
        return rows[0]
    rows = [row for row in rows if row["status"] == "face"]
    if not rows or not record.visible.any():
        return None
    count = len(rows[0]["points"]) // 2
    if count != len(record.points):
        raise InputError(
            f"{record.name} has a label of {len(record.points)} points and a prediction of "
            f"{count}: give labels of the model's point set."
        )
    boxes = [Box(*row["box"]) for row in rows]
    best = best_match(Box(*record.tight_box), boxes)
    return None if best is None else rows[boxes.index(best)]
