"""What verbs print: tables, warnings, files, and what a model may be used for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from luvli.evaluation.table import Table
from luvli.files import one_line
from luvli.progress import Track, track

if TYPE_CHECKING:
    from luvli.network.model_info import ModelInfo


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """First column to the left, the others to the right; nothing is cut, however wide."""
    show(Table(title, headings, rows))


def show(table: Table) -> None:
    """The table with its notes, and an empty line."""
    typer.echo(f"{table.text()}\n")


def face_progress(description: str) -> Track:
    """A progress bar that counts faces."""
    return lambda faces: track(faces, description, unit="faces")


def warn(sentence: str, color: str = "yellow") -> None:
    """A coloured line on standard error."""
    typer.secho(f"luvli: {one_line(sentence)}", fg=color, err=True)


def complain(sentence: str) -> None:
    """A red line on standard error."""
    warn(sentence, "red")


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
