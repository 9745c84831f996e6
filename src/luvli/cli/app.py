"""Puts the verbs together, and turns `InputError` into one line and exit code 2."""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any

import typer
from typer import Option

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
from luvli.cli.options import Group, Verbs
from luvli.cli.output import complain, warn
from luvli.errors import InputError, LuvliWarning
from luvli.files import NOT_UTF8


class _Program(Group):
    """Errors and warnings of the project become one line, without the place in the code."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            usual = warnings.showwarning

            def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
                if issubclass(category, LuvliWarning):
                    warn(str(message))
                else:
                    usual(message, category, *place, **more)

            warnings.showwarning = show
            try:
                return super().invoke(ctx)
            except InputError as error:
                complain(str(error))
                raise typer.Exit(2) from None


app = Verbs(cls=_Program)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"luvli {__version__}")
        raise typer.Exit


@app.callback()
def luvli(
    version: bool = Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Face landmarks with their uncertainty and visibility.

    Every verb explains itself: `luvli VERB --help`.
    """


for verb in (
    demo.demo,
    predict.predict,
    models.models,
    export.export,
    data.data,
    evaluate.evaluate,
    score.score,
    compare.compare,
    benchmark.benchmark,
    paper.paper,
    train.train,
    recipes.recipes,
    calibrate.calibrate,
    triage.triage,
    audit.audit,
    serve.serve,
):
    if isinstance(verb, Verbs):
        app.add_typer(verb)
    else:
        app.command()(verb)


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files need not be UTF-8
            stream.reconfigure(errors=NOT_UTF8)
    app()
