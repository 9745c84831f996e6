"""`luvli export`: a trained model as ONNX, which runs without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[Path, typer.Argument(help="A .safetensors model.")],
    onnx: Annotated[Path, typer.Option("--onnx", help="The ONNX file to write.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="8-bit convolutions; needs --images for their ranges.")
    ] = False,
    images: Annotated[
        Path | None, typer.Option(help="Folder with images of faces, to set 8-bit ranges.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Folder with labelled faces: what 8 bits cost is measured on it."),
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", help="Python module that registers the model's trunk."),
    ] = None,
) -> None:
    """Write a model as ONNX, checked against PyTorch before it appears.

    Input: `crops` (B, S, S, 3) uint8 RGB, any B. Outputs in crop pixels: `landmarks`
    (B, k, 2), `covariance` (B, k, 2, 2), `visibility` (B, k).

    Example: `luvli export runs/mine/model.safetensors --onnx mine.onnx`
    """
    from luvli.cli.tables import print_table
    from luvli.errors import InputError, require
    from luvli.models import find_model

    require("torch", "train")
    from luvli.calibration.quantization import quantization_cost
    from luvli.network.trunks import import_modules
    from luvli.prediction.export import export_onnx
    from luvli.prediction.quantize import quantize_with_images

    import_modules(modules or [])
    if int8 and images is None:
        raise InputError("--int8 needs images of faces to set its ranges: add --images FOLDER.")
    source = find_model(model, "torch")
    if not int8:
        found = export_onnx(source, onnx)
        typer.echo(
            f"{onnx}: {onnx.stat().st_size / 1e6:.1f} MB, differs from PyTorch by at most "
            f"{found.pixels:.1g} px, {found.covariance:.1g} in covariance (relative), "
            f"{found.visibility:.1g} in visibility."
        )
        return
    assert images is not None
    quantize_with_images(source, onnx, images)
    typer.echo(f"{onnx}: {onnx.stat().st_size / 1e6:.1f} MB, 8 bits")
    if labels is None:
        typer.echo("What 8 bits cost was not measured: add --labels FOLDER.")
        return
    title, rows = quantization_cost(source, onnx, labels)
    print_table(["", "32 bits", "8 bits"], rows, title=title)
