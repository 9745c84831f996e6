"""`luvli paper`: the paper's tables and figures, with our own rows and predictions."""

from __future__ import annotations

from luvli.cli import figure, table
from luvli.cli.options import Verbs

paper = Verbs(name="paper", help="Tables and figures of the paper, with our rows.")
paper.command()(table.table)
paper.command()(figure.figure)
