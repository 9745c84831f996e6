"""Labels beside predictions, batch by batch: what an audit reads, from a data set and a model or
from Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luvli.calibration.photographs import are_packed, photograph_name, training_photographs
from luvli.data.formats.parquet import face_files, parquet_tables
from luvli.data.record import FaceRecord
from luvli.errors import require
from luvli.evaluation.evaluate_model import predict_records
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.labelled_parquet import CARRIED, label_batches
from luvli.files import PathLike
from luvli.prediction.predictor import Predictor
from luvli.progress import Track


class LabelSource(NamedTuple):
    """Where labels come from."""

    rows: int
    """labels at most"""
    batches: Callable[[], Iterable[LabelledFaces]]
    """reads them from the start; NaN points where a label has no prediction"""


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
            batches.append(faces)
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
    return LabelSource(rows, lambda: (batch for file in files for batch in label_batches(file)))
