"""`luvli paper`: the paper's tables and figures, with our own rows and predictions."""

from __future__ import annotations

import typer

from luvli.cli import figure, table

paper = typer.Typer(no_args_is_help=True, help="Tables and figures of the paper, with our rows.")
paper.command()(table.table)
paper.command()(figure.figure)
