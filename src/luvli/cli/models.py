"""`luvli models`: what is shipped, what to know about it, and published checkpoints."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from luvli.cli.options import Verbs
from luvli.cli.output import print_page, print_paths, print_result, say
from luvli.errors import require
from luvli.evaluation.table import Table

models = Verbs(
    name="models",
    help="List the shipped models, show one's card, or import a published checkpoint.",
)


@models.command("list")
def list_models() -> None:
    """List the shipped models with licence, accuracy, time and size.

    Example: `luvli models list`
    """
    from luvli.models import FOLDER, SUFFIXES, model_names, read_card
    from luvli.network.licence import is_open

    rows, cards = [], []
    for name in model_names():
        card = read_card(name)
        cards.append(card.model_dump(include={"name", "version", "licence", "headline"}))
        files = [FOLDER / f"{name}{suffix}" for suffix in SUFFIXES.values()]
        size = " + ".join(f"{f.stat().st_size / 1e6:.1f} MB" for f in files if f.is_file())
        figures = ["", "", ""]
        if (best := card.headline) is not None:
            errors = [f"{error:.2f} %" for error in (best.nme_300w, best.nme_merl_rav)]
            figures = [*errors, f"{best.milliseconds:.1f} ms"]
        use = "any" if is_open(card.licence) else "research only"
        rows.append([name, card.version, use, *figures, size])
    head = ["model", "version", "use", "300-W*", "MERL-RAV*", "a face", "size (ONNX + safetensors)"]
    print_result(Table("", head, rows), value=cards)
    say(
        "* error on held-out training photographs, image alone, without 300-W's challenge faces: "
        "not comparable with published test figures. luvli models show NAME has the details."
    )


@models.command("show")
def show_model(name: str = Argument(help="A name from `luvli models list`.")) -> None:
    """Print a model's card: data, licence, use, limits, accuracy, calibration, speed.

    Where the output is not a terminal it is Markdown.

    Example: `luvli models show luvli-68 > card.md`
    """
    from luvli.models import read_card

    card = read_card(name)
    print_page(card.markdown(), card.model_dump())


@models.command("import")
def import_official(
    file: Path = Argument(help="A .pth.tar file of the authors' release."),
    out: Path = Option(help="The model file to write (.safetensors)."),
    visibility_trained: bool = Option(
        False,
        help="Whether visibility labels were used in training, which the file does not say: yes "
        "for MERL-RAV, no for 300-W.",
    ),
) -> None:
    """Convert a published checkpoint to a model that predict, evaluate and train can use.

    The architecture is read from the tensors; no code from the file is run. The model
    behaves like the published code where that differs from the paper.

    Example: `luvli models import lr-0.00002-49.pth.tar --out wflw.safetensors`
    """
    require("torch", "train")
    from luvli.network import load_official, save_model

    network, info = load_official(file, visibility_trained=visibility_trained)
    save_model(out, network, info)
    config = network.config
    epoch = "" if info["epoch"] is None else f", after epoch {info['epoch']}"
    say(
        f"{file.name}: {info['kind']} with {config.unets} U-nets of {config.channels} channels, "
        f"{config.landmarks} landmarks ({config.markup}), {info['parameters']:,} parameters{epoch}"
    )
    for part in info["missing"]:
        say(f"{part} is not in the file and starts afresh: train before you predict.")
    print_paths([out])
