"""Several methods on the same labelled faces in one run: accuracy, failures, time, side by side.

A method is a function from an image (H, W, 3) uint8 RGB and a box x0, y0, x1, y1 around the
landmarks to points (k, 2) in image pixels, to `luvli.FaceLandmarks`, whose uncertainty is then
evaluated too, or to None for no face. `mine:my_method` is such a function in the module `mine.py`.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord
from luvli.data.sets import get_set, load_set, parse_part
from luvli.errors import InputError, brief
from luvli.evaluation.bootstrap import Interval
from luvli.evaluation.compare import StoredReport
from luvli.evaluation.labelled_faces import LabelledFaces, predicted_faces
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.table import numbered
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike
from luvli.image.read import ImageArray, read_image
from luvli.progress import Track

QUARTILES = (0.25, 0.5, 0.75)
HOW = (
    "The same faces and boxes for all, in turns on one machine; faces without a prediction count "
    "as 100 %. Time: median and quartiles of one face, image in memory, detection not included."
)

Method = Callable[[ImageArray, Floats], FaceLandmarks | Floats | None]


class NamedMethod(NamedTuple):
    """A method with the name that tables and plots show."""

    name: str
    run: Method


def open_method(what: str) -> NamedMethod:
    """A plug-in `module:function`, or one of our models by name or path."""
    module, _, function = what.partition(":")
    if function and not Path(what).exists() and module.replace(".", "").isidentifier():
        return _plug_in(module, function)
    from luvli.prediction.predictor import load

    predictor = load(what)
    return NamedMethod(
        predictor.info.name,
        lambda image, box: predictor.predict(image, boxes=[list(map(float, box))])[0],
    )


def _plug_in(module: str, function: str) -> NamedMethod:
    """A function of a module of this folder; whatever it raises becomes one sentence."""

    @contextmanager
    def sentence(what: str, fix: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {brief(error)}"
            where = f"{Path(place.filename).name} line {place.lineno}"
            raise InputError(
                f"the plug-in {module}:{function} {what} ({said}, {where}): {fix}."
            ) from error

    sys.path.insert(0, str(Path.cwd()))
    with sentence("cannot be imported", f"keep {module}.py in this folder, or install it"):
        run: Method = getattr(importlib.import_module(module), function)

    def guarded(image: ImageArray, box: Floats) -> FaceLandmarks | Floats | None:
        with sentence("failed", "mend it, or return None where it finds no face"):
            return run(image, box)

    return NamedMethod(function, guarded)


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
    for name, faces, spent in zip(names, predictions, milliseconds, strict=True):
        stacked = Faces.stack(faces)
        labelled = LabelledFaces.from_records(records, stacked, method=name, notes=(HOW,))
        labelled = labelled.with_tight_boxes()
        # the first call also loads and warms up
        timed = spent[1:] if len(spent) > 1 else spent
        low, middle, high = map(float, np.quantile(timed, QUARTILES))
        evaluation = compute_metrics(labelled, resamples=resamples)
        results.append(StoredReport(evaluation, labelled, Interval(middle, low, high)))
    return results


def _as_face(prediction: Any, record: FaceRecord, name: str) -> FaceLandmarks:
    count = len(record.points)
    given = np.full((count, 2), np.nan) if prediction is None else prediction
    points = np.asarray(getattr(given, "points", given), dtype=np.float64)
    if points.shape != (count, 2):
        raise InputError(
            f"{name} must return points of shape ({count}, 2) or None, got {points.shape}."
        )
    if isinstance(prediction, FaceLandmarks):
        return prediction
    return predicted_faces(points[None], markup=record.markup)[0]
