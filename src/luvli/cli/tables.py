"""One way to print a table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from luvli.evaluation.table import Table


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """First column to the left, the others to the right; nothing is cut, however wide."""
    show(Table(title, headings, rows))


def show(table: Table) -> None:
    """The table with its notes, and an empty line."""
    typer.echo(f"{table.text()}\n")
