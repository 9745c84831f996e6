"""What verbs print beside tables: warnings, files, and what a model may be used for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from luvli.files import one_line

if TYPE_CHECKING:
    from luvli.network.model_info import ModelInfo


def warn(sentence: str) -> None:
    """A yellow line on standard error."""
    typer.secho(f"luvli: {one_line(sentence)}", fg="yellow", err=True)


def complain(sentence: str) -> None:
    """A red line on standard error."""
    typer.secho(f"luvli: {one_line(sentence)}", fg="red", err=True)


def print_paths(paths: Iterable[object]) -> None:
    """The files that were written, one on each line."""
    for path in paths:
        typer.echo(one_line(str(path)))


def print_licence(info: ModelInfo) -> None:
    """One line: what the model may be used for, and which one anyone may use."""
    from luvli.models import model_names, read_card
    from luvli.network.licence import is_open

    if is_open(info.licence):
        typer.echo(f"model: {info.name}, free for any use ({info.licence})")
        return
    free = [name for name in model_names() if is_open(read_card(name).licence)]
    other = f"; --model {free[0]} is free for any use" if free else ""
    typer.echo(f"model: {info.name}, {info.licence}{other}")
