"""Labels beside predictions, batch by batch: what an audit reads, from a data set and a model or
from Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.calibration.photographs import are_packed, photograph_name, training_photographs
from luvli.calibration.triage_results import faces_of_rows
from luvli.data.formats.label_parquet import SHARD_COLUMNS, record_of_row
from luvli.data.formats.parquet import face_files, parquet_tables
from luvli.data.record import FaceRecord
from luvli.errors import InputError, brief, require
from luvli.evaluation.evaluate_model import predict_records
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.files import PathLike
from luvli.image.box import Box, best_match
from luvli.prediction.predictor import Predictor
from luvli.progress import Track

ROWS = 1000
"""labels in memory at a time"""
CARRIED = "source_"
"""what `luvli predict --engine ray` puts before the names of the columns of its source"""
PREDICTED = (
    *("image", "status", "markup", "score", "confidence", "visibility_trained", "likelihood"),
    *("box", "points", "covariance", "visibility"),
)
_Row = dict[str, Any]


class LabelBatch(NamedTuple):
    """Labels with predictions, and how many have none."""

    faces: LabelledFaces | None
    """None: none of the labels has a prediction"""
    without_face: int = 0

    @classmethod
    def of(cls, labelled: LabelledFaces) -> LabelBatch:
        """Faces of which some may have no prediction."""
        found = np.isfinite(labelled.points).all(axis=(1, 2)) & labelled.visible.any(axis=1)
        return cls(labelled[found] if found.any() else None, int((~found).sum()))


class LabelSource(NamedTuple):
    """Where labels come from."""

    rows: int
    """labels at most"""
    batches: Callable[[], Iterable[LabelBatch]]
    """reads them from the start"""


def predicted_source(
    predictors: Sequence[Predictor], records: Sequence[FaceRecord], progress: Track = iter
) -> tuple[LabelSource, int]:
    """The labels of a set that fits into memory, each with the prediction of a model that was not
    trained on its photograph; and for how many all models were.

    Several models, each trained without another part of the set, are used crosswise.
    """
    names = [photograph_name(record) for record in records]
    lists = (training_photographs(predictor.info) for predictor in predictors)
    trained = np.stack([are_packed(names, packed) for packed in lists], axis=1)
    chosen = trained.argmin(axis=1)
    batches = []
    for number, predictor in enumerate(predictors):
        part = [records[i] for i in np.flatnonzero(chosen == number).tolist()]
        if part:  # the tight box where the detector finds no face: the label may be wrong
            faces = predict_records(predictor, part, "detector-or-tight", progress=progress)
            batches.append(LabelBatch.of(faces))
    return LabelSource(len(records), lambda: batches), int(trained.all(axis=1).sum())


def has_labels(path: PathLike) -> bool:
    """Whether Parquet holds predictions with labels carried along."""
    place = Path(path)
    if not (place.is_dir() or place.suffix.lower() == ".parquet"):
        return False
    wanted = [f"{CARRIED}points"]
    return bool(next(parquet_tables(face_files(place)[0], [], wanted)).column_names)


def parquet_source(path: PathLike) -> LabelSource:
    """The file or folder of `luvli predict LABELS --engine ray`, which carries the columns of its
    source along, labels too, as `source_points` and so on."""
    parquet = require("pyarrow.parquet", "scale")
    files = face_files(path)
    rows = sum(parquet.read_metadata(file).num_rows for file in files)
    return LabelSource(rows, lambda: (batch for file in files for batch in _batches(file)))


def _batches(file: Path) -> Iterator[LabelBatch]:
    """`ROWS` labels at a time; those of one face stand one after the other."""
    labels = groupby(_rows(file), key=lambda row: (row["image"], row.get("face_id")))
    groups = (list(rows) for _, rows in labels)
    while some := list(islice(groups, ROWS)):
        try:
            yield _batch(some, file)
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{file} holds a row that is no face ({brief(error)}): write it again."
            ) from error


def _rows(file: Path) -> Iterator[_Row]:
    wanted = [*PREDICTED, *SHARD_COLUMNS, *(f"{CARRIED}{name}" for name in SHARD_COLUMNS)]
    for table in parquet_tables(file, [], wanted):
        if f"{CARRIED}points" not in table.column_names:
            raise InputError(
                f"{file} has no labels beside its predictions: predict the Parquet of luvli data "
                "export with --engine ray, which carries them along."
            )
        yield from table.to_pylist()


def _batch(groups: Sequence[list[_Row]], file: Path) -> LabelBatch:
    """Each label with the face among its rows that lies where it does."""
    pairs = [(_label(rows[0]), rows) for rows in groups]
    matched = [(record, _at_label(record, rows)) for record, rows in pairs]
    chosen = [(record, row) for record, row in matched if row is not None]
    without = len(groups) - len(chosen)
    if not chosen:
        return LabelBatch(None, without)
    predicted = [{name: row.get(name) for name in PREDICTED} for _, row in chosen]
    faces = faces_of_rows(predicted, file)
    labelled = LabelledFaces.from_records([record for record, _ in chosen], faces)
    return LabelBatch(
        replace(labelled, images=tuple(str(row["image"]) for row in predicted)), without
    )


def _label(row: _Row) -> FaceRecord:
    """The label beside a prediction, whose own columns may have the same names."""
    label = {name: row.get(name) for name in SHARD_COLUMNS if name not in PREDICTED}
    carried = {name: row.get(f"{CARRIED}{name}") for name in SHARD_COLUMNS}
    label |= {name: value for name, value in carried.items() if value is not None}
    return record_of_row(label, str(row.get("face_id") or row["image"]))


def _at_label(record: FaceRecord, rows: Sequence[_Row]) -> _Row | None:
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
