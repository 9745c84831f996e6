"""`Table`: rows, columns, units and notes, printed as text, Markdown or HTML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from luvli.evaluation.bootstrap import Interval
from luvli.files import one_line

ARROWS = {"lower": " ↓", "higher": " ↑", None: ""}
"""behind the name of a column or metric: which way is better"""
NAMES_SHOWN = 20
_NOTE = "* best, ' second best of its column."


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
    marks: Mapping[tuple[int, int], Literal["best", "second"]] = field(default_factory=dict)
    """(row, column) of the best and second-best cells"""

    @property
    def head(self) -> list[str]:
        """Columns with their units."""
        units = self.units or [""] * len(self.columns)
        pairs = zip(self.columns, units, strict=True)
        return [f"{name} ({unit})" if unit else name for name, unit in pairs]

    def text(self) -> str:
        """Aligned columns for a terminal or a file."""
        signs = {"best": "*", "second": "'"}
        rows = [
            [
                one_line(cell) + signs.get(self.marks.get((i, j), ""), " " if self.marks else "")
                for j, cell in enumerate(row)
            ]
            for i, row in enumerate(self.rows)
        ]
        lines = [[one_line(cell) for cell in self.head], *rows]
        widths = [max(len(line[j]) for line in lines) for j in range(len(self.head))]
        printed = [
            "  ".join(
                cell.rjust(width) if j else cell.ljust(width)
                for j, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*([self.title] if self.title else []), *printed, *self._notes()])

    def markdown(self, level: int = 3) -> str:
        """A heading, a GitHub table and its notes; best cells are bold, second ones in italics."""
        signs = {"best": "**", "second": "*"}
        rows = [
            [
                f"{sign}{cell}{sign}"
                if (sign := signs.get(self.marks.get((i, j), ""), ""))
                else cell
                for j, cell in enumerate(row)
            ]
            for i, row in enumerate(self.rows)
        ]
        lines = [self.head, [":--"] + ["--:"] * (len(self.head) - 1), *rows]
        table = "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        )
        notes = list(self.notes)
        if self.marks:
            notes.append("Bold: best; italics: second best of its column.")
        return "\n\n".join(
            [*([f"{'#' * level} {self.title}"] if self.title else []), table, *notes]
        )

    def html(self) -> str:
        """A heading, a table and its notes."""
        tags = {"best": "b", "second": "i"}

        def cell(i: int, j: int, text: str) -> str:
            tag = tags.get(self.marks.get((i, j), ""))
            return f"<td><{tag}>{escape(text)}</{tag}></td>" if tag else f"<td>{escape(text)}</td>"

        head = "".join(f"<th>{escape(name)}</th>" for name in self.head)
        rows = "".join(
            "<tr>" + "".join(cell(i, j, text) for j, text in enumerate(row)) + "</tr>"
            for i, row in enumerate(self.rows)
        )
        notes = "".join(f'<p class="note">{escape(note)}</p>' for note in self.notes)
        return (
            f'<h3>{escape(self.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>{notes}"
        )

    def _notes(self) -> list[str]:
        return [*self.notes, *([_NOTE] if self.marks else [])]


def best_marks(
    values: Sequence[Sequence[float | None]], better: Sequence[Literal["lower", "higher"] | None]
) -> dict[tuple[int, int], Literal["best", "second"]]:
    """The best and second-best rows of each column; equal values share a mark.

    >>> best_marks([[2.0], [1.0], [1.0], [3.0]], ["lower"])
    {(1, 0): 'best', (2, 0): 'best', (0, 0): 'second'}
    """
    marks: dict[tuple[int, int], Literal["best", "second"]] = {}
    for j, direction in enumerate(better):
        column = {i: v for i, row in enumerate(values) if isinstance(v := row[j], float)}
        if direction is None or len(column) < 3:
            continue
        order = sorted(set(column.values()), reverse=direction == "higher")
        ranks: tuple[tuple[Literal["best", "second"], float], ...] = tuple(
            zip(("best", "second"), order, strict=False)
        )
        for mark, value in ranks:
            marks |= {(i, j): mark for i, v in column.items() if v == value}
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


def probability(value: float | None) -> str:
    """A p-value: four digits, and never 0.

    >>> probability(0.0412), probability(3e-9)
    ('0.0412', '< 0.0001')
    """
    small = value is not None and value < 0.00005
    return "< 0.0001" if small else number(value, 4)


def numbered(names: Sequence[str]) -> list[str]:
    """The names, those that stand more than once with a number behind them.

    >>> numbered(["a", "b", "a"])
    ['a (1)', 'b', 'a (2)']
    """
    counts = Counter(names)
    before = Counter[str]()
    result = []
    for name in names:
        before[name] += 1
        result.append(f"{name} ({before[name]})" if counts[name] > 1 else name)
    return result


def listed_names(names: Sequence[str]) -> str:
    """Names for a sentence: the first few, and how many more."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
