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
from luvli.evaluation.table import ARROWS, Table, best_marks, numbered
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
    """One method. `quoted` rows are the paper's or a later one's; the others were measured."""

    method: str
    values: tuple[Cell, ...]
    quoted: bool = True
    faces: tuple[int | None, ...] = ()
    """how many each value was measured on"""
    source: str = ""
    """where a later method's values are from, and whether its protocol is the same"""


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
    return TypeAdapter(tuple[PublishedTable, ...]).validate_python(json.loads(text)["tables"])


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
    table: PublishedTable, reports: Iterable[Evaluation], auc: AucMethod = "step"
) -> PublishedTable:
    """The table with one more row for each method that has a report for one of its columns.

    Reports of one method on several data sets fill one row; where two of them disagree on a cell,
    the second begins a row of its own, and the rows are numbered. `auc` chooses between the exact
    area and the published polyline.
    """
    rows: list[tuple[str, dict[int, tuple[float, int]]]] = []
    for report in reports:
        measured = [_measured(column, report, auc) for column in table.columns]
        found = {i: cell for i, cell in enumerate(measured) if cell is not None}
        mine = (row for name, row in rows if name == report.method)
        agreeing = (row for row in mine if all(row.get(i, found[i]) == found[i] for i in found))
        row = next(agreeing, None)
        if row is not None:
            row |= found
        elif found:
            rows.append((report.method, found))
    count = len(table.columns)
    ours = tuple(
        TableRow(
            name,
            tuple(row[i][0] if i in row else None for i in range(count)),
            quoted=False,
            faces=tuple(row[i][1] if i in row else None for i in range(count)),
        )
        for name, (_, row) in zip(numbered([name for name, _ in rows]), rows, strict=True)
    )
    return replace(table, rows=table.rows + ours)


def with_later_methods(table: PublishedTable) -> PublishedTable:
    """The table with methods published since, each with its source."""
    text = resources.files("luvli.evaluation").joinpath("later_methods.json").read_text("utf-8")
    later = []
    for entry in json.loads(text)["methods"]:
        values = entry["values"].get(str(table.number))
        if values:
            padded = (*values, *[None] * (len(table.columns) - len(values)))
            source = f"{entry['source']}; {entry['protocol']}"
            later.append(TableRow(entry["method"], padded, source=source))
    measured = tuple(row for row in table.rows if not row.quoted)
    quoted = tuple(row for row in table.rows if row.quoted)
    return replace(table, rows=(*quoted, *later, *measured))


