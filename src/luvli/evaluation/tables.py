"""The paper's result tables, with our rows below the quoted ones.

`published.json` holds every table of the paper and its supplement under its number and a
name. A column that can be measured names a data set, a subset and a metric, and is filled
from reports (`metrics.json`) of that data set.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from luvli.errors import InputError, unknown_choice
from luvli.evaluation.metrics import look_up
from luvli.files import PathLike, read_text

AucMethod = Literal["step", "polyline"]
Cell = float | int | str | None


@dataclass(frozen=True)
class Column:
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
class Row:
    """One method. `quoted` rows are the paper's; the others were measured."""

    method: str
    values: tuple[Cell, ...]
    quoted: bool = True


@dataclass(frozen=True)
class Table:
    """One table of the paper."""

    number: int
    name: str
    part: Literal["paper", "supplement"]
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def blocks(self) -> list[tuple[str, list[int]]]:
        """Column groups in order, each with the numbers of its columns."""
        found: dict[str, list[int]] = {}
        for i, column in enumerate(self.columns):
            found.setdefault(column.group, []).append(i)
        return list(found.items())


@cache
def published_tables() -> tuple[Table, ...]:
    """Every table, quoted rows only, in the order of the paper."""
    text = resources.files("luvli.evaluation").joinpath("published.json").read_text("utf-8")
    return tuple(
        Table(
            number=table["number"],
            name=table["name"],
            part=table["part"],
            title=table["title"],
            note=table.get("note", ""),
            columns=tuple(
                Column(**{**column, "also": tuple(column.get("also", ()))})
                for column in table["columns"]
            ),
            rows=tuple(Row(row["method"], tuple(row["values"])) for row in table["rows"]),
        )
        for table in json.loads(text)["tables"]
    )


def published_table(which: str | int) -> Table:
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
    table: Table, reports: Iterable[Mapping[str, Any]], auc: AucMethod = "step"
) -> Table:
    """The table with one more row for each method that has a report for one of its columns.

    `auc` chooses between the exact area and the published polyline.
    """
    rows: dict[str, list[Cell]] = {}
    for report in reports:
        for i, column in enumerate(table.columns):
            value = _measured(column, report, auc)
            if value is not None:
                cells = rows.setdefault(str(report.get("method")), [None] * len(table.columns))
                cells[i] = value
    ours = tuple(Row(method, tuple(cells), quoted=False) for method, cells in rows.items())
    return Table(
        table.number, table.name, table.part, table.title, table.columns, table.rows + ours,
        table.note,
    )  # fmt: skip


def _measured(column: Column, report: Mapping[str, Any], auc: AucMethod) -> float | None:
    if column.metric is None or report.get("dataset") != column.dataset:
        return None
    names = (column.subset, *column.also)
    if report.get("subset") in names:
        source: Any = report
    else:
        source = next((p for n, p in report.get("subsets", {}).items() if n in names), None)
    if source is None:
        return None
    kinds = ("classes.", "nll.")
    paths = "|".join(
        path if path.startswith(kinds) else f"accuracy.{path}" for path in column.metric.split("|")
    )
    if auc == "polyline":
        paths = paths.replace(".auc.", ".auc_polyline.")
    value = look_up(source, paths)
    return None if value is None else float(value) * column.scale


def read_reports(places: Sequence[PathLike]) -> list[dict[str, Any]]:
    """Every `metrics.json` in the folders given, at any depth; a file may be named itself."""
    files: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            files += sorted(place.rglob("metrics.json"))
        else:
            files.append(place)
    return [read_metrics(file) for file in files]


def read_metrics(path: PathLike) -> dict[str, Any]:
    """One `metrics.json`."""
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not valid JSON ({error}): write the report again.") from error
    if not isinstance(content, dict) or content.get("format") != "luvli-metrics":
        raise InputError(f"{path} is not a luvli report: name a metrics.json or its folder.")
    return content


# --- printing ----------------------------------------------------------------------------


def as_dict(table: Table) -> dict[str, Any]:
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


def as_markdown(table: Table) -> str:
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


def printed_rows(table: Table, indices: Sequence[int]) -> list[tuple[str, list[str]]]:
    """Method and cells as text; our own methods get a dagger, rows with nothing are left out."""
    result = []
    for row in table.rows:
        if all(row.values[i] is None for i in indices):
            continue
        cells = [table.columns[i].text(row.values[i]) for i in indices]
        result.append((row.method if row.quoted else f"{row.method} †", cells))
    return result


def printed_blocks(
    table: Table, widest: int = 8
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


def _heading(column: Column, block: str, shared: bool) -> str:
    """What stands above a column; what is the same for the whole block stands in its title."""
    group = "" if block or not column.group else f"{column.group}: "
    return f"{group}{column.label}{'' if shared else _ARROWS[column.better]}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lines of a Markdown table; the first column to the left, the others to the right."""
    lines = [list(head), [":--"] + ["--:"] * (len(head) - 1), *map(list, rows)]
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )
