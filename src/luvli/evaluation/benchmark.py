"""Several methods on the same labelled faces in one run: accuracy, failures, time, side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord
from luvli.data.sets import get_set, load_set, parse_part
from luvli.errors import InputError
from luvli.evaluation.accuracy import normalizer_name
from luvli.evaluation.bootstrap import Interval
from luvli.evaluation.compare import StoredReport, comparison_tables
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.methods import NamedMethod
from luvli.evaluation.metrics import Evaluation, compute_metrics
from luvli.evaluation.page import PagePart, Picture, png, write_page
from luvli.evaluation.plot_style import PlotOptions, colour, new_figure, plain
from luvli.evaluation.plots import draw_plot
from luvli.evaluation.registry import get_metric
from luvli.evaluation.table import Table, interval, number, numbered
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike, whole_file, write_text
from luvli.image.read import read_image
from luvli.progress import Track

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class MethodResult(NamedTuple):
    """One method's predictions, metrics and time."""

    faces: LabelledFaces
    metrics: Evaluation
    milliseconds: tuple[float, ...]
    """of each face, image in memory, the first call left out"""

    @property
    def time(self) -> Interval:
        """Median time of a face in milliseconds, between its quartiles."""
        if not self.milliseconds:
            return Interval(float("nan"))
        low, middle, high = np.quantile(self.milliseconds, (0.25, 0.5, 0.75))
        return Interval(float(middle), float(low), float(high))


