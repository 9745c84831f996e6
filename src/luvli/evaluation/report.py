"""A report a person reads in one go: `report.html`, `report.md`, `metrics.json` and
`predictions.parquet` in one folder."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from luvli.errors import InputError
from luvli.evaluation import plot_registry
from luvli.evaluation.accuracy import FAILED_NME
from luvli.evaluation.bootstrap import Interval
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metrics import Evaluation, compute_metrics
from luvli.evaluation.paper_tables import tables_beside_paper
from luvli.evaluation.registry import METRICS, NORMALIZERS, SECTIONS, Metric, get_metric, quoted
from luvli.evaluation.report_file import write_parquet
from luvli.evaluation.table import Table, interval, listed_names, number
from luvli.files import PathLike, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PLOTS = {
    "Accuracy": ("ced", "landmarks"),
    "Uncertainty": ("coverage", "residuals", "whitened", "smallest-eigenvalue", "mean-ellipses",
                    "individual-ellipses"),
    "Trust": ("risk-coverage", "rank"),
    "Visibility": ("visibility",),
}  # fmt: skip


_PEARSON = (
    "The paper (figure 4) prints 0.98 and 0.99 for 734 landmarks in a bin, and 0.84, 0.80 and 0.72 "
    "for 36."
)


def write_report(
    folder: PathLike, faces: LabelledFaces, *, resamples: int = 1000, seed: int = 0
) -> Evaluation:
    """Measure everything, write the four files into `folder`, and return the metrics."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file: name a folder for the report.")
    evaluation = compute_metrics(faces, resamples=resamples, seed=seed)
    names = plot_registry.applicable_plots(faces)
    plots = {name: png(plot_registry.draw_plot(name, [faces])) for name in names}
    parts = report_sections(evaluation)
    write_parquet(target / "predictions.parquet", faces)
    write_text(target / "report.md", _markdown(evaluation, parts))
    write_text(target / "report.html", _html(evaluation, parts, plots))
    write_text(target / "metrics.json", evaluation.to_json())
    return evaluation


def report_folder(out: PathLike, faces: LabelledFaces) -> Path:
    """`out`, or a folder in it where `out` holds a report of another method or test set."""
    target = Path(out)
    place = target / "metrics.json"
    if not place.is_file():
        return target
    try:
        stored = Evaluation.read(place)
    except InputError:
        return target  # of another version: to be replaced
    own = (faces.method, faces.dataset, faces.subset)
    if (stored.method, stored.dataset, stored.subset) == own:
        return target
    name = "-".join(word.replace("/", "_") for word in own if word)
    return target / name


def heading(evaluation: Evaluation) -> str:
    """Title of a report."""
    where = " ".join(part for part in (evaluation.dataset, evaluation.subset) if part)
    return f"{evaluation.method} on {where}" if evaluation.dataset else evaluation.method


def summary(evaluation: Evaluation) -> str:
    """One line under the title."""
    text = (
        f"{evaluation.faces:,} faces, {evaluation.landmarks} landmarks each, "
        f"{evaluation.visible_landmarks:,} visible; {len(evaluation.failed)} without prediction."
    )
    if evaluation.missing:
        text += f" Not predicted, so not reported: {', '.join(evaluation.missing)}."
    return text


# --- tables ------------------------------------------------------------------------------


def quoted_table(evaluation: Evaluation, intervals: bool = True) -> Table:
    """What papers quote of this data set: the whole set and its parts."""
    cell = interval if intervals else _value
    names = [name for name in quoted(evaluation.dataset) if name in evaluation.metrics]
    columns = [get_metric(name) for name in names]
    parts = {evaluation.subset: (evaluation.faces, evaluation.metrics)}
    parts |= {name: (part.faces, part.metrics) for name, part in evaluation.subsets.items()}
    rows = [
        [part, f"{faces:,}", *(cell(metrics.get(name)) for name in names)]
        for part, (faces, metrics) in parts.items()
    ]
    notes = [
        f"Means over faces{' with 95 % bootstrap intervals' if intervals else ''}. NME (eq. 15) "
        "divides by all landmarks, NME_vis (eq. 20) by the visible ones."
    ]
    if evaluation.failed:
        notes.append(
            f"{len(evaluation.failed)} faces without a prediction count as {FAILED_NME:g} % in "
            "the means, as failures in FR and as nothing in AUC: "
            f"{listed_names(evaluation.failed)}."
        )
    if evaluation.unmeasurable:
        notes.append(
            f"{len(evaluation.unmeasurable)} faces have no measurable label and stand in no mean: "
            f"{listed_names(evaluation.unmeasurable)}."
        )
    return Table(
        "As papers quote it",
        ["", "faces", *(metric.title for metric in columns)],
        rows,
        ["", "", *(metric.unit for metric in columns)],
        notes,
    )


def _value(values: Interval | None) -> str:
    return number(None if values is None else values.value)


