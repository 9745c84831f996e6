"""Several methods side by side: values with intervals, and paired differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.evaluation import accuracy, distribution_scores, plot_registry, uncertainty
from luvli.evaluation.bootstrap import paired_bootstrap
from luvli.evaluation.conditional import LEVEL
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metric_records import (
    AccuracyMetrics,
    EvaluationMetrics,
    Interval,
    MetricRecord,
    UncertaintyMetrics,
)
from luvli.evaluation.metrics import box_scale, failed_of_each, failures_counted
from luvli.evaluation.report import html_plot, html_table, page, png
from luvli.evaluation.report_file import read_parquet
from luvli.evaluation.table_text import TextTable, interval, number, numbered, probability
from luvli.evaluation.tables import markdown_table
from luvli.files import PathLike, write_text
from luvli.likelihood import family

_APART = 0.08
"""box sizes, median over faces: two labellers of one face are 0.03 apart, two faces 0.16"""


class StoredReport(NamedTuple):
    """A report folder read back."""

    metrics: EvaluationMetrics
    faces: LabelledFaces


class MethodDifference(NamedTuple):
    """A metric of a method less that of the first method, over the faces both have."""

    method: str
    metric: str
    difference: float
    low: float
    high: float
    p_value: float
    signed_rank: float
    faces: int


def read_report(folder: PathLike) -> StoredReport:
    """`metrics.json` and `predictions.parquet` of a report folder."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place} is not a report folder: luvli evaluate and score make them.")
    return StoredReport(
        EvaluationMetrics.read(place / "metrics.json"), read_parquet(place / "predictions.parquet")
    )


def distinct(reports: Sequence[StoredReport], folders: Sequence[PathLike]) -> list[StoredReport]:
    """The reports with methods named apart: by their folder where two have the same name,
    and by a number where the folders have, too."""
    names = [report.metrics.method for report in reports]
    apart = [
        f"{name} ({Path(folder).name})" if names.count(name) > 1 else name
        for name, folder in zip(names, folders, strict=True)
    ]
    result = []
    for report, name in zip(reports, numbered(apart), strict=True):
        metrics = report.metrics.model_copy(update={"method": name})
        result.append(StoredReport(metrics, replace(report.faces, method=name)))
    return result


