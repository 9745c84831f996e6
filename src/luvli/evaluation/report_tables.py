"""What stands in a report: tables of text made from a metrics dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from luvli.evaluation.accuracy import FAILED_NME
from luvli.evaluation.metrics import look_up
from luvli.evaluation.tables import QUOTED, printed_blocks, published_tables, with_reports

Rows = Sequence[Sequence[str]]

_NAMES_SHOWN = 20
_KIND = {
    "box": "NME box", "interocular": "NME inter-ocular", "interpupil": "NME inter-pupil",
    "diagonal": "NME diagonal", "box_size": "NME box_size",
}  # fmt: skip
_CLASS = {
    "self_occluded": "self-occluded", "unoccluded": "unoccluded",
    "externally_occluded": "externally occluded", "visible": "all visible",
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A table with its heading and a sentence that says how to read it."""

    title: str
    head: Sequence[str]
    rows: Rows
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report: tables, then figures by name."""

    title: str
    blocks: Sequence[Block]
    figures: Sequence[str] = ()


def sections(metrics: Mapping[str, Any]) -> list[Section]:
    """The whole report as tables of text, from a metrics dictionary."""
    parts = [Section("Accuracy", accuracy_blocks(metrics), ("ced", "landmarks"))]
    if "coverage" in metrics:
        parts.append(
            Section(
                "Uncertainty",
                [uncertainty_block(metrics), likelihood_block(metrics)],
                (
                    "coverage", "residuals", "whitened", "smallest-eigenvalue",
                    "mean-ellipses", "individual-ellipses",
                ),
            )
        )  # fmt: skip
        parts.append(Section("Trust", [trust_block(metrics)], ("risk-coverage", "rank")))
    blocks = [classes_block(metrics)]
    if "visibility" in metrics:
        blocks.append(visibility_block(metrics))
    parts.append(Section("Visibility", blocks, ("visibility",)))
    beside = published_blocks(metrics)
    if beside:
        parts.append(Section("Beside the paper", beside))
    return parts


def accuracy_blocks(metrics: Mapping[str, Any]) -> list[Block]:
    """NME, AUC and failure rate of the whole set and its subsets; errors by face part."""
    cutoffs = ("7", "8", "10")
    head = ["", "faces", "NME (%)", "NME visible (%)", "median"]
    head += [f"{name} {c} %" for name in ("AUC", "FR") for c in cutoffs]

    def rows(part: Mapping[str, Any], faces: int) -> list[list[str]]:
        return [
            [
                _KIND.get(kind, kind),
                f"{faces - values['unmeasurable']:,}",
                interval(values["nme"]),
                interval(values["nme_vis"]),
                number(values["median"]),
                *(interval(values[name][c]) for name in ("auc", "fr") for c in cutoffs),
            ]
            for kind, values in part.items()
        ]

    note = (
        "Means over faces with 95 % bootstrap intervals, in percent. NME divides by all "
        "landmarks, NME visible by the visible ones. AUC is the exact area under the cumulative "
        "error distribution."
    )
    if metrics["failed"]:
        note += (
            f" {len(metrics['failed'])} faces without a prediction count as {FAILED_NME:g} % in "
            "the means, as failures in FR and as nothing in AUC: "
            f"{listed_names(metrics['failed'])}."
        )
    if metrics["unmeasurable"]:
        note += (
            f" {len(metrics['unmeasurable'])} faces have no measurable label and stand in no "
            f"mean: {listed_names(metrics['unmeasurable'])}."
        )
    kinds = metrics["accuracy"]
    polyline = [
        [_KIND.get(kind, kind), *(number(values["auc_polyline"][c]) for c in cutoffs)]
        for kind, values in kinds.items()
    ]
    blocks = [
        Block("Whole set", head, rows(kinds, metrics["faces"]), note),
        Block(
            "AUC as published (polyline)",
            ["", *(f"AUC {c} %" for c in cutoffs)],
            polyline,
            "Straight lines between the steps and none from the origin: slightly larger.",
        ),
    ]
    for name, part in metrics["subsets"].items():
        title = f"Subset {name}: {part['faces']:,} faces"
        blocks.append(Block(title, head, rows(part["accuracy"], part["faces"])))
    if "per_group" in metrics:
        groups = metrics["per_group"]
        means = [["mean error (% of box)", *(number(groups[g]) for g in groups)]]
        blocks.append(Block("Parts of the face", ["", *groups], means))
    return blocks


def uncertainty_block(metrics: Mapping[str, Any]) -> Block:
    """Calibration in numbers."""
    covered = metrics["coverage"]
    rows = [["calibration error of the ellipses", number(covered["error"], 4), "0"],
            ["bias (below 0: ellipses too small)", number(covered["bias"], 4), "0"]]  # fmt: skip
    rows += [
        [f"labels inside the {float(p) * 100:g} % ellipse", f"{number(_percent(value))} %",
         f"{float(p) * 100:g} %"]
        for p, value in covered["at"].items()
    ]  # fmt: skip
    rows += [
        [f"Pearson of {entry}, {count} landmarks in a bin", number(value), "1"]
        for count, entries in metrics["pearson"].items()
        for entry, value in entries.items()
    ]
    rows += [
        [f"Pearson of {entry}, bins as published", number(value), "1"]
        for entry, value in metrics["pearson_published"].items()
    ]
    rows += [
        ["KL divergence of whitened labels (nats)", number(metrics["kl"], 4), "0"],
        ["KL sum as published", number(metrics["kl_published"]), ""],
    ]
    small = metrics.get("smallest_deviation")
    if small:
        rows.append([f"median short half-axis ({small['unit']}s)", number(small["median"]), ""])
    return Block(
        "Do the covariances tell the truth?", ["", "measured", "if right"], rows,
        f"{metrics['usable_landmarks']:,} of {metrics['visible_landmarks']:,} visible landmarks "
        f"have a predicted covariance, read as a {metrics['likelihood']} density.",
    )  # fmt: skip


def likelihood_block(metrics: Mapping[str, Any]) -> Block:
    """Negative log-likelihoods in each unit."""
    units = {"pixel": "pixels", "box": "box sizes", "heatmap": "heat-map pixels"}
    nll = metrics["nll"]
    present = [unit for unit in units if unit in nll["laplace"]]
    rows = [
        [name, *(interval(nll[name][unit], 3) for unit in present)] for name in ("laplace", "gauss")
    ]
    note = "Nats per landmark, for coordinates in the unit named; lower is better."
    if "published" in nll:
        note += (
            f" As the paper prints it ({metrics['likelihood']}, heat-map pixels, without "
            f"log 2π): {interval(nll['published'])}."
        )
    return Block(
        "Negative log-likelihood of the labels", ["", *(units[u] for u in present)], rows, note
    )


def trust_block(metrics: Mapping[str, Any]) -> Block:
    """Failure detection."""
    rows = []
    for name, values in metrics["trust"].items():
        rows.append(
            [f"per {name}", number(values["aurc"], 3), number(values["best"], 3),
             number(values["excess"], 3), *(number(v, 3) for v in values["auroc"].values())]
        )  # fmt: skip
    cutoffs = next(iter(metrics["trust"].values()))["auroc"]
    head = ["", "AURC", "best possible", "excess", *(f"AUROC of error > {c} %" for c in cutoffs)]
    return Block(
        "Does the uncertainty find the errors?", head, rows,
        "AURC: mean error (% of box) of the most certain predictions, averaged over how many "
        "are kept. AUROC: chance that a failed prediction is the more uncertain one.",
    )  # fmt: skip


def classes_block(metrics: Mapping[str, Any]) -> Block:
    """Table 9 of the paper for this set."""
    columns = {
        "landmarks": ("landmarks", 0, 1.0),
        "mean_visibility": ("mean v̂", 3, 1.0),
        "accuracy": ("accuracy", 3, 1.0),
        "nme_box": ("NME box (%)", 2, 1.0),
        "spread": ("|Σ|^½ (px²)", 2, 1.0),
        "spread_input": ("|Σ|^½ (input px²)", 2, 1.0),
        "spread_box": ("|Σ|^½ of box (×10⁻⁴)", 2, 1e4),
    }
    rows_of = metrics["classes"]
    present = [key for key in columns if any(key in row for row in rows_of.values())]
    rows = [
        [_CLASS[name], *(_scaled(row.get(key), *columns[key][1:]) for key in present)]
        for name, row in rows_of.items()
    ]
    note = "Landmarks pooled over faces; accuracy of v̂ > 0.5 meaning visible."
    return Block("Types of landmarks", ["", *(columns[k][0] for k in present)], rows, note)


def visibility_block(metrics: Mapping[str, Any]) -> Block:
    """Visible or self-occluded, as a detector."""
    names = {
        "accuracy": "accuracy at 0.5",
        "auroc": "area under ROC",
        "average_precision": "average precision (visible)",
        "average_precision_hidden": "average precision (hidden)",
        "brier": "Brier score",
        "calibration_error": "calibration error",
    }
    values = metrics["visibility"]
    rows = [[text, number(values[key], 4)] for key, text in names.items()]
    note = f"{values['landmarks']:,} landmarks, {values['hidden']:,} of them hidden."
    if values["unpredicted"]:
        note += f" {values['unpredicted']:,} without prediction count as wrong in the accuracy."
    return Block("Predicted visibility", ["", "measured"], rows, note)


def published_blocks(metrics: Mapping[str, Any]) -> list[Block]:
    """The paper's tables that this report has a column of."""
    blocks = []
    for table in published_tables():
        mine = with_reports(table, [metrics])
        if len(mine.rows) == len(table.rows):
            continue
        for group, head, rows in printed_blocks(mine):
            title = f"Table {table.number}: {table.title}" + (f", {group}" if group else "")
            note = QUOTED + (f" {table.note}." if table.note else "")
            blocks.append(Block(title, ["", *head], [[name, *cells] for name, cells in rows], note))
    return blocks


