"""`luvli models`: what is shipped, and what to know about it."""

from __future__ import annotations

from typing import Annotated

import typer

models = typer.Typer(no_args_is_help=True, help="List the shipped models, or show one's card.")


@models.command("list")
def list_models() -> None:
    """Names, licences and sizes of the shipped models."""
    from luvli.cli.tables import print_table
    from luvli.models import FOLDER, SUFFIXES, model_names, read_card

    rows = []
    for name in model_names():
        card = read_card(name)
        files = [FOLDER / f"{name}{suffix}" for suffix in SUFFIXES.values()]
        size = " + ".join(f"{f.stat().st_size / 1e6:.1f} MB" for f in files if f.is_file())
        rows.append([name, card.version, size, card.summary])
    if not rows:
        typer.echo("no models are shipped with this copy of luvli.")
        return
    print_table(["model", "version", "size", "what it is"], rows)


@models.command("show")
def show_model(
    name: Annotated[str, typer.Argument(help="A name from `luvli models list`.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="As text, for a page.")] = False,
) -> None:
    """The card of a model: data, licence, use, limits, accuracy, calibration, speed.

    Example: `luvli models show luvli-68`
    """
    from luvli.models import read_card

    card = read_card(name)
    if markdown:
        typer.echo(card.markdown(), nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(card.markdown()))
