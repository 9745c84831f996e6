"""Labels beside predictions, batch by batch: what an audit reads, from a data set and a model or
from Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.calibration.photographs import TrainingPhotographs, photograph_name
from luvli.calibration.triage_results import ROWS, face_of_row, open_parquet
from luvli.data.formats.label_parquet import LABEL_COLUMNS, record_of_row
from luvli.data.formats.parquet import face_files
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation.evaluate_model import predict_records
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike
from luvli.image.box import Box, best_match
from luvli.prediction.predictor import Predictor

CARRIED = "source_"
"""what `luvli predict --engine ray` puts before the names of the columns of its source"""
_PREDICTED = (
    *("image", "status", "markup", "score", "confidence", "visibility_trained"),
    *("box", "points", "covariance", "visibility"),
)


@dataclass(frozen=True, eq=False)
class LabelBatch:
    """n labels, and the predictions for m of them."""

    records: tuple[FaceRecord, ...]
    """(n)"""
    images: tuple[str, ...]
    """(n) paths, or names in Parquet"""
    faces: Faces
    """(m) predictions"""
    rows: NDArray[np.intp]
    """(m,) the label of each prediction"""

    @classmethod
    def of(cls, records: Sequence[FaceRecord], faces: Sequence[FaceLandmarks | None]) -> LabelBatch:
        """Records with their predictions, None or empty where there is none."""
        if len(records) != len(faces):
            raise InputError(f"{len(records)} labels and {len(faces)} predictions do not fit.")
        predicted = {
            i: face
            for i, (record, face) in enumerate(zip(records, faces, strict=True))
            if face is not None and not face.is_empty and record.visible.any()
        }
        images = tuple(str(record.image or "") for record in records)
        stacked = Faces.stack(list(predicted.values()))
        return cls(tuple(records), images, stacked, np.array(list(predicted), dtype=np.intp))

    def __len__(self) -> int:
        """Labels with a prediction."""
        return len(self.rows)

    def __getitem__(self, which: Any) -> LabelBatch:
        """Some of the labels that have predictions."""
        chosen = self.rows[which]
        return LabelBatch(
            tuple(self.records[i] for i in chosen.tolist()),
            tuple(self.images[i] for i in chosen.tolist()),
            self.faces[which],
            np.arange(len(chosen)),
        )

    @property
    def labels(self) -> Floats:
        """(m, k, 2)"""
        return np.stack([self.records[i].points for i in self.rows.tolist()])

    @property
    def label_visibility(self) -> NDArray[np.int8]:
        """(m, k)"""
        return np.stack([self.records[i].visibility for i in self.rows.tolist()])


class LabelSource(NamedTuple):
    """Where labels come from: the path of their results below the audit's folder, and a function
    that reads them from the start."""

    path: Path
    batches: Callable[[], Iterable[LabelBatch]]


def predict_unseen(
    predictors: Sequence[Predictor], records: Iterable[FaceRecord]
) -> Iterator[tuple[FaceLandmarks, bool]]:
    """A prediction for each record by a model that was not trained on its photograph.

    With several models, each trained without another part of the set, every face has one
    (cross-fitting). Yields the face and whether its model is known to be trained on it.
    """
    lists = [
        TrainingPhotographs.from_text(p.info.trust.training_photographs)
        if p.info.trust is not None
        else None
        for p in predictors
    ]
    for record in records:
        name = photograph_name(record)
        trained = [known is not None and name in known for known in lists]
        chosen = trained.index(False) if False in trained else 0
        # the tight box where the detector finds no face at the label: the label may be wrong
        labelled = predict_records(predictors[chosen], [record], "detector-or-tight")
        yield labelled.faces[0], trained[chosen]


def has_labels(path: PathLike) -> bool:
    """Whether Parquet holds predictions with labels carried along."""
    place = Path(path)
    if not (place.is_dir() or place.suffix.lower() == ".parquet"):
        return False
    with open_parquet(face_files(place)[0], ()) as content:
        return f"{CARRIED}points" in content.schema_arrow.names


def parquet_sources(path: PathLike) -> list[LabelSource]:
    """The files of `luvli predict LABELS --engine ray`, which carries the columns of its source
    along, labels too, as `source_points` and so on."""
    files = face_files(path)
    root = Path(path) if Path(path).is_dir() else files[0].parent

    def source(file: Path) -> LabelSource:
        return LabelSource(file.relative_to(root), lambda: _batches(file))

    return [source(file) for file in files]


def _batches(file: Path) -> Iterator[LabelBatch]:
    pairs = _pairs(file)
    while some := list(islice(pairs, ROWS)):
        records, images, faces = zip(*some, strict=True)
        batch = LabelBatch.of(records, faces)
        yield LabelBatch(batch.records, images, batch.faces, batch.rows)


def _pairs(file: Path) -> Iterator[tuple[FaceRecord, str, FaceLandmarks | None]]:
    """Each label once, with its image and the face among its rows that lies where it does."""
    try:
        for (image, face_id), rows in groupby(_rows(file), _label_key):
            some = list(rows)
            record = record_of_row(_label(some[0]), str(face_id or image))
            faces = [face_of_row(_prediction(row)) for row in some if row["status"] == "face"]
            yield record, str(image), _at_label(record, faces)
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, InputError):
            raise InputError(f"{file}: {error}") from error
        raise InputError(
            f"{file} holds a row that is no face ({error}): write it again."
        ) from error


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with open_parquet(file, ()) as content:
        names = content.schema_arrow.names
        if f"{CARRIED}points" not in names:
            raise InputError(
                f"{file} has no labels beside its predictions: predict the Parquet of luvli data "
                "export with --engine ray, which carries them along."
            )
        labels = [f"{CARRIED}{name}" for name in LABEL_COLUMNS if f"{CARRIED}{name}" in names]
        labels += [name for name in LABEL_COLUMNS if name in names and name not in _PREDICTED]
        columns = [*(name for name in _PREDICTED if name in names), *labels]
        for batch in content.iter_batches(ROWS, columns=columns):
            yield from batch.to_pylist()


def _label_key(row: dict[str, Any]) -> tuple[Any, Any]:
    return row["image"], row.get("face_id")


def _label(row: dict[str, Any]) -> dict[str, Any]:
    label = {name: row.get(name) for name in LABEL_COLUMNS if name not in _PREDICTED}
    carried = ((name, row.get(f"{CARRIED}{name}")) for name in LABEL_COLUMNS)
    return label | {name: value for name, value in carried if value is not None}


def _prediction(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in _PREDICTED if name not in ("image", "status")}


def _at_label(record: FaceRecord, faces: Sequence[FaceLandmarks]) -> FaceLandmarks | None:
    if not faces or not record.visible.any():
        return None
    if len(faces[0]) != len(record.points):
        raise InputError(
            f"{record.name} has a label of {len(record.points)} points and a prediction of "
            f"{len(faces[0])}: give labels of the model's point set."
        )
    boxes = [Box(*face.box.tolist()) for face in faces]
    best = best_match(Box(*record.tight_box.tolist()), boxes)
    return None if best is None else faces[boxes.index(best)]
