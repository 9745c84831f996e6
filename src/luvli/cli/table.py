"""`luvli paper table`: the paper's tables, with our rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from luvli.cli.options import Json

if TYPE_CHECKING:
    from luvli.evaluation.paper_tables import PublishedTable


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
    model: Annotated[
        list[str] | None,
        typer.Option(help="Evaluate this model on --data first; may be given several times."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FOLDER", help="Data set for --model; may be repeated."),
    ] = None,
    json: Json = False,
    md: Annotated[bool, typer.Option("--md", help="Print Markdown.")] = False,
) -> None:  # fmt: skip
    """Print a table of the paper or its supplement, with our rows below the quoted ones.

    A row of ours (marked †) appears for each report of one of the table's data sets, with the
    number of faces that it was measured on. With --model and --data the rows are measured now:
    reports go to the first --reports folder, and are not made again if they are there.

    Examples: `luvli paper table split2 --reports reports`,
    `luvli paper table split2 --model luvli-68 --data w300=data/300w --reports reports`
    """
    import json as json_module

    from luvli.cli.tables import show
    from luvli.errors import InputError
    from luvli.evaluation import paper_tables as tables

    if which is None:
        for entry in tables.published_tables():
            typer.echo(f"{entry.number:>2}  {entry.name:<20} {entry.title}")
        return
    plain = tables.published_table(which)
    if model:
        if not data or not reports:
            raise InputError("--model needs --data NAME=FOLDER and --reports FOLDER.")
        _evaluate(plain, model, data, reports[0])
    read = tables.read_reports(reports or [])
    chosen = tables.with_reports(plain, read, "polyline" if polyline else "step")
    chosen = tables.with_later_methods(chosen)
    sentence = tables.without_column(plain, read)
    if sentence:
        typer.secho(f"luvli: {sentence}", fg="yellow", err=True)
    if json:
        typer.echo(json_module.dumps(tables.published_json(chosen), ensure_ascii=False))
        return
    for table in tables.printed_tables(chosen):
        if md:
            typer.echo(f"{table.markdown()}\n")
        else:
            show(table)


def _evaluate(plain: PublishedTable, models: list[str], sets: list[str], reports: Path) -> None:
    """Reports of the models on the data sets, by the protocol that the table is about."""
    from luvli.errors import InputError
    from luvli.evaluation.evaluate_model import evaluate_set
    from luvli.evaluation.paper_tables import table_protocol
    from luvli.evaluation.report import write_report
    from luvli.progress import track

    for model in models:
        for pair in sets:
            name, _, root = pair.partition("=")
            if not root:
                raise InputError(f"--data {pair} names no folder: write {name}=FOLDER.")
            protocol = table_protocol(plain, name)
            part = f"{name}/{protocol}" if protocol else name
            folder = reports / f"{Path(model).stem}-{part.replace('/', '-')}"
            if not (folder / "metrics.json").is_file():
                faces = evaluate_set(
                    model, part, root,
                    progress=lambda records: track(records, "evaluating", unit="faces"),
                )  # fmt: skip
                write_report(folder, faces)
