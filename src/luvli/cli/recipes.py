"""`luvli recipes`: the recipes that come with the package."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Annotated

import typer

recipes = typer.Typer(no_args_is_help=True, help="Recipes that come with the package.")


@recipes.command("list")
def list_recipes() -> None:
    """Names for `luvli train`, with a line about each."""
    from luvli.errors import InputError
    from luvli.training.recipe_names import recipe_folder, recipe_names, recipe_summary

    folder = recipe_folder()
    if folder is None:
        raise InputError("no recipes came with this installation: give luvli train a file.")
    names = recipe_names()
    width = max(map(len, names))
    room = shutil.get_terminal_size().columns - width - 2 if sys.stdout.isatty() else 10_000
    for name in names:
        about = recipe_summary(folder / f"{name}.yaml")
        typer.echo(f"{name:{width}}  {textwrap.shorten(about, max(room, 30), placeholder=' ...')}")
    typer.echo("\nluvli train NAME runs one, luvli recipes show NAME prints it.")


@recipes.command("show")
def show_recipe(name: Annotated[str, typer.Argument(help="Name of a recipe, e.g. quick.")]) -> None:
    """Print a recipe, to copy and change: `luvli recipes show own-faces > mine.yaml`."""
    from luvli.training.recipe_names import find_recipe

    typer.echo(find_recipe(name).read_text(encoding="utf-8"), nl=False)
