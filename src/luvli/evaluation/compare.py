"""Several methods side by side: values with intervals, and paired differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.errors import InputError
from luvli.evaluation import accuracy
from luvli.evaluation.bootstrap import Interval, PairedDifference, paired_bootstrap
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.labelled_parquet import read_report_faces
from luvli.evaluation.metrics import Columns, Evaluation, finite, metric_values
from luvli.evaluation.registry import METRICS, Metric, quoted
from luvli.evaluation.report import pictures
from luvli.evaluation.table import ARROWS, Table, interval, numbered, probability, write_page
from luvli.files import PathLike, write_text

SAME_LABELS = 8.0
"""percent of the box, median over faces: two labellers of one face are 3 apart, two faces more"""


class StoredReport(NamedTuple):
    """A report folder read back, or one method of a benchmark."""

    metrics: Evaluation
    faces: LabelledFaces
    milliseconds: Interval | None = None
    """of a benchmark: time of one face, median and quartiles"""


class MethodDifference(NamedTuple):
    """A metric of a method less that of the first method, over the faces both have."""

    method: str
    metric: Metric
    faces: int
    paired: PairedDifference


def read_report(folder: PathLike) -> StoredReport:
    """`metrics.json` and `predictions.parquet` of a report folder."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place} is not a report folder: luvli evaluate and score make them.")
    return StoredReport(
        Evaluation.read(place / "metrics.json"), read_report_faces(place / "predictions.parquet")
    )


def distinct(reports: Sequence[StoredReport], folders: Sequence[PathLike]) -> list[StoredReport]:
    """The reports with methods of different names: by their folder where two have the same one,
    and by a number where the folders have, too."""
    names = [report.metrics.method for report in reports]
    apart = [
        f"{name} ({Path(folder).name})" if names.count(name) > 1 else name
        for name, folder in zip(names, folders, strict=True)
    ]
    return [
        StoredReport(replace(metrics, method=name), replace(faces, method=name))
        for (metrics, faces, _), name in zip(reports, numbered(apart), strict=True)
    ]


def compared_metrics(reports: Sequence[StoredReport]) -> list[Metric]:
    """The metrics to compare: those that papers quote of the data set, then all that have no
    normaliser."""
    usual = quoted(reports[0].metrics.dataset)
    chosen = [
        metric
        for metric in METRICS.values()
        if any(metric.name in report.metrics.metrics for report in reports)
        and (not metric.normalizer or metric.name in usual)
    ]
    return sorted(chosen, key=lambda m: usual.index(m.name) if m.name in usual else len(usual))


def paired_differences(reports: Sequence[StoredReport]) -> list[MethodDifference]:
    """Metrics of each method less those of the first, paired by face name: those metrics that have
    a value for each face. Methods that share no face with the first are left out."""
    result = []
    for other in (report.faces for report in reports[1:]):
        mine, theirs = _common(other, reports[0].faces)
        if not len(mine):
            continue
        left, right = metric_values(mine)[0], metric_values(theirs)[0]
        for metric in compared_metrics(reports):
            a, b = left.get(metric.name), right.get(metric.name)
            if isinstance(a, Columns) and isinstance(b, Columns):
                paired = paired_bootstrap(a.of_faces, b.of_faces)
                result.append(MethodDifference(other.method, metric, len(mine), paired))
    return result


@dataclass(frozen=True)
class Comparison:
    """Several methods side by side; the others are compared with the first."""

    reports: Sequence[StoredReport]

    @cached_property
    def differences(self) -> list[MethodDifference]:
        """From the first method."""
        return paired_differences(self.reports)

    def tables(self) -> list[Table]:
        """Two tables: every method with intervals, and differences from the first."""
        evaluations = [report.metrics for report in self.reports]
        first, *others = (each.method for each in evaluations)
        rows = [
            ["faces", *(f"{each.faces:,}" for each in evaluations)],
            ["without prediction", *(str(len(each.failed)) for each in evaluations)],
        ]
        timed = [report for report in self.reports if report.milliseconds]
        if timed:
            times = (interval(report.milliseconds, 1) for report in self.reports)
            rows.append(["time of a face (ms) ↓", *times])
        for metric in compared_metrics(self.reports):
            cells = [interval(each.metrics.get(metric.name), metric.digits) for each in evaluations]
            rows.append([metric.heading + ARROWS[metric.better], *cells])
        notes = ["95 % bootstrap intervals over faces."]
        unpaired = sorted(set(others) - {each.method for each in self.differences})
        if unpaired:
            names = ", ".join(unpaired)
            notes.append(f"No face in common with {first}, so no paired test: {names}.")
        notes += dict.fromkeys(note for report in timed for note in report.metrics.notes)
        tables = [Table("Methods", ["", first, *others], rows, notes=notes)]
        if self.differences:
            tables.append(self._differences(f"Difference from {first}"))
        return tables

    def _differences(self, title: str) -> Table:
        heads = ["method", "metric", "faces in both", "difference", "p (mean)", "p (signed ranks)"]
        rows = [
            [method, metric.heading, f"{faces:,}",
             interval(Interval(paired.difference, paired.low, paired.high), metric.digits),
             probability(paired.p_value), probability(paired.signed_rank)]
            for method, metric, faces, paired in self.differences
        ]  # fmt: skip
        note = (
            "Paired bootstrap over the faces that both methods were scored on, and Wilcoxon's "
            "signed-rank test."
        )
        return Table(title, heads, rows, notes=[note])

    def to_json(self) -> dict[str, Any]:
        """Each report, and the differences from the first."""
        methods = [
            json.loads(report.metrics.to_json())
            | {"milliseconds": report.milliseconds and report.milliseconds.value}
            for report in self.reports
        ]
        differences = [
            {"method": d.method, "metric": d.metric.name, "faces": d.faces, **finite(d.paired)}
            for d in self.differences
        ]
        return {"methods": methods, "differences": differences}

    def write(self, folder: PathLike, name: str = "compare") -> None:
        """`compare.html`, `compare.md` and `compare.json` in `folder`, or of another `name`."""
        sets = [report.faces for report in self.reports]
        images = pictures(["ced"], sets)
        if with_spread := [faces for faces in sets if faces.covariance is not None]:
            images += pictures(["coverage", "risk-coverage", "rank"], with_spread)
        write_page(folder, name, name.capitalize(), [*self.tables(), *images])
        content = json.dumps(self.to_json(), indent=1)
        write_text(Path(folder) / f"{name}.json", f"{content}\n")


def _common(a: LabelledFaces, b: LabelledFaces) -> tuple[LabelledFaces, LabelledFaces]:
    """The faces of the same name in both, in the same order; none if their labels say that only
    the names are the same, as of two sets that number their faces."""
    _, mine, theirs = np.intersect1d(a.names, b.names, return_indices=True)
    order = np.argsort(mine)
    left, right = a[mine[order]], b[theirs[order]]
    if left.labels.shape == right.labels.shape:  # of one point set: they can be compared
        apart = accuracy.nme(left.labels, right.labels, average="visible")
        if np.nanmedian(np.append(apart, 0.0)) >= SAME_LABELS:
            return left[[]], right[[]]
    return left, right
