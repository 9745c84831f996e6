"""`luvli models import`: a published checkpoint becomes a model file of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_official(
    file: Annotated[Path, typer.Argument(help="A .pth.tar file of the authors' release.")],
    out: Annotated[Path, typer.Option("--out", help="The model file to write (.safetensors).")],
    visibility_trained: Annotated[
        bool,
        typer.Option(
            "--visibility-trained/--no-visibility-trained",
            help="Whether visibility labels were used in training, which the file does not say: "
            "yes for MERL-RAV, no for 300-W.",
        ),
    ] = False,
) -> None:
    """Convert a published checkpoint to a model that predict, evaluate and train can use.

    The architecture is read from the tensors; no code from the file is run. The model
    behaves like the published code where that differs from the paper.

    Example: `luvli models import lr-0.00002-49.pth.tar --out wflw.safetensors`
    """
    from luvli.cli.tables import print_table
    from luvli.errors import require
    from luvli.files import one_line

    require("torch", "train")
    from luvli.network import load_official, save_model

    network, info = load_official(file, visibility_trained=visibility_trained)
    save_model(out, network, info)
    config = network.config
    rows = [
        ("U-nets, order of coupling", f"{config.unets}, {config.order}"),
        ("channels, bn_size, growth", f"{config.channels}, {config.bn_size}, {config.growth}"),
        ("landmarks (markup)", f"{config.landmarks} ({config.markup})"),
        ("input", f"{config.input_size} x {config.input_size}"),
        ("mean estimator", config.mean_estimator),
        ("parameters, entries", f"{info['parameters']:,}, {info['entries']:,}"),
        ("last epoch", "unknown" if info["epoch"] is None else str(info["epoch"])),
        ("visibility trained", "yes" if config.visibility_trained else "no"),
    ]
    print_table(["", ""], rows, title=f"{file.name}: {info['kind']}")
    for part in info["missing"]:
        typer.echo(f"{part} is not in the file and starts afresh: train before you predict.")
    typer.echo(f"wrote {one_line(str(out))}")
