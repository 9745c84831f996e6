"""`luvli models`: what is shipped, and what to know about it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from luvli.cli.models_import import import_official
from luvli.cli.options import Verbs
from luvli.cli.tables import print_table

models = Verbs(
    name="models",
    help="List the shipped models, show one's card, or import a published checkpoint.",
)
models.command("import")(import_official)


@models.command("list")
def list_models() -> None:
    """Licence, accuracy, time and size of the shipped models, side by side."""
    from luvli.models import FOLDER, SUFFIXES, model_names, read_card
    from luvli.network.licence import is_open

    rows = []
    for name in model_names():
        card = read_card(name)
        files = [FOLDER / f"{name}{suffix}" for suffix in SUFFIXES.values()]
        size = " + ".join(f"{f.stat().st_size / 1e6:.1f} MB" for f in files if f.is_file())
        figures = ["", "", ""]
        if (best := card.headline) is not None:
            errors = [f"{error:.2f} %" for error in (best.nme_300w, best.nme_merl_rav)]
            figures = [*errors, f"{best.milliseconds:.1f} ms"]
        use = "any" if is_open(card.licence) else "research only"
        rows.append([name, card.version, use, *figures, size])
    head = ["model", "version", "use", "300-W*", "MERL-RAV*", "a face", "size (ONNX + safetensors)"]
    print_table(head, rows)
    typer.echo(
        "* error on held-out training photographs, image alone, without 300-W's challenge faces: "
        "not comparable with published test figures. luvli models show NAME has the details."
    )


@models.command("show")
def show_model(
    name: Annotated[str, typer.Argument(help="A name from `luvli models list`.")],
) -> None:
    """The card of a model: data, licence, use, limits, accuracy, calibration, speed.

    Where the output is not a terminal it is Markdown: `luvli models show luvli-68 > card.md`.
    """
    from luvli.models import read_card

    card = read_card(name)
    if not sys.stdout.isatty():
        typer.echo(card.markdown(), nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(card.markdown()))
