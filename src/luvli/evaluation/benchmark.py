"""Several methods on the same labelled faces in one run: accuracy, failures, time, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord
from luvli.data.sets import get_set, load_set, parse_part
from luvli.errors import InputError
from luvli.evaluation.bootstrap import Interval
from luvli.evaluation.compare import StoredReport
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.methods import NamedMethod
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.table import numbered
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike
from luvli.image.read import read_image
from luvli.progress import Track

QUARTILES = (0.25, 0.5, 0.75)
HOW = (
    "The same faces and boxes for all, in turns on one machine; faces without a prediction count "
    "as 100 %. Time: median and quartiles of one face, image in memory, detection not included."
)


def labelled_faces(folder: PathLike, dataset: str = "folder") -> Sequence[FaceRecord]:
    """The faces to run on: a folder of one's own, or a data set's test split."""
    split = parse_part(dataset).split or get_set(dataset).test_split
    return load_set(dataset, folder, split, skip_bad=True).records


def run_methods(
    methods: Sequence[NamedMethod],
    records: Sequence[FaceRecord],
    *,
    resamples: int = 1000,
    progress: Callable[[str], Track] = lambda name: iter,
) -> list[StoredReport]:
    """Every method on every face, with the same boxes: tight ones with the paper's noise.

    Methods take turns face by face, so that whatever else the machine does weighs on all of
    them alike.
    """
    if not methods:
        raise InputError("there is no method to run: name one, for instance luvli-68.")
    markups = {record.markup for record in records}
    if len(markups) != 1:
        raise InputError(f"the faces must share one markup, they have {sorted(markups)}.")
    predictions: list[list[FaceLandmarks]] = [[] for _ in methods]
    milliseconds = np.full((len(methods), len(records)), np.nan)
    for i, record in enumerate(progress("running")(records)):
        if record.image is None:
            raise InputError(f"{record.name} has no image: a method cannot be run on it.")
        image = read_image(record.image)
        box = crop_box(record, "paper").array
        for m, method in enumerate(methods):
            clock = time.perf_counter()
            prediction = method.run(image, box)
            milliseconds[m, i] = (time.perf_counter() - clock) * 1000.0
            predictions[m].append(_as_face(prediction, record, method.name))
    results = []
    names = numbered([method.name for method in methods])
    for name, method, faces, spent in zip(names, methods, predictions, milliseconds, strict=True):
        labelled = LabelledFaces.from_records(
            records, Faces.stack(faces), method=name, notes=(HOW, *method.notes)
        ).with_tight_boxes()
        # the first call also loads and warms up
        timed = spent[1:] if len(spent) > 1 else spent
        low, middle, high = map(float, np.quantile(timed, QUARTILES))
        evaluation = compute_metrics(labelled, resamples=resamples)
        results.append(StoredReport(evaluation, labelled, Interval(middle, low, high)))
    return results


def _as_face(prediction: Any, record: FaceRecord, name: str) -> FaceLandmarks:
    count = len(record.points)
    if prediction is None:
        prediction = np.full((count, 2), np.nan)
    face = prediction if isinstance(prediction, FaceLandmarks) else None
    points = np.asarray(prediction if face is None else face.points, np.float64)
    if points.shape != (count, 2):
        raise InputError(
            f"{name} must return points of shape ({count}, 2) or None, got {points.shape}."
        )
    if face is not None:
        return face
    return FaceLandmarks(
        points=points, covariance=np.full((count, 2, 2), np.nan), visibility=np.zeros(count),
        box=np.full(4, np.nan), markup=record.markup, visibility_trained=False,
        covariance_trained=False,
    )  # fmt: skip