def without_column(table: PublishedTable, reports: Sequence[Evaluation]) -> str:
    """One sentence about the reports that fill no column of the table; "" if all do."""
    other = [
        f"{report.method} on {report.dataset or 'no named data set'} {report.subset}"
        for report in reports
        if all(_measured(column, report, "step") is None for column in table.columns)
    ]
    if not other:
        return ""
    columns = dict.fromkeys(f"{c.dataset} {c.subset}" for c in table.columns if c.metric)
    if not columns:
        return "this table is not filled from reports."
    more = f" and {len(other) - 3} more" if len(other) > 3 else ""
    return (
        f"{len(other)} of {len(reports)} reports are of other test sets than this table's "
        f"({', '.join(columns)}): {', '.join(other[:3])}{more}."
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
    info = get_set(dataset)
    for sizes in info.expected.values():
        for split in ("test", "frontal"):
            whole = subset in ("all", "full", "test") or (dataset == "menpo" and split == subset)
            size = sizes.get(f"{split}/{subset}") or (sizes.get(split) if whole else None)
            if size is not None and not (dataset == "w300" and subset == "test" and size == 689):
                return size
    return None


def footnotes(table: PublishedTable) -> list[str]:
    """What must be said below a table: how many faces ours were measured on, and sources."""
    notes = [QUOTED + (f" {table.note}." if table.note else "")]
    for row in table.rows:
        if row.quoted:
            continue
        counts: dict[str, str] = {}
        for column, faces in zip(table.columns, row.faces, strict=True):
            if faces is not None and column.dataset and column.subset:
                theirs = paper_faces(column.dataset, column.subset)
                text = f"n = {faces:,}"
                if theirs not in (None, faces):
                    text += f" (the paper: {theirs:,}: not the same test)"
                counts[f"{column.dataset} {column.subset}"] = text
        listed = "; ".join(f"{name} {text}" for name, text in counts.items())
        notes.append(f"† {row.method}: {listed}.")
    notes += [f"‡ {row.method}: {row.source}." for row in table.rows if row.source]
    return notes


def _measured(column: TableColumn, report: Evaluation, auc: AucMethod) -> tuple[float, int] | None:
    """The value, and the number of faces that it is the mean of."""
    if column.metric is None or report.dataset != column.dataset:
        return None
    path = column.metric
    if auc == "polyline":
        path = re.sub(r"\bauc(\d+)_", r"auc\1_polyline_", path)
    names = (column.subset, *column.also)
    if report.subset in names:
        value, faces = report.value(path), report.faces
    else:
        subset = next((name for name in report.subsets if name in names), None)
        if subset is None:
            return None
        value, faces = report.value(path, subset), report.subsets[subset].faces
    return None if value is None else (value * column.scale, faces)


def read_reports(places: Sequence[PathLike]) -> list[Evaluation]:
    """Every `metrics.json` in the folders given, at any depth; a file may be named itself."""
    files: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            files += sorted(place.rglob("metrics.json"))
        else:
            files.append(place)
    return [Evaluation.read(file) for file in files]


# --- printing ----------------------------------------------------------------------------


def published_json(table: PublishedTable) -> dict[str, Any]:
    """For JSON: everything, with the quoted rows marked."""
    return {
        "number": table.number,
        "name": table.name,
        "part": table.part,
        "title": table.title,
        "note": table.note,
        "columns": [f"{c.group}: {c.label}" if c.group else c.label for c in table.columns],
        "rows": [
            {
                "method": row.method,
                "quoted": row.quoted,
                "values": list(row.values),
                **({"faces": list(row.faces)} if row.faces else {}),
                **({"source": row.source} if row.source else {}),
            }
            for row in table.rows
        ],
    }


QUOTED = "Quoted from the paper, except rows marked † (measured) and ‡ (published since)."


def printed_tables(table: PublishedTable, widest: int = 8) -> list[Table]:
    """What to print: one table, or one for each group of columns if there are more than `widest`;
    best and second-best values are marked, footnotes stand below the last."""
    whole = [("", list(range(len(table.columns))))]
    blocks = whole if len(table.columns) <= widest else table.blocks
    result = []
    for group, indices in blocks:
        columns = [table.columns[i] for i in indices]
        rows = [row for row in table.rows if any(row.values[i] is not None for i in indices)]
        values = [[_number(row.values[i]) for i in indices] for row in rows]
        marks = best_marks(values, [column.better for column in columns])
        heads = [
            f"{f'{c.group}: ' if c.group and not group else ''}{c.label}{ARROWS[c.better]}"
            for c in columns
        ]
        cells = [
            [
                _row_name(row),
                *(c.text(row.values[i]) for c, i in zip(columns, indices, strict=True)),
            ]
            for row in rows
        ]
        title = f"Table {table.number} ({table.part}): {table.title}"
        result.append(
            Table(
                f"{title}, {group}" if group else title,
                ["method", *heads],
                cells,
                notes=footnotes(table) if group == blocks[-1][0] else (),
                marks={(i, j + 1): mark for (i, j), mark in marks.items()},
            )
        )
    return result


def _row_name(row: TableRow) -> str:
    return f"{row.method} {'‡' if row.source else ''}".strip() if row.quoted else f"{row.method} †"


def _number(value: Cell) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)


def tables_beside_paper(evaluation: Evaluation) -> list[Table]:
    """The paper's tables that this report has a column of, with its row."""
    tables = []
    for table in published_tables():
        mine = with_reports(table, [evaluation])
        if len(mine.rows) > len(table.rows):
            tables += printed_tables(with_later_methods(mine))
    return tables
