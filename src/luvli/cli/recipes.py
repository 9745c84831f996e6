"""`luvli recipes`: the recipes that come with the package, and folders of recipes run together."""

from __future__ import annotations

import os
from pathlib import Path

import typer
from typer import Argument, Option

from luvli.cli.options import CHANGES, Verbs
from luvli.cli.output import note, print_names, print_result, say
from luvli.errors import InputError, require
from luvli.files import read_text, write_text

recipes = Verbs(name="recipes", help="List, show and compare recipes.")


@recipes.command("list")
def list_recipes() -> None:
    """List the recipes for `luvli train`.

    Example: `luvli recipes list`
    """
    from luvli.training.recipe_files import recipe_folder, recipe_names, recipe_summary

    folder = recipe_folder()
    if folder is None:
        raise InputError("no recipes came with this installation: give luvli train a file.")
    names = [name for name in recipe_names() if Path(name).name != "base"]  # what others share
    print_names({name: recipe_summary(folder / f"{name}.yaml") for name in names})
    say("\nluvli train NAME runs one, luvli recipes show NAME prints it.")


@recipes.command("show")
def show_recipe(name: str = Argument(help="Name of a recipe, e.g. quick.")) -> None:
    """Print a recipe, to copy and change.

    Example: `luvli recipes show own-faces > mine.yaml`
    """
    from luvli.training.recipe_files import find_recipe

    typer.echo(read_text(find_recipe(name)), nl=False)


@recipes.command("run")
def run_recipes(
    folder: Path = Argument(help="Folder of recipes, e.g. recipes/mini/ablation."),
    data: Path = Option(help="The folder that holds the data sets (data.root)."),
    out: Path = Option(help="Folder for the runs, one in it for each recipe."),
    only: list[str] = Option([], help="Only this recipe; may be repeated."),
    seeds: int = Option(1, help="Train each recipe so many times, with seeds in a row."),
    change: list[str] = CHANGES,
    reference: str = Option("luvli", help="The row that others differ from."),
) -> None:
    """Train every recipe of a folder, one after the other, and compare them on held-out faces.

    What is finished is not run again and what was stopped goes on: the same command resumes. At
    the end it prints the table, which is also in OUT/table.md: errors with their intervals, the
    spread over seeds, and paired differences from the reference row.

    Example: `luvli recipes run recipes/mini/ablation --data DATA --out runs/ablation --seeds 3`
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # see `luvli train`
    require("torch", "train")
    from luvli.training import experiments
    from luvli.training.run import Stopped

    overrides = [f"data.root={data}", *change]
    try:
        experiments.run_experiments(folder, out, overrides, None, only, seeds, note)
    except Stopped as stopped:
        note(f"luvli: {stopped}: the same command goes on")
        raise typer.Exit(143) from None
    if (out / reference / experiments.HELD_OUT).is_file():
        table = experiments.compare_rows(out, reference)
        write_text(out / "table.md", f"{table.markdown()}\n")
        print_result(table)
        say(f"the table is in {out / 'table.md'}")
