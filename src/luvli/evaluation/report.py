"""A report a person reads in one go: `report.html`, `report.md`, `metrics.json` and
`predictions.parquet` in one folder."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from luvli.errors import InputError
from luvli.evaluation import plot_registry
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metric_records import EvaluationMetrics
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.report_file import write_parquet
from luvli.evaluation.report_tables import ReportSection, sections
from luvli.evaluation.summary import heading, summary
from luvli.evaluation.table_text import TextTable
from luvli.evaluation.tables import markdown_table
from luvli.files import PathLike, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(
    folder: PathLike,
    faces: LabelledFaces,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> EvaluationMetrics:
    """Measure everything, write the four files into `folder`, and return the metrics."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file: name a folder for the report.")
    metrics = compute_metrics(faces, resamples=resamples, seed=seed)
    names = plot_registry.applicable_plots(faces)
    drawn = {name: png(plot_registry.draw_plot(name, [faces])) for name in names}
    parts = sections(metrics)
    write_parquet(target / "predictions.parquet", faces)
    write_text(target / "report.md", report_markdown(metrics, parts))
    write_text(target / "report.html", report_html(metrics, parts, drawn))
    write_text(target / "metrics.json", metrics.to_json())
    return metrics


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def report_markdown(metrics: EvaluationMetrics, parts: Sequence[ReportSection]) -> str:
    """The report without plots."""
    lines = [f"# {heading(metrics)}", summary(metrics), *metrics.notes]
    for part in parts:
        lines.append(f"## {part.title}")
        for table in part.tables:
            lines += [f"### {table.title}", markdown_table(table.head, table.rows)]
            if table.note:
                lines.append(table.note)
    return "\n\n".join(lines) + "\n"


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


def report_html(
    metrics: EvaluationMetrics, parts: Sequence[ReportSection], drawn: Mapping[str, bytes]
) -> str:
    """The report as one page that needs no other file."""
    esc = html.escape
    links = " ".join(f'<a href="#{esc(part.title)}">{esc(part.title)}</a>' for part in parts)
    body = [f"<h1>{esc(heading(metrics))}</h1>", f"<p>{esc(summary(metrics))}</p>"]
    body += [f'<p class="note">{esc(note)}</p>' for note in metrics.notes]
    body.append(f"<nav>{links}</nav>")
    for part in parts:
        body.append(f'<h2 id="{esc(part.title)}">{esc(part.title)}</h2>')
        body += [html_table(table) for table in part.tables]
        body += [html_plot(name, drawn[name]) for name in part.plots if name in drawn]
    return page(heading(metrics), "\n".join(body))


def page(title: str, body: str) -> str:
    """A self-contained HTML page in the one look of all reports."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_CSS}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def html_table(table: TextTable) -> str:
    """One table with heading and note."""
    esc = html.escape
    head = "".join(f"<th>{esc(cell)}</th>" for cell in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{esc(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    note = f'<p class="note">{esc(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{esc(table.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def html_plot(name: str, png_bytes: bytes) -> str:
    """One plot, its image inside the page."""
    entry = plot_registry.PLOTS[name]
    numbers = "".join(f" (figure {n} of the paper)" for n in entry.numbers)
    return html_image(entry.title + numbers, png_bytes)


def html_image(title: str, png_bytes: bytes) -> str:
    """One image with its title, inside the page."""
    caption = html.escape(title)
    data = base64.b64encode(png_bytes).decode("ascii")
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
