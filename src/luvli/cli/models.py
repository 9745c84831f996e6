"""`luvli models`: what is shipped, and what to know about it."""

from __future__ import annotations

from typing import Annotated

import typer

from luvli.cli.models_import import import_official

models = typer.Typer(
    no_args_is_help=True,
    help="List the shipped models, show one's card, or import a published checkpoint.",
)
models.command("import")(import_official)


@models.command("list")
def list_models() -> None:
    """Licence, accuracy, time and size of the shipped models, side by side."""
    from luvli.cli.tables import print_table
    from luvli.models import FOLDER, SUFFIXES, model_names, read_card
    from luvli.network.licence import is_open

    rows = []
    for name in model_names():
        card = read_card(name)
        files = [FOLDER / f"{name}{suffix}" for suffix in SUFFIXES.values()]
        size = " + ".join(f"{f.stat().st_size / 1e6:.1f} MB" for f in files if f.is_file())
        told = card.headline
        figures = (
            [f"{told.nme_300w:.2f} %", f"{told.nme_merl_rav:.2f} %", f"{told.milliseconds:.1f} ms"]
            if told is not None
            else ["", "", ""]
        )
        use = "any" if is_open(card.licence) else "research only"
        rows.append([name, card.version, use, *figures, size])
    if not rows:
        typer.echo("no models are shipped with this copy of luvli.")
        return
    head = ["model", "version", "use", "300-W", "MERL-RAV", "a face", "size (ONNX + safetensors)"]
    print_table(head, rows)
    typer.echo("errors on held-out faces, image alone: luvli models show NAME has the details.")


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
