"""Puts the verbs together, and turns `InputError` into one line and exit code 2."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from luvli import __version__
from luvli.cli import (
    audit,
    benchmark,
    calibrate,
    compare,
    data,
    demo,
    evaluate,
    export,
    models,
    paper,
    predict,
    recipes,
    score,
    serve,
    train,
    triage,
)
from luvli.errors import InputError
from luvli.files import NOT_UTF8, one_line


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """What the project warns of becomes one line, without the place in the code."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if category.__module__.startswith("luvli."):
                typer.secho(f"luvli: {one_line(str(message))}", fg="yellow", err=True)
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            with _plain_warnings():
                return super().invoke(ctx)
        except InputError as error:
            typer.secho(f"luvli: {one_line(str(error))}", fg="red", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="markdown",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"luvli {__version__}")
        raise typer.Exit


@app.callback()
def luvli(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Face landmarks with their uncertainty and visibility.

    Every verb explains itself: `luvli VERB --help`.
    """


app.command()(demo.demo)
app.command()(predict.predict)
app.add_typer(models.models, name="models")
app.command()(export.export)
app.add_typer(data.data, name="data")
app.command()(evaluate.evaluate)
app.command()(score.score)
app.command()(compare.compare)
app.command()(benchmark.benchmark)
app.add_typer(paper.paper, name="paper")
app.command()(train.train)
app.add_typer(recipes.recipes, name="recipes")
app.command()(calibrate.calibrate)
app.command()(triage.triage)
app.command()(audit.audit)
app.command()(serve.serve)


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files need not be UTF-8
            stream.reconfigure(errors=NOT_UTF8)
    app()