def paired_differences(
    reports: Sequence[StoredReport],
    normalizer: accuracy.Normalizer = "box",
    cutoff: float = 7.0,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> list[MethodDifference]:
    """NME, AUC and failure rate of each method less those of the first, paired by face name.

    Methods that share no face with the first are left out.
    """
    result = []
    first = reports[0].faces
    for other in (report.faces for report in reports[1:]):
        mine, theirs = _common(other, first)
        if not len(mine):
            continue
        a, b = (_errors(faces, normalizer) for faces in (mine, theirs))
        columns = {
            f"NME {normalizer} (%)": (failures_counted(a), failures_counted(b)),
            f"AUC {cutoff:g} %": tuple(accuracy.area_of_each(e, cutoff) for e in (a, b)),
            f"FR {cutoff:g} %": tuple(failed_of_each(e, cutoff) for e in (a, b)),
        }
        if mine.covariance is not None and theirs.covariance is not None:
            left, right = (_face_scores(faces) for faces in (mine, theirs))
            columns |= {name: (left[name], right[name]) for name in left}
        for name, (x, y) in columns.items():
            paired = paired_bootstrap(x, y, resamples=resamples, seed=seed)
            result.append(MethodDifference(other.method, name, *paired, faces=len(mine)))
    return result


def comparison_tables(
    reports: Sequence[StoredReport], normalizer: accuracy.Normalizer = "box", cutoff: float = 7.0
) -> list[TextTable]:
    """Two tables: every method with intervals, and differences from the first."""
    rows = [
        ["faces", *(f"{metrics.faces:,}" for metrics, _ in reports)],
        ["without prediction", *(str(len(metrics.failed)) for metrics, _ in reports)],
    ]
    for name, cell in _comparison_rows(normalizer, cutoff).items():
        cells = [cell(metrics) for metrics, _ in reports]
        if any(text != "-" for text in cells):
            rows.append([name, *cells])
    tables = [
        TextTable(
            "Methods",
            ["", *(metrics.method for metrics, _ in reports)],
            rows,
            "95 % bootstrap intervals over faces.",
        )
    ]
    found = paired_differences(reports, normalizer, cutoff)
    first = reports[0].metrics.method
    if found:
        tables.append(
            TextTable(
                f"Difference from {first}",
                ["method", "metric", "faces in both", "difference", "p (mean)", "p (signed ranks)"],
                [_difference_cells(d) for d in found],
                "Paired bootstrap over the faces that both methods were scored on, and Wilcoxon's "
                "signed-rank test.",
            )
        )
    unpaired = {r.metrics.method for r in reports[1:]} - {d.method for d in found}
    if unpaired:
        names = ", ".join(sorted(unpaired))
        note = f"No face in common with {first}, so no paired test: {names}."
        tables[0] = replace(tables[0], note=f"{tables[0].note} {note}")
    return tables


def write_comparison(
    folder: PathLike,
    reports: Sequence[StoredReport],
    normalizer: accuracy.Normalizer = "box",
    cutoff: float = 7.0,
) -> None:
    """`compare.html`, `compare.md` and `compare.json` in `folder`."""
    target = Path(folder)
    tables = comparison_tables(reports, normalizer, cutoff)
    options = plot_registry.PlotOptions(normalizer=normalizer, cutoff=cutoff)
    sets = [report.faces for report in reports]
    with_spread = [faces for faces in sets if faces.covariance is not None]
    body = ["<h1>Comparison</h1>", *(html_table(table) for table in tables)]
    for name, chosen in (("ced", sets), ("coverage", with_spread), ("risk-coverage", with_spread),
                         ("rank", with_spread)):  # fmt: skip
        if chosen:
            body.append(html_plot(name, png(plot_registry.draw_plot(name, chosen, options))))
    text = ["# Comparison"]
    for table in tables:
        text += [f"## {table.title}", markdown_table(table.head, table.rows), table.note]
    write_text(target / "compare.html", page("Comparison", "\n".join(body)))
    write_text(target / "compare.md", "\n\n".join(text) + "\n")
    write_text(
        target / "compare.json", json.dumps(comparison_json(reports, normalizer, cutoff), indent=1)
    )


def comparison_json(
    reports: Sequence[StoredReport], normalizer: accuracy.Normalizer = "box", cutoff: float = 7.0
) -> dict[str, Any]:
    """For JSON: each method's accuracy, and the differences from the first."""
    return {
        "normalizer": normalizer,
        "cutoff": cutoff,
        "methods": [
            {
                "method": report.metrics.method,
                "faces": report.metrics.faces,
                "failed": len(report.metrics.failed),
                "accuracy": _plain(report.metrics.accuracy.get(normalizer)),
            }
            for report in reports
        ],
        "differences": [
            {key: _known(value) for key, value in difference._asdict().items()}
            for difference in paired_differences(reports, normalizer, cutoff)
        ],
    }


def _common(a: LabelledFaces, b: LabelledFaces) -> tuple[LabelledFaces, LabelledFaces]:
    """The faces of the same name in both, in the same order; none if their labels say that only
    the names are the same, as of two sets that number their faces."""
    where = {name: i for i, name in enumerate(b.names)}
    pairs = [(i, where[name]) for i, name in enumerate(a.names) if name in where]
    index = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    mine, theirs = a[index[:, 0]], b[index[:, 1]]
    if _same_labels(mine.labels, theirs.labels):
        return mine, theirs
    return mine[[]], theirs[[]]


def _same_labels(a: Floats, b: Floats) -> bool:
    """Whether labels (n, k, 2), each in pixels of its own, are of the same faces on the whole."""
    if a.shape != b.shape:
        return True  # of other point sets, which cannot be laid over each other
    gap = np.linalg.norm(_in_box(a) - _in_box(b), axis=2)
    return not gap.size or np.isnan(gap).all() or float(np.nanmedian(_face_mean(gap))) < _APART


def _in_box(points: Floats) -> Floats:
    boxes = accuracy.tight_boxes(points)
    size = np.sqrt(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
    return np.asarray((points - boxes[:, None, :2]) / size[:, None, None])


def _errors(faces: LabelledFaces, normalizer: accuracy.Normalizer) -> Floats:
    return accuracy.nme(
        faces.points, faces.labels, normalizer, faces.visible,
        boxes=faces.label_boxes, markup=faces.markup_name,
    )  # fmt: skip


def _face_scores(faces: LabelledFaces) -> dict[str, Floats]:
    """Means over each face's usable landmarks (n,): NLL, energy score, how far coverage misses."""
    assert faces.covariance is not None
    given = (faces.points, faces.covariance, faces.labels)
    scale = box_scale(faces)
    nll = uncertainty.negative_log_likelihood(
        *given, faces.faces.likelihood, faces.visible, scale=scale
    )
    energy = distribution_scores.energy_score(*given, faces.faces.likelihood, faces.visible)
    limit = float(family(faces.faces.likelihood).radius_quantile(LEVEL))
    radius = uncertainty.radii(*given, faces.visible)
    inside = np.where(np.isnan(radius), np.nan, radius <= limit)
    return {
        "NLL (box sizes)": _face_mean(nll),
        "energy score (% of box)": _face_mean(energy) / scale * 100.0,
        f"labels inside {LEVEL:.0%}": _face_mean(inside) * 100.0,
    }


def _face_mean(values: Floats) -> Floats:
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)


def _comparison_rows(
    normalizer: accuracy.Normalizer, cutoff: float
) -> dict[str, Callable[[EvaluationMetrics], str]]:
    """What each row of the comparison shows of a method."""

    def of_accuracy(
        get: Callable[[AccuracyMetrics], Interval],
    ) -> Callable[[EvaluationMetrics], str]:
        def cell(metrics: EvaluationMetrics) -> str:
            values = metrics.accuracy.get(normalizer)
            return "-" if values is None else interval(get(values))

        return cell

    def of_uncertainty(
        get: Callable[[UncertaintyMetrics], str],
    ) -> Callable[[EvaluationMetrics], str]:
        def cell(metrics: EvaluationMetrics) -> str:
            if metrics.uncertainty is None:
                return "not trained" if "covariance" in metrics.untrained else "-"
            return get(metrics.uncertainty)

        return cell

    percent = int(cutoff)
    return {
        f"NME {normalizer} (%) ↓": of_accuracy(lambda values: values.nme),
        "NME visible (%) ↓": of_accuracy(lambda values: values.nme_visible),
        f"AUC {percent} % ↑": of_accuracy(lambda values: values.auc[percent]),
        f"FR {percent} % ↓": of_accuracy(lambda values: values.failure_rate[percent]),
        "NLL (box sizes) ↓": of_uncertainty(lambda values: interval(values.own_nll.box, 3)),
        "energy score (% of box) ↓": of_uncertainty(
            lambda values: interval(values.scores.energy, 3)
        ),
        "width at 90 % coverage (% of box) ↓": of_uncertainty(
            lambda values: interval(values.scores.width["0.9"], 3)
        ),
        "KL ↓": of_uncertainty(lambda values: number(values.kl, 4)),
        "calibration error ↓": of_uncertainty(lambda values: number(values.coverage.error, 4)),
        "AURC ↓": lambda metrics: (
            number(metrics.selective["face"].aurc, 3) if metrics.selective else "-"
        ),
        "visibility AUROC ↑": lambda metrics: (
            number(metrics.visibility.auroc, 4) if metrics.visibility else "-"
        ),
    }


def _difference_cells(d: MethodDifference) -> list[str]:
    ends = Interval(value=d.difference, low=d.low, high=d.high)
    return [d.method, d.metric, f"{d.faces:,}", interval(ends),
            probability(d.p_value), probability(d.signed_rank)]  # fmt: skip


def _plain(record: MetricRecord | None) -> Any:
    return None if record is None else record.model_dump(mode="json")


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