def labelled_faces(
    folder: PathLike, dataset: str = "folder", limit: int | None = None
) -> list[FaceRecord]:
    """The faces to run on: a folder of one's own, or a data set's test split."""
    split = parse_part(dataset).split or get_set(dataset).test_split
    faces = load_set(dataset, folder, split, skip_bad=True)
    step = 1 if limit is None else max(1, len(faces) // limit)
    return list(faces.records[::step][:limit])


def run_methods(
    methods: Sequence[NamedMethod],
    records: Sequence[FaceRecord],
    *,
    resamples: int = 1000,
    progress: Callable[[str], Track] = lambda name: iter,
) -> list[MethodResult]:
    """Every method on every face, with the same boxes: tight ones with the paper's noise.

    Methods take turns face by face, so that whatever else the machine does weighs on all of
    them alike.
    """
    if not methods:
        raise InputError("there is no method to run: name one, for instance luvli-68.")
    predictions: list[list[FaceLandmarks]] = [[] for _ in methods]
    spent: list[list[float]] = [[] for _ in methods]
    markups = {record.markup for record in records}
    if len(markups) != 1:
        raise InputError(f"the faces must share one markup, they have {sorted(markups)}.")
    for number_of_face, record in enumerate(progress("running")(records)):
        if record.image is None:
            raise InputError(f"{record.name} has no image: a method cannot be run on it.")
        image = read_image(record.image)
        box = crop_box(record, "paper").array
        for i, method in enumerate(methods):
            clock = time.perf_counter()
            prediction = method.run(image, box)
            if number_of_face:  # the first call also loads and warms up
                spent[i].append((time.perf_counter() - clock) * 1000.0)
            predictions[i].append(_as_face(prediction, record, method.name))
    results = []
    names = numbered([method.name for method in methods])
    for name, method, faces, milliseconds in zip(names, methods, predictions, spent, strict=True):
        labelled = LabelledFaces.from_records(
            records, Faces.stack(faces), method=name, notes=method.notes
        ).with_tight_boxes()
        evaluation = compute_metrics(labelled, resamples=resamples)
        results.append(MethodResult(labelled, evaluation, tuple(milliseconds)))
    return results


def _as_face(prediction: Any, record: FaceRecord, name: str) -> FaceLandmarks:
    count = len(record.points)
    if isinstance(prediction, FaceLandmarks):
        if len(prediction) != count:
            raise InputError(
                f"{name} predicts {len(prediction)} landmarks, the faces have {count}."
            )
        return prediction
    points = np.full((count, 2), np.nan)
    if prediction is not None:
        points = np.asarray(prediction, np.float64)
    if points.shape != (count, 2):
        raise InputError(
            f"{name} must return points of shape ({count}, 2) or None, got {points.shape}."
        )
    return FaceLandmarks(
        points=points, covariance=np.full((count, 2, 2), np.nan), visibility=np.zeros(count),
        box=np.full(4, np.nan), markup=record.markup, visibility_trained=False,
        covariance_trained=False,
    )  # fmt: skip


def benchmark_table(results: Sequence[MethodResult], normalizer: str = "interocular") -> Table:
    """Accuracy, failures and time of all methods."""
    eyes = all(f"nme_{normalizer}" in result.metrics.metrics for result in results)
    kind = normalizer if eyes else "box"
    names = list(dict.fromkeys([f"nme_{kind}", "nme_box", f"fr10_{kind}", f"auc8_{kind}"]))
    fastest = min((r.time.value for r in results if r.milliseconds), default=float("nan"))
    rows = [
        [result.metrics.method, f"{result.metrics.faces:,}", str(len(result.metrics.failed)),
         *(interval(result.metrics.metrics.get(name)) for name in names),
         interval(result.time, 1), number(result.time.value / fastest, 1)]
        for result in results
    ]  # fmt: skip
    columns = [get_metric(name) for name in names]
    return Table(
        "Benchmark",
        ["method", "faces", "without prediction", *(metric.title for metric in columns),
         "time of a face", "times the fastest"],
        rows,
        ["", "", "", *(metric.unit for metric in columns), "ms", ""],
        [
            "The same faces and boxes for all, in turns on one machine. Means over faces with 95 % "
            "bootstrap intervals; faces without a prediction count as 100 %. Time: median and "
            "quartiles of one face, image in memory, detection not included.",
            *dict.fromkeys(note for result in results for note in result.metrics.notes),
        ],
    )  # fmt: skip


def write_benchmark(
    folder: PathLike, results: Sequence[MethodResult], normalizer: str = "interocular"
) -> None:
    """`benchmark.html`, `benchmark.md`, `benchmark.json`, `ced.png` and `speed.png` in `folder`."""
    parts: list[PagePart] = [benchmark_table(results, normalizer)]
    if len(results) > 1:
        reports = [StoredReport(result.metrics, result.faces) for result in results]
        parts += comparison_tables(reports, normalizer)[1:]
    options = PlotOptions(normalizer_name(normalizer), cutoff=10.0)
    sets = [result.faces for result in results]
    images = {"ced": Picture("Cumulative error distribution", png(draw_plot("ced", sets, options)))}
    name = f"nme_{normalizer}"
    timed = {
        r.metrics.method: (r.time.value, r.metrics.metrics[name].value)
        for r in results
        if r.milliseconds and name in r.metrics.metrics
    }
    if timed:
        speed = plot_speed(timed, options.label)
        images["speed"] = Picture("Mean error against time", png(speed))
    write_page(folder, "benchmark", "Benchmark", [*parts, *images.values()])
    target = Path(folder)
    write_text(target / "benchmark.json", json.dumps(benchmark_json(results), indent=1) + "\n")
    for stem, image in images.items():
        with whole_file(target / f"{stem}.png") as temporary:
            temporary.write_bytes(image.png)


def plot_speed(timed: Mapping[str, tuple[float, float]], label: str) -> Figure:
    """Milliseconds of a face and mean error, a dot for each method: down and left is better."""
    times, errors = np.array(list(timed.values())).T
    wide = times.max() > 20 * times.min()  # else a plain axis from 0, which shows the ratio
    left, right = (times.min() / 2, times.max() * 2) if wide else (0.0, 1.25 * times.max())
    middle = np.sqrt(left * right) if wide else right / 2
    with new_figure() as (figure, (axis,)):
        for i, (name, place) in enumerate(timed.items()):
            axis.scatter(*place, s=60, color=colour(i))
            side = "left" if place[0] < middle else "right"  # a name reaches inwards, over no edge
            axis.annotate(plain(name), place, (0, 8), textcoords="offset points", ha=side)
        axis.set(xlabel="milliseconds for one face", ylabel=f"mean {label}", xlim=(left, right),
                 ylim=(0, 1.25 * errors.max()))  # fmt: skip
        if wide:
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
    return figure


def benchmark_json(results: Sequence[MethodResult]) -> list[dict[str, Any]]:
    """For machines: every metric and the time of each method."""
    return [
        {
            "method": result.metrics.method,
            "milliseconds": result.time._asdict(),
            "metrics": json.loads(result.metrics.to_json()),
        }
        for result in results
    ]
