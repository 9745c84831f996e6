"""Several methods on the same labelled faces in one run: accuracy, failures, time, side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

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
from luvli.evaluation.plot_registry import PlotOptions, draw_plot, with_distinct_methods
from luvli.evaluation.plots import plot_speed
from luvli.evaluation.registry import get_metric
from luvli.evaluation.report import html_image, html_plot, page, png
from luvli.evaluation.table import Table, interval, number
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike, whole_file, write_text
from luvli.image.read import read_image
from luvli.progress import Track


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
    track: Callable[[str], Track] = lambda name: iter,
) -> list[MethodResult]:
    """Every method on every face, with the same boxes: tight ones with the paper's noise.

    Methods take turns face by face, so that whatever else the machine does weighs on all of
    them alike.
    """
    if not methods:
        raise InputError("there is no method to run: name one, for instance luvli-68.")
    found: list[list[FaceLandmarks]] = [[] for _ in methods]
    spent: list[list[float]] = [[] for _ in methods]
    markups = {record.markup for record in records}
    if len(markups) != 1:
        raise InputError(f"the faces must share one markup, they have {sorted(markups)}.")
    for number_of_face, record in enumerate(track("running")(records)):
        if record.image is None:
            raise InputError(f"{record.name} has no image: a method cannot be run on it.")
        image = read_image(record.image)
        box = crop_box(record, "paper").array
        for i, method in enumerate(methods):
            clock = time.perf_counter()
            prediction = method.run(image, box)
            if number_of_face:  # the first call also loads and warms up
                spent[i].append((time.perf_counter() - clock) * 1000.0)
            found[i].append(_as_face(prediction, record, method.name))
    results = []
    for i, method in enumerate(methods):
        faces = LabelledFaces.from_records(
            records, Faces.stack(found[i]), method=method.name, notes=method.notes
        ).with_tight_boxes()
        results.append(
            MethodResult(faces, compute_metrics(faces, resamples=resamples), tuple(spent[i]))
        )
    return _told_apart(results)


def _as_face(prediction: Any, record: FaceRecord, name: str) -> FaceLandmarks:
    if isinstance(prediction, FaceLandmarks):
        if len(prediction) != len(record.points):
            raise InputError(
                f"{name} finds {len(prediction)} landmarks, the faces have {len(record.points)}."
            )
        return prediction
    count = len(record.points)
    points = (
        np.full((count, 2), np.nan) if prediction is None else np.asarray(prediction, np.float64)
    )
    if points.shape != (count, 2):
        raise InputError(
            f"{name} must return points of shape ({count}, 2) or None, got {points.shape}."
        )
    return FaceLandmarks(
        points=points, covariance=np.full((count, 2, 2), np.nan), visibility=np.zeros(count),
        box=np.full(4, np.nan), markup=record.markup, visibility_trained=False,
        covariance_trained=False,
    )  # fmt: skip


def _told_apart(results: Sequence[MethodResult]) -> list[MethodResult]:
    renamed = with_distinct_methods([result.faces for result in results])
    return [
        MethodResult(faces, replace(result.metrics, method=faces.method), result.milliseconds)
        for faces, result in zip(renamed, results, strict=True)
    ]


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
    target = Path(folder)
    kind = normalizer_name(normalizer)
    tables = [benchmark_table(results, normalizer)]
    if len(results) > 1:
        reports = [StoredReport(result.metrics, result.faces) for result in results]
        tables += comparison_tables(reports, normalizer)[1:]
    options = PlotOptions(normalizer=kind, cutoff=10.0)
    images = {"ced.png": png(draw_plot("ced", [result.faces for result in results], options))}
    body = [*(table.html() for table in tables), html_plot("ced", images["ced.png"])]
    name = f"nme_{normalizer}"
    timed = [r for r in results if r.milliseconds and name in r.metrics.metrics]
    if timed:
        figure = plot_speed(
            {r.metrics.method: r.metrics.metrics[name].value for r in timed},
            {r.metrics.method: r.time.value for r in timed},
            f"NME {normalizer} (%)",
        )
        images["speed.png"] = png(figure)
        body.append(html_image("Mean error against time", images["speed.png"]))
    text = "\n\n".join(["# Benchmark", *(table.markdown(2) for table in tables)]) + "\n"
    write_text(target / "benchmark.html", page("Benchmark", body))
    write_text(target / "benchmark.md", text)
    write_text(target / "benchmark.json", json.dumps(benchmark_json(results), indent=1) + "\n")
    for file, content in images.items():
        with whole_file(target / file) as temporary:
            temporary.write_bytes(content)


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
