"""Several methods on the same labelled faces in one run: accuracy, failures, time, side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord
from luvli.data.sets import get_set, load_set
from luvli.data.sets.check import TrackRecords
from luvli.errors import InputError
from luvli.evaluation.accuracy import normalizer_name
from luvli.evaluation.compare import StoredReport, comparison_tables
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.methods import NamedMethod
from luvli.evaluation.metric_records import EvaluationMetrics, Interval
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.plot_registry import PlotOptions, draw_plot, with_distinct_methods
from luvli.evaluation.plots import plot_speed
from luvli.evaluation.report import html_image, html_plot, html_table, page, png
from luvli.evaluation.table_text import TextTable, interval, number
from luvli.evaluation.tables import markdown_table
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike, whole_file, write_text
from luvli.image.read import read_image


class MethodResult(NamedTuple):
    """One method's predictions, metrics and time."""

    faces: LabelledFaces
    metrics: EvaluationMetrics
    milliseconds: tuple[float, ...]
    """of each face, image in memory, the first call left out"""

    @property
    def time(self) -> Interval:
        """Median time of a face in milliseconds, between its quartiles."""
        if not self.milliseconds:
            return Interval(value=float("nan"))
        low, middle, high = np.quantile(self.milliseconds, (0.25, 0.5, 0.75))
        return Interval(value=float(middle), low=float(low), high=float(high))


def labelled_faces(
    folder: PathLike, dataset: str = "folder", limit: int | None = None
) -> list[FaceRecord]:
    """The faces to run on: a folder of one's own, or a data set's test split."""
    faces = load_set(dataset, folder, get_set(dataset).test_split, skip_bad=True)
    step = 1 if limit is None else max(1, len(faces) // limit)
    return list(faces.records[::step][:limit])


def run_methods(
    methods: Sequence[NamedMethod],
    records: Sequence[FaceRecord],
    *,
    resamples: int = 1000,
    track: Callable[[str], TrackRecords] = lambda name: iter,
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
        MethodResult(
            faces, result.metrics.model_copy(update={"method": faces.method}), result.milliseconds
        )
        for faces, result in zip(renamed, results, strict=True)
    ]


def benchmark_table(results: Sequence[MethodResult], normalizer: str = "interocular") -> TextTable:
    """Accuracy, failures and time of all methods."""
    head = ["method", "faces", "without prediction", f"NME {normalizer} (%)", "NME box (%)",
            "FR 10 % (%)", "AUC 8 %", "ms a face", "times the fastest"]  # fmt: skip
    fastest = min((r.time.value for r in results if r.milliseconds), default=float("nan"))
    rows = []
    for result in results:
        own = result.metrics.accuracy.get(normalizer) or result.metrics.accuracy.get("box")
        box = result.metrics.accuracy.get("box")
        cells = ["-"] * 4
        if own is not None and box is not None:
            cells = [interval(own.nme), interval(box.nme), interval(own.failure_rate[10]),
                     interval(own.auc[8])]  # fmt: skip
        rows.append(
            [result.metrics.method, f"{result.metrics.faces:,}", str(len(result.metrics.failed)),
             *cells, interval(result.time, 1), number(result.time.value / fastest, 1)]
        )  # fmt: skip
    note = (
        "The same faces and boxes for all, in turns on one machine. Means over faces with 95 % "
        "bootstrap intervals; faces without a prediction count as 100 %. Time: median and "
        "quartiles of one face, image in memory, detection not included."
    )
    return TextTable("Benchmark", head, rows, note)


def write_benchmark(
    folder: PathLike, results: Sequence[MethodResult], normalizer: str = "interocular"
) -> None:
    """`benchmark.html`, `benchmark.md`, `benchmark.json`, `ced.png` and `speed.png` in `folder`."""
    target = Path(folder)
    kind = normalizer_name(normalizer)
    tables = [benchmark_table(results, normalizer)]
    if len(results) > 1:
        reports = [StoredReport(result.metrics, result.faces) for result in results]
        tables += comparison_tables(reports, kind, 8.0)[1:]
    options = PlotOptions(normalizer=kind, cutoff=10.0)
    drawn = png(draw_plot("ced", [result.faces for result in results], options))
    notes = dict.fromkeys(note for result in results for note in result.metrics.notes)
    body = ["<h1>Benchmark</h1>", *(html_table(table) for table in tables)]
    body += [*(f'<p class="note">{note}</p>' for note in notes), html_plot("ced", drawn)]
    images = {"ced.png": drawn}
    timed = [r for r in results if r.milliseconds and normalizer in r.metrics.accuracy]
    if timed:
        names = [result.metrics.method for result in timed]
        errors = [result.metrics.accuracy[normalizer].nme.value for result in timed]
        times = [result.time.value for result in timed]
        figure = plot_speed(
            dict(zip(names, errors, strict=True)), dict(zip(names, times, strict=True)),
            f"NME {normalizer} (%)",
        )  # fmt: skip
        images["speed.png"] = png(figure)
        body.append(html_image("Mean error against time", images["speed.png"]))
    text = ["# Benchmark"]
    for table in tables:
        text += [f"## {table.title}", markdown_table(table.head, table.rows), table.note]
    text += list(notes)
    write_text(target / "benchmark.html", page("Benchmark", "\n".join(body)))
    write_text(target / "benchmark.md", "\n\n".join(text) + "\n")
    write_text(target / "benchmark.json", json.dumps(benchmark_json(results), indent=1) + "\n")
    for name, content in images.items():
        with whole_file(target / name) as temporary:
            temporary.write_bytes(content)


def benchmark_json(results: Sequence[MethodResult]) -> list[dict[str, Any]]:
    """For machines: every metric and the time of each method."""
    return [
        {
            "method": result.metrics.method,
            "milliseconds": result.time.model_dump(mode="json"),
            "metrics": result.metrics.model_dump(mode="json"),
        }
        for result in results
    ]
