"""The paper's result tables, with our rows below the quoted ones.

`published.json` holds every table of the paper and its supplement under its number and a
name. A column that can be measured names a data set, a subset and a metric, and is filled
from reports (`metrics.json`) of that data set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from luvli.data.sets import get_set
from luvli.errors import unknown_choice
from luvli.evaluation.metrics import Evaluation
from luvli.evaluation.table import ARROWS, Table, best_marks, listed_names, numbered
from luvli.files import PathLike

AucMethod = Literal["step", "polyline"]
Cell = float | int | str | None

QUOTED = "Quoted from the paper, except rows marked † (measured) and ‡ (published since)."
_OTHER = "not the same test"
MAX_COLUMNS = 8
"""wider tables are printed group by group"""


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
    """One method. `quoted` rows are the paper's or a later one's; the others were measured."""

    method: str
    values: tuple[Cell, ...]
    quoted: bool = True
    faces: tuple[int | None, ...] = ()
    """how many each value was measured on"""
    source: str = ""
    """where a later method's values are from, and whether its protocol is the same"""

    @property
    def name(self) -> str:
        """The method with the mark of where its values are from."""
        mark = ("‡" if self.source else "") if self.quoted else "†"
        return f"{self.method} {mark}".strip()


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

    def groups(self) -> dict[str, list[int]]:
        """Numbers of the columns to print together: all, or of a wide table each group."""
        if len(self.columns) <= MAX_COLUMNS:
            return {"": list(range(len(self.columns)))}
        names = dict.fromkeys(column.group for column in self.columns)
        return {g: [i for i, c in enumerate(self.columns) if c.group == g] for g in names}


def _resource(name: str) -> Any:
    return json.loads(resources.files("luvli.evaluation").joinpath(name).read_text("utf-8"))


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """Every table of the paper in its order, with the methods published since, each with its
    source."""
    tables = _resource("published.json")["tables"]
    for table in tables:
        for later in _resource("later_methods.json")["methods"]:
            if values := later["values"].get(str(table["number"])):
                values = [*values, *[None] * (len(table["columns"]) - len(values))]
                source = f"{later['source']}; {later['protocol']}"
                table["rows"].append(
                    {"method": later["method"], "values": values, "source": source}
                )
    return TypeAdapter(tuple[PublishedTable, ...]).validate_python(tables)


def published_table(which: str | int) -> PublishedTable:
    """A table by its number in the paper or by its name.

    >>> published_table(4).name
    'split2'
    >>> published_table("split2").rows[0].method
    'SAN*'
    """
    tables = {str(table.number): table for table in published_tables()}
    tables |= {table.name: table for table in published_tables()}
    if str(which).lower() not in tables:
        raise unknown_choice("table", which, tables)
    return tables[str(which).lower()]


def with_reports(
    table: PublishedTable, reports: Iterable[Evaluation], auc: AucMethod = "step"
) -> PublishedTable:
    """The table with one more row for each method that has a report for one of its columns.

    Reports of one method on several data sets fill one row; where two of them disagree on a cell,
    the second begins a row of its own, and the rows are numbered. `auc` chooses between the exact
    area and the published polyline.
    """
    rows: list[tuple[str, dict[int, tuple[float, int]]]] = []
    for report in reports:
        cells = _cells(table, report, auc)
        for name, row in rows:
            if name == report.method and all(row.get(i, cells[i]) == cells[i] for i in cells):
                row |= cells
                break
        else:
            if cells:
                rows.append((report.method, cells))
    names = numbered([name for name, _ in rows])
    ours = []
    for name, (_, row) in zip(names, rows, strict=True):
        pairs = [row.get(i, (None, None)) for i in range(len(table.columns))]
        values, faces = zip(*pairs, strict=True)
        ours.append(TableRow(name, values, quoted=False, faces=faces))
    return replace(table, rows=(*table.rows, *ours))


def _cells(
    table: PublishedTable, report: Evaluation, auc: AucMethod = "step"
) -> dict[int, tuple[float, int]]:
    """By column: the report's value, and the number of faces that it is the mean of."""
    cells = {}
    for i, column in enumerate(table.columns):
        if column.metric is None or report.dataset != column.dataset:
            continue
        path = column.metric
        if auc == "polyline":
            path = re.sub(r"\bauc(\d+)_", r"auc\1_polyline_", path)
        names = (column.subset, *column.also)
        inside = (name for name in report.subsets if name in names)
        subset = "" if report.subset in names else next(inside, None)
        if subset is not None and (value := report.value(path, subset)) is not None:
            faces = report.subsets[subset].faces if subset else report.faces
            cells[i] = (value * column.scale, faces)
    return cells


