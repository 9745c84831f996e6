"""Several methods side by side: values with intervals, and paired differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError
from luvli.evaluation import accuracy, plot_registry
from luvli.evaluation.bootstrap import paired_bootstrap
from luvli.evaluation.evaluated_faces import EvaluatedFaces, read_parquet
from luvli.evaluation.metrics import look_up
from luvli.evaluation.report import html_figure, html_table, page, png
from luvli.evaluation.report_tables import Block, interval, number
from luvli.evaluation.tables import markdown_table, read_metrics
from luvli.files import PathLike, write_text

Floats = NDArray[np.float64]


class Report(NamedTuple):
    """A report folder read back."""

    metrics: dict[str, Any]
    faces: EvaluatedFaces


class Difference(NamedTuple):
    """A metric of a method less that of the first method, over the faces both have."""

    method: str
    metric: str
    difference: float
    low: float
    high: float
    p_value: float
    faces: int


def read_report(folder: PathLike) -> Report:
    """`metrics.json` and `predictions.parquet` of a report folder."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place} is not a report folder: luvli evaluate and score make them.")
    return Report(read_metrics(place / "metrics.json"), read_parquet(place / "predictions.parquet"))


def distinct(reports: Sequence[Report], folders: Sequence[PathLike]) -> list[Report]:
    """The reports with methods named apart: by their folder where two have the same name."""
    names = [report.metrics["method"] for report in reports]
    result = []
    for report, folder in zip(reports, folders, strict=True):
        name = report.metrics["method"]
        if names.count(name) > 1:
            name = f"{name} ({Path(folder).name})"
        result.append(
            Report({**report.metrics, "method": name}, replace(report.faces, method=name))
        )
    return result


def differences(
    reports: Sequence[Report],
    normalizer: accuracy.Normalizer = "box",
    cutoff: float = 7.0,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Difference]:
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
        for name, value in (
            (f"NME {normalizer} (%)", _counted),
            (f"AUC {cutoff:g} %", lambda e: accuracy.area_of_each(e, cutoff)),
            (f"FR {cutoff:g} %", lambda e: np.where(np.isnan(e), np.nan, (e > cutoff) * 100.0)),
        ):
            paired = paired_bootstrap(value(a), value(b), resamples=resamples, seed=seed)
            result.append(Difference(other.method, name, *paired, faces=len(mine)))
    return result


def comparison_blocks(
    reports: Sequence[Report], normalizer: accuracy.Normalizer = "box", cutoff: float = 7.0
) -> list[Block]:
    """Two tables: every method with intervals, and differences from the first."""
    key = f"{cutoff:g}"
    columns = {
        f"NME {normalizer} (%) ↓": (f"accuracy.{normalizer}.nme", 2),
        "NME visible (%) ↓": (f"accuracy.{normalizer}.nme_vis", 2),
        f"AUC {key} % ↑": (f"accuracy.{normalizer}.auc.{key}", 2),
        f"FR {key} % ↓": (f"accuracy.{normalizer}.fr.{key}", 2),
        "NLL (box) ↓": ("nll.{likelihood}.box", 3),
        "KL ↓": ("kl", 4),
        "calibration error ↓": ("coverage.error", 4),
        "AURC ↓": ("trust.face.aurc", 3),
        "visibility AUROC ↑": ("visibility.auroc", 4),
    }
    rows = [
        ["faces", *(f"{metrics['faces']:,}" for metrics, _ in reports)],
        ["without prediction", *(str(len(metrics["failed"])) for metrics, _ in reports)],
    ]
    for name, (path, digits) in columns.items():
        cells = [
            _cell(metrics, path.format(likelihood=metrics.get("likelihood", "")), digits)
            for metrics, _ in reports
        ]
        if any(cell != "-" for cell in cells):
            rows.append([name, *cells])
    blocks = [
        Block(
            "Methods",
            ["", *(str(metrics["method"]) for metrics, _ in reports)],
            rows,
            "95 % bootstrap intervals over faces.",
        )
    ]
    found = differences(reports, normalizer, cutoff)
    first = reports[0].metrics["method"]
    if found:
        blocks.append(
            Block(
                f"Difference from {first}",
                ["method", "metric", "faces in both", "difference", "p"],
                [_difference_cells(d) for d in found],
                "Paired bootstrap over the faces that both methods were scored on.",
            )
        )
    unpaired = {r.metrics["method"] for r in reports[1:]} - {d.method for d in found}
    if unpaired:
        names = ", ".join(sorted(unpaired))
        note = f"No face in common with {first}, so no paired test: {names}."
        blocks[0] = replace(blocks[0], note=f"{blocks[0].note} {note}")
    return blocks


