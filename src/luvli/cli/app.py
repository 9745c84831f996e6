"""Puts the verbs together, and turns `InputError` into one line and exit code 2."""

from __future__ import annotations

import importlib
import io
import sys
import warnings
from typing import Any

import typer
from typer import Option

from luvli import __version__
from luvli.cli.options import Group, Verbs
from luvli.cli.output import complain, set_json, warn
from luvli.errors import InputError, LuvliWarning, import_modules
from luvli.files import NOT_UTF8

VERBS = """
    demo predict models export data evaluate score compare benchmark paper train recipes calibrate
    triage audit serve
"""
"""in the order of the help; each is a function, or a group, in a module of its name"""


class _Program(Group):
    """Errors and warnings of the project become one line, without the place in the code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--json` and `--import MODULE` may stand anywhere; `--json` of `predict` also means that
        no file is written."""
        words, modules = [word for word in args if word != "--json"], list[str]()
        while "--import" in words:
            place = words.index("--import")
            modules += words[place : place + 2]
            del words[place : place + 2]
        if "--json" in args:
            words.insert(1 if words[:1] == ["predict"] else 0, "--json")
        return super().parse_args(ctx, [*modules, *words])

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
    json: bool = Option(False, "--json", help="Print results as JSON; may stand behind any verb."),
    modules: list[str] = Option(
        [],
        "--import",
        metavar="MODULE",
        help="Python module that registers trunks, losses, likelihoods or metrics of yours; may "
        "stand behind any verb.",
    ),
) -> None:
    """Face landmarks with their uncertainty and visibility.

    Every verb explains itself: `luvli VERB --help`.
    """
    set_json(json)
    import_modules(modules)


for name in VERBS.split():
    verb = getattr(importlib.import_module(f"luvli.cli.{name}"), name)
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