def without_column(table: PublishedTable, reports: Sequence[Evaluation]) -> str:
    """One sentence about the reports that fill no column of the table; "" if all do."""
    other = [
        f"{report.method} on {report.dataset or 'no named data set'} {report.subset}"
        for report in reports
        if not _cells(table, report)
    ]
    if not other:
        return ""
    columns = dict.fromkeys(f"{c.dataset} {c.subset}" for c in table.columns if c.metric)
    if not columns:
        return "this table is not filled from reports."
    return (
        f"{len(other)} of {len(reports)} reports are of other test sets than this table's "
        f"({', '.join(columns)}): {listed_names(other)}."
    )


def table_protocol(table: PublishedTable, dataset: str) -> str | None:
    """The protocol of a data set that a table is about, where the set has several.

    >>> table_protocol(published_table("split2"), "w300")
    'split2'
    """
    subsets = {column.subset for column in table.columns if column.dataset == dataset}
    if dataset == "w300" and subsets:
        return "split2" if subsets == {"test"} else "split1"
    return None


def paper_faces(dataset: str, subset: str) -> int | None:
    """How many faces the paper tests on, where the data set's description says."""
    part = "frontal" if dataset == "menpo" else "test"
    if dataset == "w300":
        part = f"split{2 if subset in ('test', 'indoor', 'outdoor') else 1}/test"
    whole = subset in ("all", "full", "test", part)
    return get_set(dataset).expected.get(part if whole else f"{part}/{subset}")


def read_reports(places: Sequence[PathLike]) -> list[Evaluation]:
    """Every `metrics.json` in the folders given, at any depth; a file may be named itself."""
    files: list[Path] = []
    for place in map(Path, places):
        files += sorted(place.rglob("metrics.json")) if place.is_dir() else [place]
    return [Evaluation.read(file) for file in files]


# --- printing ----------------------------------------------------------------------------


def printed_tables(table: PublishedTable) -> list[Table]:
    """What to print: one table, or one for each group of columns of a wide one; best and
    second-best values are marked, footnotes stand below the last."""
    result = []
    groups = table.groups()
    for group, indices in groups.items():
        columns = [table.columns[i] for i in indices]
        rows = [row for row in table.rows if any(row.values[i] is not None for i in indices)]
        cells = [[row.values[i] for i in indices] for row in rows]
        marks = best_marks(
            [[None if isinstance(cell, str) else cell for cell in row] for row in cells],
            [column.better for column in columns],
        )
        above = [f"{c.group}: " if c.group and not group else "" for c in columns]
        heads = [f"{a}{c.label}{ARROWS[c.better]}" for a, c in zip(above, columns, strict=True)]
        title = f"Table {table.number} ({table.part}): {table.title}"
        result.append(
            Table(
                f"{title}, {group}" if group else title,
                ["method", *heads],
                [
                    [row.name, *(c.text(cell) for c, cell in zip(columns, each, strict=True))]
                    for row, each in zip(rows, cells, strict=True)
                ],
                notes=footnotes(table) if group == list(groups)[-1] else (),
                marks={(i, j + 1): mark for (i, j), mark in marks.items()},
            )
        )
    return result


def footnotes(table: PublishedTable) -> list[str]:
    """What must be said below a table: how many faces ours were measured on, and sources."""
    notes = [QUOTED + (f" {table.note}." if table.note else "")]
    for row in table.rows:
        counts: dict[str, str] = {}
        for column, faces in zip(table.columns, row.faces, strict=False):
            if faces is not None and column.dataset and column.subset:
                theirs = paper_faces(column.dataset, column.subset)
                other = "" if theirs in (None, faces) else f" (the paper: {theirs:,}: {_OTHER})"
                counts[f"{column.dataset} {column.subset}"] = f"n = {faces:,}{other}"
        if not row.quoted:
            listed = "; ".join(f"{name} {text}" for name, text in counts.items())
            notes.append(f"† {row.method}: {listed}.")
    notes += [f"‡ {row.method}: {row.source}." for row in table.rows if row.source]
    return notes


def tables_beside_paper(evaluation: Evaluation) -> list[Table]:
    """The paper's tables that this report has a column of, with its row."""
    tables = []
    for table in published_tables():
        if _cells(table, evaluation):
            tables += printed_tables(with_reports(table, [evaluation]))
    return tables
