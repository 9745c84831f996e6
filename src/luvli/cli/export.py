"""`luvli export`: a trained model as ONNX, which runs without PyTorch."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from luvli.cli.output import print_result, say
from luvli.errors import require


def export(
    model: Path = Argument(help="A .safetensors model."),
    onnx: Path = Option(help="The ONNX file to write."),
    int8: Path | None = Option(
        None, help="Write 8-bit convolutions, quantised with the faces in this folder."
    ),
    labels: Path | None = Option(None, help="Labelled faces to measure the accuracy of 8 bits on."),
) -> None:
    """Write a model as ONNX; the file appears only if it agrees with PyTorch.

    Input: `crops` (B, S, S, 3) uint8 RGB, any B. Outputs in crop pixels: `landmarks`
    (B, k, 2), `covariance` (B, k, 2, 2), `visibility` (B, k).

    Example: `luvli export runs/mine/model.safetensors --onnx mine.onnx`
    """
    require("torch", "train")
    from luvli.evaluation.benchmark import labelled_faces, open_method, run_methods
    from luvli.evaluation.compare import Comparison
    from luvli.models import find_model
    from luvli.prediction.export import export_onnx, quantize_with_images

    source = find_model(model, "torch")
    if int8 is None:
        parity = export_onnx(source, onnx)
        say(
            f"{onnx}: {onnx.stat().st_size / 1e6:.1f} MB, differs from PyTorch by at most {parity}."
        )
        return
    quantize_with_images(source, onnx, int8)
    say(f"{onnx}: {onnx.stat().st_size / 1e6:.1f} MB, 8 bits")
    if labels is None:
        say("What 8 bits cost was not measured: add --labels FOLDER.")
        return
    both = ((source, "32 bits"), (onnx, "8 bits"))
    methods = [open_method(str(path))._replace(name=name) for path, name in both]
    print_result(*Comparison(run_methods(methods, labelled_faces(labels))).tables())
