"""What verbs print: results, sentences, files, and what a model may be used for.

With `--json` a verb prints its result as JSON and nothing else; warnings go to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from luvli.evaluation.table import Table
from luvli.files import one_line
from luvli.progress import Track, track

if TYPE_CHECKING:
    from luvli.network.model_info import ModelInfo

_options = {"json": False}
"""of the program, which `luvli.cli.app` sets"""


def set_json(wanted: bool) -> None:
    """Whether results are printed as JSON."""
    _options["json"] = wanted


def print_result(*tables: Table, value: Any = None) -> None:
    """Tables with an empty line after each; for machines `value`, or the cells of the tables."""
    if not _options["json"]:
        for table in tables:
            typer.echo(f"{table.text()}\n")
        return
    if value is None:
        value = [
            {
                "title": table.title,
                "rows": [dict(zip(table.head, row, strict=True)) for row in table.rows],
            }
            for table in tables
        ]
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """First column to the left, the others to the right; nothing is cut, however wide."""
    print_result(Table(title, headings, rows))


def print_page(markdown: str, value: Any) -> None:
    """A page, laid out where a person reads it; for machines `value`."""
    if _options["json"]:
        print_result(value=value)
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(markdown))
    else:
        typer.echo(markdown, nl=False)


def print_names(about: Mapping[str, str]) -> None:
    """Names with a line about each."""
    if _options["json"]:
        print_result(value=dict(about))
        return
    width = max(map(len, about))
    for name, text in about.items():
        typer.echo(f"{name:{width}}  {text}")


def say(sentence: str) -> None:
    """A line beside the result, for people."""
    if not _options["json"]:
        typer.echo(sentence)


def note(sentence: str) -> None:
    """A line on standard error."""
    typer.echo(sentence, err=True)


def print_paths(paths: Iterable[object]) -> None:
    """The files that were written, one on each line."""
    for path in paths:
        say(one_line(str(path)))


def warn(sentence: str, color: str = "yellow") -> None:
    """A coloured line on standard error."""
    typer.secho(f"luvli: {one_line(sentence)}", fg=color, err=True)


def complain(sentence: str) -> None:
    """A red line on standard error."""
    warn(sentence, "red")


def face_progress(description: str) -> Track:
    """A progress bar that counts faces."""
    return lambda faces: track(faces, description, unit="faces")


def print_licence(info: ModelInfo) -> None:
    """One line: what the model may be used for, and which one anyone may use."""
    from luvli.models import model_names, read_card
    from luvli.network.licence import is_open

    if is_open(info.licence):
        say(f"model: {info.name}, free for any use ({info.licence})")
        return
    free = [name for name in model_names() if is_open(read_card(name).licence)]
    other = f"; --model {free[0]} is free for any use" if free else ""
    say(f"model: {info.name}, {info.licence}{other}")
