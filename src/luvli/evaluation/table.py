"""`Table`: rows, columns, units and notes, printed as text, Markdown or HTML; and the pages that
reports are: a list of parts becomes an HTML page and a Markdown text."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from luvli.evaluation.bootstrap import Interval
from luvli.files import PathLike, one_line, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARROWS = {"lower": " ↓", "higher": " ↑", None: ""}
"""behind the name of a column or metric: which way is better"""
NAMES_SHOWN = 20

Mark = Literal["best", "second"]


@dataclass(frozen=True)
class Table:
    """The first cell of a row is its name; the first column is aligned to the left.

    >>> rows = [["a", "2.50"], ["bc", "13.00"]]
    >>> print(Table("Errors", ["method", "NME"], rows, ["", "%"]).text())
    Errors
    method  NME (%)
    a          2.50
    bc        13.00
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    units: Sequence[str] = ()
    """one for each column, "" for none"""
    notes: Sequence[str] = ()
    """sentences below the table"""
    marks: Mapping[tuple[int, int], Mark] = field(default_factory=dict)
    """(row, column) of the best and second-best cells"""

    @property
    def head(self) -> list[str]:
        """Columns with their units."""
        pairs = zip(self.columns, self.units or [""] * len(self.columns), strict=True)
        return [f"{name} ({unit})" if unit else name for name, unit in pairs]

    def text(self) -> str:
        """Aligned columns for a terminal or a file; a star marks the best of a column."""
        blank = " " if self.marks else ""
        signs = {"best": "{}*", "second": "{}'", None: f"{{}}{blank}"}
        lines = [[one_line(cell) for cell in row] for row in [self.head, *self._marked(signs)]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        printed = []
        for first, *others in lines:
            cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            printed.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        legend = ["* best, ' second best of its column."] if self.marks else []
        return "\n".join([*filter(None, [self.title]), *printed, *self.notes, *legend])

    def markdown(self, level: int = 3) -> str:
        """A heading, a GitHub table and its notes; best cells are bold, second ones in italics."""
        rows = self._marked({"best": "**{}**", "second": "*{}*", None: "{}"})
        lines = [self.head, [":--"] + ["--:"] * (len(self.head) - 1), *rows]
        cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        table = "\n".join(f"| {' | '.join(line)} |" for line in cells)
        title = [f"{'#' * level} {self.title}"] if self.title else []
        legend = ["Bold: best; italics: second best of its column."] if self.marks else []
        return "\n\n".join([*title, table, *self.notes, *legend])

    def html(self) -> str:
        """A heading, a table and its notes."""
        rows = self._marked({"best": "<b>{}</b>", "second": "<i>{}</i>", None: "{}"}, html=True)
        head = "".join(f"<th>{escape(name)}</th>" for name in self.head)
        body = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows
        )
        notes = "".join(f'<p class="note">{escape(note)}</p>' for note in self.notes)
        return (
            f'<h3>{escape(self.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>{notes}"
        )

    def _marked(self, signs: Mapping[str | None, str], html: bool = False) -> list[list[str]]:
        """The rows, each cell with the sign of its mark."""
        return [
            [
                signs[self.marks.get((i, j))].format(escape(cell) if html else cell)
                for j, cell in enumerate(row)
            ]
            for i, row in enumerate(self.rows)
        ]


def best_marks(
    values: Sequence[Sequence[float | None]], better: Sequence[Literal["lower", "higher"] | None]
) -> dict[tuple[int, int], Mark]:
    """The best and second-best rows of each column; equal values share a mark.

    >>> best_marks([[2.0], [1.0], [1.0], [3.0]], ["lower"])
    {(1, 0): 'best', (2, 0): 'best', (0, 0): 'second'}
    """
    marks: dict[tuple[int, int], Mark] = {}
    for j, direction in enumerate(better):
        column = {i: value for i, row in enumerate(values) if (value := row[j]) is not None}
        if direction is None or len(column) < 3:
            continue
        best, *others = sorted(set(column.values()), reverse=direction == "higher")
        marks |= {(i, j): "best" for i, value in column.items() if value == best}
        marks |= {(i, j): "second" for i, value in column.items() if value in others[:1]}
    return marks


def number(value: float | None, digits: int = 2) -> str:
    """A number with fixed digits; a dash for nothing.

    >>> number(3.14159), number(None), number(math.nan)
    ('3.14', '-', '-')
    """
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def interval(values: Interval | None, digits: int = 2) -> str:
    """A number with its interval in brackets."""
    if values is None or not math.isfinite(values.low):
        return number(None if values is None else values.value, digits)
    return f"{values.value:.{digits}f} [{values.low:.{digits}f}, {values.high:.{digits}f}]"


def probability(value: float) -> str:
    """A p-value: four digits, and never 0.

    >>> probability(0.0412), probability(3e-9)
    ('0.0412', '< 0.0001')
    """
    return "< 0.0001" if value < 0.00005 else number(value, 4)


def numbered(names: Sequence[str]) -> list[str]:
    """The names, those that stand more than once with a number behind them.

    >>> numbered(["a", "b", "a"])
    ['a (1)', 'b', 'a (2)']
    """
    return [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def listed_names(names: Sequence[str]) -> str:
    """Names for a sentence: the first few, and how many more."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


# --- pages -------------------------------------------------------------------------------


class Picture(NamedTuple):
    """An image inside the page; the Markdown text has none."""

    title: str
    data: bytes
    """of a PNG or JPEG file"""


PagePart = str | Table | Picture
"""a sentence, a heading ("## Accuracy"), a table or a picture"""

_CSS = """
body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;
 max-width:1320px;margin:2em auto;padding:0 1em}
h2{border-bottom:1px solid #ccc;margin-top:2em}h3{margin:1.4em 0 .3em}
.note,figcaption{color:#555;font-size:.9em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.88em}
.wide{overflow-x:auto}
th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid #e5e5e5;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
figure{display:inline-block;margin:1em 1em 0 0;vertical-align:top}
figure img{max-width:100%;height:auto}figcaption{contain:inline-size}nav a{margin-right:1em}
"""


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def write_page(folder: PathLike, name: str, title: str, parts: Sequence[PagePart]) -> None:
    """`name`.html, which needs no other file, and `name`.md."""
    text = [f"# {title}"]
    text += [p if isinstance(p, str) else p.markdown() for p in parts if not isinstance(p, Picture)]
    write_text(Path(folder) / f"{name}.md", "\n\n".join(text) + "\n")
    write_text(Path(folder) / f"{name}.html", html_page(title, parts))


def html_page(title: str, parts: Sequence[PagePart]) -> str:
    """A page that needs no other file."""
    headings = [part[3:] for part in parts if isinstance(part, str) and part.startswith("## ")]
    links = " ".join(f'<a href="#{escape(each)}">{escape(each)}</a>' for each in headings)
    content = "\n".join([f"<nav>{links}</nav>", *map(_html, parts)])
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{content}\n</body></html>\n"
    )


def _html(part: PagePart) -> str:
    if isinstance(part, Table):
        return part.html()
    if isinstance(part, Picture):
        caption, data = escape(part.title), base64.b64encode(part.data).decode("ascii")
        kind = "jpeg" if part.data.startswith(b"\xff\xd8") else "png"
        image = f'<img alt="{caption}" src="data:image/{kind};base64,{data}">'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    if part.startswith("## "):
        return f'<h2 id="{escape(part[3:])}">{escape(part[3:])}</h2>'
    return f'<p class="note">{escape(part)}</p>'