def write_comparison(
    folder: PathLike,
    reports: Sequence[Report],
    normalizer: accuracy.Normalizer = "box",
    cutoff: float = 7.0,
) -> None:
    """`compare.html`, `compare.md` and `compare.json` in `folder`."""
    target = Path(folder)
    blocks = comparison_blocks(reports, normalizer, cutoff)
    options = plot_registry.Options(normalizer=normalizer, cutoff=cutoff)
    sets = [report.faces for report in reports]
    with_spread = [faces for faces in sets if faces.covariance is not None]
    body = ["<h1>Comparison</h1>", *(html_table(block) for block in blocks)]
    for name, chosen in (("ced", sets), ("coverage", with_spread), ("risk-coverage", with_spread),
                         ("rank", with_spread)):  # fmt: skip
        if chosen:
            body.append(html_figure(name, png(plot_registry.draw(name, chosen, options))))
    text = ["# Comparison"]
    for block in blocks:
        text += [f"## {block.title}", markdown_table(block.head, block.rows), block.note]
    write_text(target / "compare.html", page("Comparison", "\n".join(body)))
    write_text(target / "compare.md", "\n\n".join(text) + "\n")
    write_text(target / "compare.json", json.dumps(as_dict(reports, normalizer, cutoff), indent=1))


def as_dict(
    reports: Sequence[Report], normalizer: accuracy.Normalizer = "box", cutoff: float = 7.0
) -> dict[str, Any]:
    """For JSON: each method's accuracy, and the differences from the first."""
    return {
        "normalizer": normalizer,
        "cutoff": cutoff,
        "methods": [
            {
                "method": report.metrics["method"],
                "faces": report.metrics["faces"],
                "failed": len(report.metrics["failed"]),
                "accuracy": report.metrics["accuracy"].get(normalizer),
            }
            for report in reports
        ],
        "differences": [
            {key: _known(value) for key, value in difference._asdict().items()}
            for difference in differences(reports, normalizer, cutoff)
        ],
    }


def _common(a: EvaluatedFaces, b: EvaluatedFaces) -> tuple[EvaluatedFaces, EvaluatedFaces]:
    """The faces of the same name in both, in the same order."""
    where = {name: i for i, name in enumerate(b.names)}
    pairs = [(i, where[name]) for i, name in enumerate(a.names) if name in where]
    index = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return a.take(index[:, 0]), b.take(index[:, 1])


def _errors(faces: EvaluatedFaces, normalizer: accuracy.Normalizer) -> Floats:
    return accuracy.nme(
        faces.predicted, faces.truth, normalizer, faces.visible,
        boxes=faces.boxes, markup=faces.markup,
    )  # fmt: skip


def _counted(errors: Floats) -> Floats:
    return np.where(np.isinf(errors), accuracy.FAILED_NME, errors)


def _cell(metrics: dict[str, Any], path: str, digits: int) -> str:
    place: Any = metrics
    for key in path.split("."):
        place = place.get(key) if isinstance(place, dict) else None
    if isinstance(place, dict):
        return interval(place, digits)
    return number(look_up(metrics, path), digits)


def _difference_cells(d: Difference) -> list[str]:
    ends = {"value": d.difference, "low": _known(d.low), "high": _known(d.high)}
    return [d.method, d.metric, f"{d.faces:,}", interval(ends), number(_known(d.p_value), 4)]


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
