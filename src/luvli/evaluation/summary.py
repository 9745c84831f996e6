"""An evaluation in a few lines: a title, a sentence, the metrics that matter most."""

from __future__ import annotations

from luvli.evaluation.metric_records import EvaluationMetrics, UncertaintyMetrics
from luvli.evaluation.metrics import CUTOFFS
from luvli.evaluation.table_text import NORMALIZER_TITLES, interval, number


def heading(metrics: EvaluationMetrics) -> str:
    """Title of a report."""
    where = " ".join(part for part in (metrics.dataset, metrics.subset) if part)
    return f"{metrics.method} on {where}" if metrics.dataset else metrics.method


def summary(metrics: EvaluationMetrics) -> str:
    """One line under the title."""
    text = (
        f"{metrics.faces:,} faces, {metrics.landmarks} landmarks each, "
        f"{metrics.visible_landmarks:,} visible; {len(metrics.failed)} without prediction."
    )
    if metrics.untrained:
        text += f" Not trained, so not reported: {', '.join(metrics.untrained)}."
    if "box" not in metrics.accuracy:
        return text
    return f"NME box {metrics.accuracy['box'].nme.value:.2f} %. {text}"


def summary_rows(metrics: EvaluationMetrics) -> list[list[str]]:
    """The metrics that matter most, one to a line: for a terminal."""
    rows = []
    for kind, values in metrics.accuracy.items():
        rows.append([f"{NORMALIZER_TITLES.get(kind, kind)} (%)", interval(values.nme)])
        if values.nme_visible.value != values.nme.value:
            rows.append(
                [f"{NORMALIZER_TITLES.get(kind, kind)}, visible (%)", interval(values.nme_visible)]
            )
        for cutoff in CUTOFFS:
            text = f"{interval(values.auc[cutoff])}, FR {interval(values.failure_rate[cutoff])}"
            rows.append([f"  AUC {cutoff} %", text])
    for name, part in metrics.subsets.items():
        if "box" in part.accuracy:
            rows.append([f"NME box of {name} (%)", interval(part.accuracy["box"].nme)])
    if metrics.uncertainty is not None:
        rows += _uncertainty_rows(metrics.uncertainty)
        face = metrics.selective["face"]
        rows.append(["AURC of faces", f"{number(face.aurc, 3)}, best {number(face.best, 3)}"])
    if metrics.confidence is not None:
        found = metrics.confidence
        rows.append(["AUROC of the confidence", number(found.auroc, 3)])
        rows.append(["calibration error of the confidence", number(found.calibration_error, 3)])
        rows.append(["gain in risk-coverage (%)", number(100 * found.gain_share, 0)])
    if metrics.visibility is not None:
        rows += [
            [f"visibility {name.replace('_', ' ')}", number(value, 4)]
            for name, value in metrics.visibility
            if isinstance(value, float)
        ]
    rows += [[part, "not trained"] for part in metrics.untrained]
    return rows


def _uncertainty_rows(values: UncertaintyMetrics) -> list[list[str]]:
    units = {"pixel": "pixels", "box": "box sizes", "paper": "the paper's heat-map pixels"}
    rows = [
        [f"NLL {name} ({units[unit]})", interval(value, 3)]
        for name, density in values.nll.densities(values.likelihood).items()
        for unit, value in density
        if value is not None
    ]
    rows.append(["calibration error", number(values.coverage.error, 4)])
    inside = values.coverage.at
    text = ", ".join(f"{number(share * 100, 1)} %" for share in inside.values())
    rows.append([f"labels inside {', '.join(f'{float(p) * 100:g}' for p in inside)} %", text])
    for count, correlation in values.pearson.items():
        text = ", ".join(number(value) for _, value in correlation)
        rows.append([f"Pearson xx, yy, xy (bins of {count})", text])
    rows.append(["KL divergence (nats)", number(values.kl, 4)])
    rows.append(["energy score (% of box)", interval(values.scores.energy, 3)])
    rows.append(["sharpness |Σ|^¼ (% of box)", interval(values.scores.sharpness, 3)])
    rows.append(["radius that holds 90 % (% of box)", interval(values.scores.width["0.9"], 3)])
    return rows
