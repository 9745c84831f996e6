"""`luvli table`: the paper's tables, with our rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def table(
    which: Annotated[
        str | None,
        typer.Argument(help="Number in the paper (1 to 13) or name, e.g. split2; none lists all."),
    ] = None,
    reports: Annotated[
        list[Path] | None,
        typer.Option(help="Report folder, searched at any depth; may be given several times."),
    ] = None,
    polyline: Annotated[
        bool, typer.Option("--polyline", help="Our AUC as the published code computes it.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    md: Annotated[bool, typer.Option("--md", help="Print Markdown.")] = False,
) -> None:
    """Print a table of the paper or its supplement, with our rows below the quoted ones.

    A row of ours (marked †) appears for each report of one of the table's data sets.

    Example: `luvli table split2 --reports reports`
    """
    import json as json_module

    from luvli.cli.tables import print_table
    from luvli.evaluation import tables

    if which is None:
        for entry in tables.published_tables():
            typer.echo(f"{entry.number:>2}  {entry.name:<20} {entry.title}")
        return
    chosen = tables.with_reports(
        tables.published_table(which),
        tables.read_reports(reports or []),
        "polyline" if polyline else "step",
    )
    if json:
        typer.echo(json_module.dumps(tables.table_json(chosen), ensure_ascii=False))
        return
    if md:
        typer.echo(tables.table_markdown(chosen), nl=False)
        return
    typer.echo(f"Table {chosen.number} ({chosen.part}): {chosen.title}")
    for group, head, rows_of in tables.printed_blocks(chosen, widest=0):
        body = [[method, *cells] for method, cells in rows_of]
        print_table(["method", *head], body, group)
    typer.echo(tables.QUOTED + (f" {chosen.note}." if chosen.note else ""))