def number(value: Any, digits: int = 2) -> str:
    """A number with fixed digits; a dash for nothing."""
    return "-" if value is None else f"{float(value):.{digits}f}"


def interval(values: Mapping[str, Any], digits: int = 2) -> str:
    """A number with its interval in brackets."""
    text = number(values["value"], digits)
    if values["low"] is None:
        return text
    return f"{text} [{number(values['low'], digits)}, {number(values['high'], digits)}]"


def listed_names(names: Sequence[str]) -> str:
    """Names for a sentence: the first few, and how many more."""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _percent(value: float | None) -> float | None:
    return None if value is None else value * 100


def _scaled(value: Any, digits: int, factor: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return number(None if value is None else value * factor, digits)


def heading(metrics: Mapping[str, Any]) -> str:
    """Title of a report."""
    where = " ".join(part for part in (metrics["dataset"], metrics["subset"]) if part)
    return f"{metrics['method']} on {where}" if metrics["dataset"] else str(metrics["method"])


def summary(metrics: Mapping[str, Any]) -> str:
    """One line under the title."""
    text = (
        f"{metrics['faces']:,} faces, {metrics['landmarks']} landmarks each, "
        f"{metrics['visible_landmarks']:,} visible; {len(metrics['failed'])} without prediction."
    )
    best = look_up(metrics, "accuracy.box.nme")
    return text if best is None else f"NME box {best:.2f} %. {text}"


def summary_rows(metrics: Mapping[str, Any]) -> list[list[str]]:
    """The figures that matter most, one to a line: for a terminal."""
    rows = []
    for kind, values in metrics["accuracy"].items():
        rows.append([f"{_KIND.get(kind, kind)} (%)", interval(values["nme"])])
        if values["nme_vis"]["value"] != values["nme"]["value"]:
            rows.append([f"{_KIND.get(kind, kind)}, visible (%)", interval(values["nme_vis"])])
        for cutoff in values["auc"]:
            text = f"{interval(values['auc'][cutoff])}, FR {interval(values['fr'][cutoff])}"
            rows.append([f"  AUC {cutoff} %", text])
    for name, part in metrics["subsets"].items():
        if "box" in part["accuracy"]:
            rows.append([f"NME box of {name} (%)", interval(part["accuracy"]["box"]["nme"])])
    if "coverage" in metrics:
        rows += [
            [f"NLL {name} ({unit})", interval(value, 3)]
            for name in ("laplace", "gauss")
            for unit, value in metrics["nll"][name].items()
        ]
        rows.append(["calibration error", number(metrics["coverage"]["error"], 4)])
        inside = metrics["coverage"]["at"]
        text = ", ".join(f"{number(_percent(value), 1)} %" for value in inside.values())
        rows.append([f"labels inside {', '.join(f'{float(p) * 100:g}' for p in inside)} %", text])
        for count, entries in metrics["pearson"].items():
            text = ", ".join(number(value) for value in entries.values())
            rows.append([f"Pearson xx, yy, xy (bins of {count})", text])
        rows.append(["KL divergence (nats)", number(metrics["kl"], 4)])
        face = metrics["trust"]["face"]
        rows.append(["AURC of faces", f"{number(face['aurc'], 3)}, best {number(face['best'], 3)}"])
    for key, value in metrics.get("visibility", {}).items():
        if isinstance(value, float):
            rows.append([f"visibility {key.replace('_', ' ')}", number(value, 4)])
    return rows
