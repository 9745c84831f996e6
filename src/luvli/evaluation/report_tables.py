"""What stands in a report: tables of text made from measured `EvaluationMetrics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from luvli.evaluation.accuracy import FAILED_NME
from luvli.evaluation.metric_records import (
    AccuracyMetrics,
    ClassMetrics,
    EvaluationMetrics,
    UncertaintyMetrics,
)
from luvli.evaluation.metrics import CUTOFFS
from luvli.evaluation.table_text import (
    NORMALIZER_TITLES,
    TextTable,
    interval,
    listed_names,
    number,
)
from luvli.evaluation.tables import (
    footnotes,
    printed_blocks,
    published_tables,
    with_later_methods,
    with_reports,
)

_Rows = Sequence[Sequence[str]]

_LANDMARKS_SHOWN = 10
_CLASS = {
    "self_occluded": "self-occluded", "unoccluded": "unoccluded",
    "externally_occluded": "externally occluded", "visible": "all visible",
}  # fmt: skip


@dataclass(frozen=True)
class ReportSection:
    """A part of the report: tables, then plots by name."""

    title: str
    tables: Sequence[TextTable]
    plots: Sequence[str] = ()


def sections(metrics: EvaluationMetrics) -> list[ReportSection]:
    """The whole report as tables of text."""
    parts = [ReportSection("Accuracy", accuracy_tables(metrics), ("ced", "landmarks"))]
    if metrics.uncertainty is not None:
        parts.append(
            ReportSection(
                "Uncertainty",
                [
                    uncertainty_table(metrics.uncertainty, metrics.visible_landmarks),
                    likelihood_table(metrics.uncertainty),
                    scores_table(metrics.uncertainty),
                    *conditional_tables(metrics.uncertainty),
                ],
                (
                    "coverage", "residuals", "whitened", "smallest-eigenvalue",
                    "mean-ellipses", "individual-ellipses",
                ),
            )
        )  # fmt: skip
        trust = [selective_table(metrics), *confidence_tables(metrics)]
        parts.append(ReportSection("Trust", trust, ("risk-coverage", "rank")))
    tables = [classes_table(metrics.classes)]
    if metrics.visibility is not None:
        tables.append(visibility_table(metrics))
    parts.append(ReportSection("Visibility", tables, ("visibility",)))
    beside = published_text_tables(metrics)
    if beside:
        parts.append(ReportSection("Beside the paper", beside))
    return parts


def accuracy_tables(metrics: EvaluationMetrics) -> list[TextTable]:
    """NME, AUC and failure rate of the whole set and its subsets; errors by face part."""
    head = ["", "faces", "NME (%)", "NME visible (%)", "median"]
    head += [f"{name} {cutoff} %" for name in ("AUC", "FR") for cutoff in CUTOFFS]

    def rows(part: Mapping[str, AccuracyMetrics], faces: int) -> list[list[str]]:
        return [
            [
                NORMALIZER_TITLES.get(kind, kind),
                f"{faces - values.unmeasurable:,}",
                interval(values.nme),
                interval(values.nme_visible),
                number(values.median),
                *(interval(values.auc[cutoff]) for cutoff in CUTOFFS),
                *(interval(values.failure_rate[cutoff]) for cutoff in CUTOFFS),
            ]
            for kind, values in part.items()
        ]

    note = (
        "Means over faces with 95 % bootstrap intervals, in percent. NME divides by all "
        "landmarks, NME visible by the visible ones. AUC is the exact area under the cumulative "
        "error distribution."
    )
    if metrics.failed:
        note += (
            f" {len(metrics.failed)} faces without a prediction count as {FAILED_NME:g} % in "
            "the means, as failures in FR and as nothing in AUC: "
            f"{listed_names(metrics.failed)}."
        )
    if metrics.unmeasurable:
        note += (
            f" {len(metrics.unmeasurable)} faces have no measurable label and stand in no "
            f"mean: {listed_names(metrics.unmeasurable)}."
        )
    polyline = [
        [
            NORMALIZER_TITLES.get(kind, kind),
            *(number(values.auc_polyline[cutoff]) for cutoff in CUTOFFS),
        ]
        for kind, values in metrics.accuracy.items()
    ]
    tables = [
        TextTable("Whole set", head, rows(metrics.accuracy, metrics.faces), note),
        TextTable(
            "AUC as published (polyline)",
            ["", *(f"AUC {cutoff} %" for cutoff in CUTOFFS)],
            polyline,
            "Straight lines between the steps and none from the origin: slightly larger.",
        ),
    ]
    for name, part in metrics.subsets.items():
        title = f"Subset {name}: {part.faces:,} faces"
        tables.append(TextTable(title, head, rows(part.accuracy, part.faces)))
    if metrics.per_group:
        means = [["mean error (% of box)", *map(number, metrics.per_group.values())]]
        tables.append(TextTable("Parts of the face", ["", *metrics.per_group], means))
    return tables


def uncertainty_table(values: UncertaintyMetrics, visible: int) -> TextTable:
    """Calibration in numbers; `visible` landmarks were asked for."""
    covered = values.coverage
    rows = [["calibration error of the ellipses", number(covered.error, 4), "0"],
            ["bias (below 0: ellipses too small)", number(covered.bias, 4), "0"]]  # fmt: skip
    rows += [
        [f"labels inside the {float(p) * 100:g} % ellipse", f"{number(share * 100)} %",
         f"{float(p) * 100:g} %"]
        for p, share in covered.at.items()
    ]  # fmt: skip
    for count, correlation in values.pearson.items():
        rows += [
            [f"Pearson of {entry}, {count} landmarks in a bin", number(value), "1"]
            for entry, value in correlation
        ]
    rows += [
        [f"Pearson of {entry}, bins as published", number(value), "1"]
        for entry, value in values.pearson_published
    ]
    rows += [
        ["KL divergence of whitened labels (nats)", number(values.kl, 4), "0"],
        ["KL sum as published", number(values.kl_published), ""],
    ]
    small = values.smallest_deviation
    if small:
        unit = {"pixel": "pixels", "paper": "the paper's heat-map pixels"}[small.unit]
        rows.append([f"median short half-axis ({unit})", number(small.median), ""])
    return TextTable(
        "Do the covariances tell the truth?", ["", "measured", "if right"], rows,
        f"{values.usable_landmarks:,} of {visible:,} visible landmarks "
        f"have a predicted covariance, read as a {values.likelihood} density.",
    )  # fmt: skip


def likelihood_table(values: UncertaintyMetrics) -> TextTable:
    """Negative log-likelihoods in each unit."""
    nll = values.nll
    units = {"pixel": "pixels", "box": "box sizes"}
    if nll.laplace.paper is not None:
        units["paper"] = "the paper's heat-map pixels"
    rows = [
        [name, *(interval(getattr(density, unit), 3) for unit in units)]
        for name, density in nll.densities(values.likelihood).items()
    ]
    note = "Nats per landmark, for coordinates in the unit named; lower is better."
    if nll.published is not None:
        note += (
            f" As the paper prints it ({values.likelihood}, 64 heat-map pixels across its crop of "
            f"the face, without log 2π): {interval(nll.published)}."
        )
    head = ["", *units.values()]
    return TextTable("Negative log-likelihood of the labels", head, rows, note)


def scores_table(values: UncertaintyMetrics) -> TextTable:
    """Proper scores beside sharpness."""
    scores = values.scores
    rows = [
        ["energy score", interval(scores.energy, 3)],
        ["CRPS, mean of x and y", interval(scores.crps, 3)],
        ["sharpness |Σ|^¼", interval(scores.sharpness, 3)],
        *(
            [f"radius of regions that hold {float(level) * 100:g} %", interval(width, 3)]
            for level, width in scores.width.items()
        ),
    ]
    note = (
        "Percent of the box, landmarks pooled, faces drawn again; lower is better. Sharpness alone "
        "is no virtue: the last rows compare it at equal coverage, all ellipses scaled alike until "
        "they hold that share of the labels."
    )
    return TextTable("Scores of the distributions", ["", "measured"], rows, note)


def conditional_tables(values: UncertaintyMetrics) -> list[TextTable]:
    """Labels inside the 90 % ellipse under each condition; of landmarks the furthest off."""
    tables = []
    for kind in dict.fromkeys(row.kind for row in values.conditional):
        chosen = [row for row in values.conditional if row.kind == kind]
        note = ""
        if kind == "landmark" and len(chosen) > _LANDMARKS_SHOWN:
            chosen.sort(key=lambda row: -abs(row.coverage.value - 0.9))
            note = f"The {_LANDMARKS_SHOWN} that are furthest from 90 %, of {len(chosen)}."
            chosen = chosen[:_LANDMARKS_SHOWN]
        rows = [
            [row.name, f"{row.landmarks:,}", interval(row.coverage.scaled(100.0), 1)]
            for row in chosen
        ]
        head = ["", "labels", "inside (%)"]
        tables.append(TextTable(f"Labels inside the 90 % ellipse, by {kind}", head, rows, note))
    return tables


def selective_table(metrics: EvaluationMetrics) -> TextTable:
    """Failure detection."""
    rows = [
        [f"per {name}", number(values.aurc, 3), number(values.best, 3),
         number(values.excess, 3), *(number(value, 3) for value in values.auroc.values())]
        for name, values in metrics.selective.items()
    ]  # fmt: skip
    head = ["", "AURC", "best possible", "excess"]
    return TextTable(
        "Does the uncertainty find the errors?",
        [*head, *(f"AUROC of error > {cutoff} %" for cutoff in CUTOFFS)], rows,
        "AURC: mean error (% of box) of the most certain predictions, averaged over how many "
        "are kept. AUROC: chance that a failed prediction is the more uncertain one.",
    )  # fmt: skip


def confidence_tables(metrics: EvaluationMetrics) -> list[TextTable]:
    """Whether the confidence can be trusted; nothing where the model has none."""
    found = metrics.confidence
    if found is None:
        return []
    row = [
        f"{found.faces:,}", number(100 * found.failed, 1), number(found.auroc, 3),
        number(found.calibration_error, 3), number(100 * found.gain_share, 0),
        number(100 * found.gain_share_expected_error, 0), number(found.expected_error, 2),
        number(found.error, 2),
    ]  # fmt: skip
    head = ["faces", "failed (%)", "AUROC", "calibration error", "gain (%)",
            "gain by expected error (%)", "expected error", "error"]  # fmt: skip
    note = (
        f"Failed: mean error of visible landmarks of {found.success_below:g} % of the box or more. "
        "Gain: share of the possible gain in risk-coverage; 0 is a random order, 100 the true one."
    )
    return [TextTable("Does the confidence know the failures?", head, [row], note)]


_CLASS_COLUMNS = {
    "landmarks": ("landmarks", 0, 1.0),
    "mean_visibility": ("mean v̂", 3, 1.0),
    "accuracy": ("accuracy of v̂ (%)", 2, 100.0),
    "nme_box": ("NME box (%)", 2, 1.0),
    "spread_pixel": ("|Σ|^½ (px²)", 2, 1.0),
    "spread_paper": ("|Σ|^½ (px² of the paper's 256-px crop)", 2, 1.0),
    "spread_box": ("|Σ|^½ of box (×10⁻⁴)", 2, 1e4),
}
"""field of `ClassMetrics`: heading, digits, factor"""


def classes_table(classes: Mapping[str, ClassMetrics]) -> TextTable:
    """Table 9 of the paper for this set."""
    present = [
        key
        for key in _CLASS_COLUMNS
        if any(getattr(row, key) is not None for row in classes.values())
    ]

    def cell(row: ClassMetrics, key: str) -> str:
        value = getattr(row, key)
        _, digits, factor = _CLASS_COLUMNS[key]
        if isinstance(value, int):
            return f"{value:,}"
        return number(None if value is None else value * factor, digits)

    rows = [[_CLASS[name], *(cell(row, key) for key in present)] for name, row in classes.items()]
    note = "Landmarks pooled over faces; accuracy of v̂ > 0.5 meaning visible."
    head = ["", *(_CLASS_COLUMNS[key][0] for key in present)]
    return TextTable("Types of landmarks", head, rows, note)


def visibility_table(metrics: EvaluationMetrics) -> TextTable:
    """Visible or self-occluded, as a detector."""
    values = metrics.visibility
    assert values is not None
    rows = [
        ["accuracy at 0.5", number(values.accuracy, 4)],
        ["area under ROC", number(values.auroc, 4)],
        ["average precision (visible)", number(values.average_precision, 4)],
        ["average precision (hidden)", number(values.average_precision_hidden, 4)],
        ["Brier score", number(values.brier, 4)],
        ["calibration error", number(values.calibration_error, 4)],
    ]
    note = f"{values.landmarks:,} landmarks, {values.hidden:,} of them hidden."
    if values.unpredicted:
        note += f" {values.unpredicted:,} without prediction count as wrong in the accuracy."
    return TextTable("Predicted visibility", ["", "measured"], rows, note)


def published_text_tables(metrics: EvaluationMetrics) -> list[TextTable]:
    """The paper's tables that this report has a column of."""
    tables = []
    for table in published_tables():
        mine = with_reports(table, [metrics])
        if len(mine.rows) == len(table.rows):
            continue
        mine = with_later_methods(mine)
        for group, head, rows in printed_blocks(mine):
            title = f"Table {table.number}: {table.title}" + (f", {group}" if group else "")
            note = " ".join(footnotes(mine))
            body = [[name, *cells] for name, cells in rows]
            tables.append(TextTable(title, ["", *head], body, note))
    return tables
