"""`luvli experiments`: a folder of recipes, run and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

experiments = typer.Typer(
    no_args_is_help=True, help="Run a folder of recipes and compare what they give."
)


@experiments.command("run")
def run_folder(
    recipes: Annotated[Path, typer.Argument(help="Folder of recipes, e.g. recipes/mini/ablation.")],
    data: Annotated[Path, typer.Option(help="The folder that holds the data sets (data.root).")],
    out: Annotated[Path, typer.Option(help="Folder for the runs, one in it for each recipe.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Only this recipe; may be given several times.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a value in all of them: key=value."),
    ] = None,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    precision: Annotated[
        str, typer.Option(help="32-true, or bf16-mixed or 16-mixed where the hardware has it.")
    ] = "32-true",
    reference: Annotated[str, typer.Option(help="The row that others differ from.")] = "luvli",
) -> None:
    """Train every recipe of a folder, one after the other, and measure all on held-out faces.

    What is finished is not run again and what was stopped goes on: the same command resumes.
    At the end the table is written to table.md.

    Example: `luvli experiments run recipes/mini/ablation --data DATA --out runs/ablation`
    """
    import os

    os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # see `luvli train`
    from luvli.errors import require

    require("torch", "train")
    from luvli.files import write_text
    from luvli.training import experiments as running
    from luvli.training.distributed import RunOptions, Stopped

    overrides = [f"data.root={data}", *(change or [])]
    options = RunOptions(threads=threads, precision=precision)

    def say(sentence: str) -> None:
        typer.echo(sentence, err=True)

    try:
        running.run_experiments(recipes, out, overrides, options, only or [], say)
    except Stopped as stopped:
        say(f"luvli: {stopped}: the same command goes on")
        raise typer.Exit(143) from None
    if (out / reference / running.HELD_OUT).is_file():
        rows = running.experiment_rows(out, reference)
        write_text(out / "table.md", running.table_markdown(rows))
        say(f"the table is in {out / 'table.md'}")


@experiments.command("table")
def show_table(
    runs: Annotated[Path, typer.Argument(help="Folder of runs that `run` made.")],
    reference: Annotated[str, typer.Option(help="The row that others differ from.")] = "luvli",
    markdown: Annotated[bool, typer.Option("--markdown", help="As text, for a page.")] = False,
) -> None:
    """Finished rows with their intervals and their paired differences from one of them.

    Example: `luvli experiments table runs/ablation`
    """
    from luvli.cli.tables import print_table
    from luvli.errors import require

    require("torch", "train")
    from luvli.training.experiments import experiment_rows, table_cells, table_markdown

    rows = experiment_rows(runs, reference)
    if markdown:
        typer.echo(table_markdown(rows), nl=False)
    else:
        print_table(*table_cells(rows))