def value_table(evaluation: Evaluation, section: str = "") -> Table:
    """The metrics of a section, or of all, that are one number under one normaliser, or under none:
    one to a line."""
    chosen = [
        metric
        for metric in METRICS
        if metric.name in evaluation.metrics
        and not metric.normalizer
        and section in ("", metric.section)
    ]
    rows = [
        [metric.title, interval(evaluation.metrics[metric.name], metric.digits), metric.unit]
        for metric in chosen
    ]
    return Table(section or "All faces", ["metric", "value [95 % interval]", "unit"], rows)


def report_sections(evaluation: Evaluation) -> dict[str, list[Table]]:
    """The tables of a report, by section."""
    parts: dict[str, list[Table]] = {"Accuracy": [quoted_table(evaluation)]}
    parts["Accuracy"].append(_normalizer_table("All normalisers", evaluation.metrics))
    parts["Accuracy"] += [
        _normalizer_table(f"{name}: {part.faces:,} faces", part.metrics)
        for name, part in evaluation.subsets.items()
    ]
    for section in SECTIONS:
        tables = [value_table(evaluation, section), *_key_tables(evaluation, section)]
        parts.setdefault(section, []).extend(table for table in tables if table.rows)
    parts["Beside the paper"] = tables_beside_paper(evaluation)
    return {title: tables for title, tables in parts.items() if tables}


def _normalizer_table(title: str, metrics: Mapping[str, Interval]) -> Table:
    """Normalisers as rows, their metrics as columns."""
    kinds = [m for m in METRICS if m.normalizer == "box"]
    stems = [metric.name.removesuffix("_box") for metric in kinds]
    heads = [metric.title.replace(", box", "").replace("_box", "") for metric in kinds]
    rows = [
        [title_of, *(interval(metrics.get(f"{stem}_{kind}")) for stem in stems)]
        for kind, title_of in NORMALIZERS.items()
        if f"nme_{kind}" in metrics
    ]
    return Table(title, ["normaliser", *heads], rows, ["", *(m.unit for m in kinds)])


def _key_tables(evaluation: Evaluation, section: str) -> list[Table]:
    """Metrics that are mappings: one table for all of a section that have the same keys."""
    groups: dict[str, list[Metric]] = {}
    for metric in METRICS:
        if metric.section == section and metric.by:
            groups.setdefault(metric.by, []).append(metric)
    tables = []
    for by, members in groups.items():
        keys = dict.fromkeys(
            name.partition(".")[2]
            for metric in members
            for name in evaluation.metrics
            if name.startswith(f"{metric.name}.")
        )
        shown = [m for m in members if any(f"{m.name}.{k}" in evaluation.metrics for k in keys)]
        rows = [
            [
                key.replace("_", " "),
                *(interval(evaluation.metrics.get(f"{m.name}.{key}"), m.digits) for m in shown),
            ]
            for key in keys
        ]
        heads = [metric.title for metric in shown]
        notes = [_PEARSON] if by == "entry of Σ" else []
        tables.append(Table(f"By {by}", [by, *heads], rows, ["", *(m.unit for m in shown)], notes))
    return tables


# --- pages -------------------------------------------------------------------------------


def _markdown(evaluation: Evaluation, parts: Mapping[str, Sequence[Table]]) -> str:
    lines = [f"# {heading(evaluation)}", summary(evaluation), *evaluation.notes]
    for title, tables in parts.items():
        lines += [f"## {title}", *(table.markdown() for table in tables)]
    return "\n\n".join(lines) + "\n"


def _html(
    evaluation: Evaluation, parts: Mapping[str, Sequence[Table]], plots: Mapping[str, bytes]
) -> str:
    """The report as one page that needs no other file."""
    links = " ".join(f'<a href="#{escape(title)}">{escape(title)}</a>' for title in parts)
    body = [f"<p>{escape(summary(evaluation))}</p>"]
    body += [f'<p class="note">{escape(note)}</p>' for note in evaluation.notes]
    body.append(f"<nav>{links}</nav>")
    for title, tables in parts.items():
        body.append(f'<h2 id="{escape(title)}">{escape(title)}</h2>')
        body += [table.html() for table in tables]
        body += [html_plot(name, plots[name]) for name in _PLOTS.get(title, ()) if name in plots]
    return page(heading(evaluation), body)


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


_CSS = """
body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;
 max-width:1320px;margin:2em auto;padding:0 1em}
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


def page(title: str, body: Sequence[str]) -> str:
    """A self-contained HTML page in the one look of all reports."""
    content = "\n".join(body)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{content}\n</body></html>\n"
    )


def html_plot(name: str, png_bytes: bytes) -> str:
    """One plot of the registry, its image inside the page."""
    entry = plot_registry.PLOTS[name]
    numbers = "".join(f" (figure {n} of the paper)" for n in entry.numbers)
    return html_image(entry.title + numbers, png_bytes)


def html_image(title: str, png_bytes: bytes) -> str:
    """One image with its title, inside the page."""
    caption = escape(title)
    data = base64.b64encode(png_bytes).decode("ascii")
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
