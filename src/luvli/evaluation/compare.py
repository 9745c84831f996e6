"""Several methods side by side: values with intervals, and paired differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.evaluation import accuracy
from luvli.evaluation.bootstrap import Interval, PairedDifference, paired_bootstrap
from luvli.evaluation.curve import known_mean
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metrics import Evaluation, columns_of, metric_values
from luvli.evaluation.page import write_page
from luvli.evaluation.plot_style import PlotOptions
from luvli.evaluation.registry import METRICS, get_metric, quoted
from luvli.evaluation.report import pictures
from luvli.evaluation.report_file import read_parquet
from luvli.evaluation.table import ARROWS, Table, interval, numbered, probability
from luvli.files import PathLike, write_text

_APART = 0.08
"""box sizes, median over faces: two labellers of one face are 0.03 apart, two faces 0.16"""


class StoredReport(NamedTuple):
    """A report folder read back."""

    metrics: Evaluation
    faces: LabelledFaces


class MethodDifference(NamedTuple):
    """A metric of a method less that of the first method, over the faces both have."""

    method: str
    metric: str
    faces: int
    paired: PairedDifference


def read_report(folder: PathLike) -> StoredReport:
    """`metrics.json` and `predictions.parquet` of a report folder."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place} is not a report folder: luvli evaluate and score make them.")
    return StoredReport(
        Evaluation.read(place / "metrics.json"), read_parquet(place / "predictions.parquet")
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
        StoredReport(replace(report.metrics, method=name), replace(report.faces, method=name))
        for report, name in zip(reports, numbered(apart), strict=True)
    ]


def compared_metrics(reports: Sequence[StoredReport], normalizer: str = "") -> list[str]:
    """The metrics to compare: those that papers quote of the data set, or all under `normalizer`,
    and all that have none."""
    usual = quoted(reports[0].metrics.dataset)
    names = [
        metric.name
        for metric in METRICS
        if any(metric.name in report.metrics.metrics for report in reports)
        and (metric.normalizer in ("", normalizer) or (not normalizer and metric.name in usual))
    ]
    return sorted(names, key=lambda name: usual.index(name) if name in usual else len(usual))


def paired_differences(
    reports: Sequence[StoredReport], normalizer: str = "", *, resamples: int = 2000, seed: int = 0
) -> list[MethodDifference]:
    """Metrics of each method less those of the first, paired by face name: those metrics that have
    a value for each face. Methods that share no face with the first are left out."""
    result = []
    names = compared_metrics(reports, normalizer)
    for _, other in reports[1:]:
        mine, theirs = _common(other, reports[0].faces)
        if not len(mine):
            continue
        left, right = (dict(metric_values(faces)) for faces in (mine, theirs))
        for name in names:
            pairs = [columns_of(side[name]) for side in (left, right) if name in side]
            if len(pairs) == 2 and pairs[0] is not None and pairs[1] is not None:
                with np.errstate(invalid="ignore", divide="ignore"):
                    x, y = (sums / counts for sums, counts in (pairs[0], pairs[1]))
                paired = paired_bootstrap(x, y, resamples=resamples, seed=seed)
                result.append(MethodDifference(other.method, name, len(mine), paired))
    return result


def comparison_tables(reports: Sequence[StoredReport], normalizer: str = "") -> list[Table]:
    """Two tables: every method with intervals, and differences from the first."""
    rows = [
        ["faces", *(f"{metrics.faces:,}" for metrics, _ in reports)],
        ["without prediction", *(str(len(metrics.failed)) for metrics, _ in reports)],
    ]
    for metric in map(get_metric, compared_metrics(reports, normalizer)):
        cells = [
            interval(metrics.metrics.get(metric.name), metric.digits) for metrics, _ in reports
        ]
        rows.append([metric.heading + ARROWS[metric.better], *cells])
    notes = ["95 % bootstrap intervals over faces."]
    differences = paired_differences(reports, normalizer)
    first = reports[0].metrics.method
    unpaired = {r.metrics.method for r in reports[1:]} - {d.method for d in differences}
    if unpaired:
        names = ", ".join(sorted(unpaired))
        notes.append(f"No face in common with {first}, so no paired test: {names}.")
    tables = [Table("Methods", ["", *(m.method for m, _ in reports)], rows, notes=notes)]
    if differences:
        listed = []
        for method, name, faces, (value, low, high, p_value, signed_rank) in differences:
            metric = get_metric(name)
            listed.append([method, metric.heading, f"{faces:,}",
                          interval(Interval(value, low, high), metric.digits),
                          probability(p_value), probability(signed_rank)])  # fmt: skip
        tables.append(
            Table(
                f"Difference from {first}",
                ["method", "metric", "faces in both", "difference", "p (mean)", "p (signed ranks)"],
                listed,
                notes=[
                    "Paired bootstrap over the faces that both methods were scored on, and "
                    "Wilcoxon's signed-rank test."
                ],
            )
        )
    return tables


def write_comparison(
    folder: PathLike, reports: Sequence[StoredReport], normalizer: str = ""
) -> None:
    """`compare.html`, `compare.md` and `compare.json` in `folder`."""
    options = PlotOptions(accuracy.normalizer_name(normalizer or "box"), cutoff=10.0)
    sets = [report.faces for report in reports]
    with_spread = [faces for faces in sets if faces.covariance is not None]
    images = pictures(["ced"], sets, options)
    if with_spread:
        images += pictures(["coverage", "risk-coverage", "rank"], with_spread, options)
    write_page(folder, "compare", "Comparison", [*comparison_tables(reports, normalizer), *images])
    content = json.dumps(comparison_json(reports, normalizer), indent=1)
    write_text(Path(folder) / "compare.json", content)


def comparison_json(reports: Sequence[StoredReport], normalizer: str = "") -> dict[str, Any]:
    """For JSON: each method's metrics, and the differences from the first."""
    names = compared_metrics(reports, normalizer)
    return {
        "methods": [
            {
                "method": metrics.method,
                "faces": metrics.faces,
                "failed": len(metrics.failed),
                "metrics": {
                    name: _known(metrics.metrics[name]._asdict())
                    for name in names
                    if name in metrics.metrics
                },
            }
            for metrics, _ in reports
        ],
        "differences": [
            {"method": d.method, "metric": d.metric, "faces": d.faces, **_known(d.paired._asdict())}
            for d in paired_differences(reports, normalizer)
        ],
    }


def _common(a: LabelledFaces, b: LabelledFaces) -> tuple[LabelledFaces, LabelledFaces]:
    """The faces of the same name in both, in the same order; none if their labels say that only
    the names are the same, as of two sets that number their faces."""
    where = {name: i for i, name in enumerate(b.names)}
    pairs = [(i, where[name]) for i, name in enumerate(a.names) if name in where]
    index = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    mine, theirs = a[index[:, 0]], b[index[:, 1]]
    if mine.labels.shape == theirs.labels.shape:  # of one point set: they can be compared
        gap = np.linalg.norm(_in_box(mine.labels) - _in_box(theirs.labels), axis=2)
        apart = known_mean(gap, axis=1)
        if not np.isnan(apart).all() and float(np.nanmedian(apart)) >= _APART:
            return mine[[]], theirs[[]]
    return mine, theirs


def _in_box(points: Floats) -> Floats:
    boxes = accuracy.tight_boxes(points)
    size = np.sqrt(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
    return np.asarray((points - boxes[:, None, :2]) / size[:, None, None])


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and not np.isfinite(value) else value
        for key, value in values.items()
    }
