"""A report a person reads in one go: `report.html`, `report.md`, `metrics.json` and
`predictions.parquet` in one folder."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luvli.errors import InputError
from luvli.evaluation import gallery
from luvli.evaluation.accuracy import FAILED_NME
from luvli.evaluation.faces import EvaluatedFaces, write_parquet
from luvli.evaluation.metrics import look_up, measure
from luvli.evaluation.tables import (
    QUOTED,
    markdown_table,
    printed_blocks,
    published_tables,
    with_reports,
)
from luvli.evaluation.uncertainty import LikelihoodName
from luvli.files import PathLike, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def write_report(
    folder: PathLike,
    faces: EvaluatedFaces,
    *,
    likelihood: LikelihoodName = "laplace",
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Measure everything, write the four files into `folder`, and return the metrics."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file: name a folder for the report.")
    metrics = measure(faces, likelihood=likelihood, resamples=resamples, seed=seed)
    options = gallery.Options(likelihood=likelihood)
    names = gallery.applicable(faces)
    pictures = {name: png(gallery.draw(name, [faces], options)) for name in names}
    parts = sections(metrics)
    write_parquet(target / "predictions.parquet", faces)
    write_text(target / "report.md", as_markdown(metrics, parts))
    write_text(target / "report.html", as_html(metrics, parts, pictures))
    write_text(target / "metrics.json", json.dumps(metrics, indent=1, allow_nan=False) + "\n")
    return metrics


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


# --- what stands in the report -----------------------------------------------------------


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
        f"{metrics['usable_landmarks']:,} landmarks; covariances read as a "
        f"{metrics['likelihood']} density.",
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


# --- text --------------------------------------------------------------------------------


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
        for kind, values in part["accuracy"].items():
            rows.append([f"{_KIND.get(kind, kind)} of {name} (%)", interval(values["nme"])])
    if "coverage" in metrics:
        rows += [
            [f"NLL {name} ({unit})", interval(value, 3)]
            for name in ("laplace", "gauss")
            for unit, value in metrics["nll"][name].items()
        ]
        rows.append(["calibration error of the ellipses", number(metrics["coverage"]["error"], 4)])
        inside = metrics["coverage"]["at"]
        text = ", ".join(f"{number(_percent(value), 1)} %" for value in inside.values())
        rows.append([f"labels inside {', '.join(f'{float(p) * 100:g}' for p in inside)} %", text])
        for count, entries in metrics["pearson"].items():
            text = ", ".join(number(value) for value in entries.values())
            rows.append([f"Pearson xx, yy, xy ({count} in a bin)", text])
        rows.append(["KL divergence (nats)", number(metrics["kl"], 4)])
        face = metrics["trust"]["face"]
        rows.append(["AURC of faces", f"{number(face['aurc'], 3)}, best {number(face['best'], 3)}"])
    for key, value in metrics.get("visibility", {}).items():
        if isinstance(value, float):
            rows.append([f"visibility {key.replace('_', ' ')}", number(value, 4)])
    return rows


def as_markdown(metrics: Mapping[str, Any], parts: Sequence[Section]) -> str:
    """The report without figures."""
    lines = [f"# {heading(metrics)}", summary(metrics), *metrics["notes"]]
    for part in parts:
        lines.append(f"## {part.title}")
        for block in part.blocks:
            lines += [f"### {block.title}", markdown_table(block.head, block.rows)]
            if block.note:
                lines.append(block.note)
    return "\n\n".join(lines) + "\n"


_CSS = """
body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;
 max-width:1080px;margin:2em auto;padding:0 1em}
h1{font-size:1.7em;margin-bottom:.1em}h2{border-bottom:1px solid #ccc;margin-top:2em}
h3{font-size:1.05em;margin:1.4em 0 .3em}p{margin:.4em 0}.note{color:#555;font-size:.9em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.88em}
.wide{overflow-x:auto}
th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid #e5e5e5;white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:2px solid #888}
figure{display:inline-block;margin:1em 1em 0 0;vertical-align:top;max-width:100%}
figure img{max-width:100%;height:auto}figcaption{color:#555;font-size:.9em}
nav a{margin-right:1em}
"""


def as_html(
    metrics: Mapping[str, Any], parts: Sequence[Section], pictures: Mapping[str, bytes]
) -> str:
    """The report as one page that needs no other file."""
    esc = html.escape
    links = " ".join(f'<a href="#{esc(part.title)}">{esc(part.title)}</a>' for part in parts)
    body = [f"<h1>{esc(heading(metrics))}</h1>", f"<p>{esc(summary(metrics))}</p>"]
    body += [f'<p class="note">{esc(note)}</p>' for note in metrics["notes"]]
    body.append(f"<nav>{links}</nav>")
    for part in parts:
        body.append(f'<h2 id="{esc(part.title)}">{esc(part.title)}</h2>')
        body += [html_table(block) for block in part.blocks]
        body += [html_figure(name, pictures[name]) for name in part.figures if name in pictures]
    return page(heading(metrics), "\n".join(body))


def page(title: str, body: str) -> str:
    """A self-contained HTML page in the one look of all reports."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_CSS}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def html_table(block: Block) -> str:
    """One table with heading and note."""
    esc = html.escape
    head = "".join(f"<th>{esc(cell)}</th>" for cell in block.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{esc(cell)}</td>" for cell in row) + "</tr>" for row in block.rows
    )
    note = f'<p class="note">{esc(block.note)}</p>' if block.note else ""
    return (
        f'<h3>{esc(block.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def html_figure(name: str, picture: bytes) -> str:
    """One figure, its picture inside the page."""
    entry = gallery.FIGURES[name]
    numbers = "".join(f" (figure {n} of the paper)" for n in entry.numbers)
    caption = html.escape(entry.title + numbers)
    data = base64.b64encode(picture).decode("ascii")
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
