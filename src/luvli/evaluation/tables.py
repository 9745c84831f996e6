"""The paper's result tables, with our rows below the quoted ones.

`published.json` holds every table of the paper and its supplement under its number and a
name. A column that can be measured names a data set, a subset and a metric, and is filled
from reports (`metrics.json`) of that data set.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from luvli.errors import unknown_choice
from luvli.evaluation.metric_records import MetricRecord, Metrics, find_metric
from luvli.files import PathLike

AucMethod = Literal["step", "polyline"]
Cell = float | int | str | None


@dataclass(frozen=True)
class TableColumn:
    """One column: what stands above it, and where our own value comes from."""

    label: str
    group: str
    digits: int
    better: Literal["lower", "higher"] | None = None
    dataset: str | None = None
    subset: str | None = None
    also: tuple[str, ...] = ()
    """other names of the same subset"""
    metric: str | None = None
    scale: float = 1.0
    """what our value is multiplied by to be in the table's unit"""

    def text(self, value: Cell) -> str:
        """A cell as the paper prints it; a dash where there is nothing."""
        if value is None:
            return "-"
        return f"{value:.{self.digits}f}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class TableRow:
    """One method. `quoted` rows are the paper's; the others were measured."""

    method: str
    values: tuple[Cell, ...]
    quoted: bool = True


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper."""

    number: int
    name: str
    part: Literal["paper", "supplement"]
    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    note: str = ""

    @property
    def blocks(self) -> list[tuple[str, list[int]]]:
        """Column groups in order, each with the numbers of its columns."""
        found: dict[str, list[int]] = {}
        for i, column in enumerate(self.columns):
            found.setdefault(column.group, []).append(i)
        return list(found.items())


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """Every table, quoted rows only, in the order of the paper."""
    text = resources.files("luvli.evaluation").joinpath("published.json").read_text("utf-8")
    return tuple(
        PublishedTable(
            number=table["number"],
            name=table["name"],
            part=table["part"],
            title=table["title"],
            note=table.get("note", ""),
            columns=tuple(
                TableColumn(**{**column, "also": tuple(column.get("also", ()))})
                for column in table["columns"]
            ),
            rows=tuple(TableRow(row["method"], tuple(row["values"])) for row in table["rows"]),
        )
        for table in json.loads(text)["tables"]
    )


def published_table(which: str | int) -> PublishedTable:
    """A table by its number in the paper or by its name.

    >>> published_table(4).name
    'split2'
    >>> published_table("split2").rows[-1].method
    'LUVLi* (paper)'
    """
    for table in published_tables():
        if str(which).lower() in (str(table.number), table.name):
            return table
    names = [f"{table.number}" for table in published_tables()]
    raise unknown_choice("table", which, names + [table.name for table in published_tables()])


def with_reports(
    table: PublishedTable, reports: Iterable[Metrics], auc: AucMethod = "step"
) -> PublishedTable:
    """The table with one more row for each method that has a report for one of its columns.

    `auc` chooses between the exact area and the published polyline.
    """
    rows: dict[str, list[Cell]] = {}
    for report in reports:
        for i, column in enumerate(table.columns):
            value = _measured(column, report, auc)
            if value is not None:
                cells = rows.setdefault(report.method, [None] * len(table.columns))
                cells[i] = value
    ours = tuple(TableRow(method, tuple(cells), quoted=False) for method, cells in rows.items())
    return PublishedTable(
        table.number, table.name, table.part, table.title, table.columns, table.rows + ours,
        table.note,
    )  # fmt: skip


def _measured(column: TableColumn, report: Metrics, auc: AucMethod) -> float | None:
    if column.metric is None or report.dataset != column.dataset:
        return None
    names = (column.subset, *column.also)
    source: MetricRecord | None = report
    if report.subset not in names:
        source = next((part for name, part in report.subsets.items() if name in names), None)
        if not column.metric.startswith("accuracy."):
            return None  # subsets have accuracies alone
    if source is None:
        return None
    path = column.metric.replace(".auc.", ".auc_polyline.") if auc == "polyline" else column.metric
    value = find_metric(source, path)
    return None if value is None else value * column.scale


def read_reports(places: Sequence[PathLike]) -> list[Metrics]:
    """Every `metrics.json` in the folders given, at any depth; a file may be named itself."""
    files: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            files += sorted(place.rglob("metrics.json"))
        else:
            files.append(place)
    return [Metrics.read(file) for file in files]


# --- printing ----------------------------------------------------------------------------


def table_json(table: PublishedTable) -> dict[str, Any]:
    """For JSON: everything, with the quoted rows marked."""
    return {
        "number": table.number,
        "name": table.name,
        "part": table.part,
        "title": table.title,
        "note": table.note,
        "columns": [f"{c.group}: {c.label}" if c.group else c.label for c in table.columns],
        "rows": [
            {"method": row.method, "quoted": row.quoted, "values": list(row.values)}
            for row in table.rows
        ],
    }


def table_markdown(table: PublishedTable) -> str:
    """GitHub-flavoured Markdown, one table for each group of columns."""
    parts = [f"### Table {table.number} ({table.part}): {table.title}"]
    for group, head, rows in printed_blocks(table):
        if group:
            parts.append(f"**{group}**")
        body = [[method, *cells] for method, cells in rows]
        parts.append(markdown_table(["Method", *head], body))
    parts.append(QUOTED + (f" {table.note}." if table.note else ""))
    return "\n\n".join(parts) + "\n"


QUOTED = "Quoted from the paper, except rows marked †, which were measured."


def printed_rows(table: PublishedTable, indices: Sequence[int]) -> list[tuple[str, list[str]]]:
    """Method and cells as text; our own methods get a dagger, rows with nothing are left out."""
    result = []
    for row in table.rows:
        if all(row.values[i] is None for i in indices):
            continue
        cells = [table.columns[i].text(row.values[i]) for i in indices]
        result.append((row.method if row.quoted else f"{row.method} †", cells))
    return result


def printed_blocks(
    table: PublishedTable, widest: int = 8
) -> list[tuple[str, list[str], list[tuple[str, list[str]]]]]:
    """Title, headings and rows of what to print: one block, or one for each group of columns
    if there are more than `widest`."""
    whole = [("", list(range(len(table.columns))))]
    blocks = whole if len(table.columns) <= widest else table.blocks
    result = []
    for group, indices in blocks:
        columns = [table.columns[i] for i in indices]
        shared = {column.better for column in columns} if group else set()
        title = group + (_ARROWS[columns[0].better] if len(shared) == 1 else "")
        head = [_heading(column, group, len(shared) == 1) for column in columns]
        result.append((title, head, printed_rows(table, indices)))
    return result


_ARROWS = {"lower": " ↓", "higher": " ↑", None: ""}


def _heading(column: TableColumn, block: str, shared: bool) -> str:
    """What stands above a column; what is the same for the whole block stands in its title."""
    group = "" if block or not column.group else f"{column.group}: "
    return f"{group}{column.label}{'' if shared else _ARROWS[column.better]}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lines of a Markdown table; the first column to the left, the others to the right."""
    lines = [list(head), [":--"] + ["--:"] * (len(head) - 1), *map(list, rows)]
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )
