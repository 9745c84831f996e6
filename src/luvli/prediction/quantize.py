"""8-bit models: smaller and, with the right processor, faster. Making one needs PyTorch."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from luvli.errors import InputError
from luvli.files import PathLike, whole_file
from luvli.image.read import ImageArray, read_image
from luvli.network.backend import Windows
from luvli.network.description import metadata
from luvli.onnx_runtime import onnx_runtime
from luvli.prediction.export import export_onnx
from luvli.prediction.inputs import Inputs
from luvli.prediction.onnx_backend import OnnxBackend
from luvli.prediction.predictor import load

QUANTIZING_FACES = 64
"""face crops that the 8-bit ranges are set on"""


def quantize_with_images(model: Path, target: PathLike, images: PathLike) -> None:
    """Write a safetensors model as 8-bit ONNX, ranges set on the faces in a folder."""
    with tempfile.TemporaryDirectory() as place:
        full = Path(place) / f"{model.stem}.onnx"
        export_onnx(model, full)
        predictor = load(full)
        crops: list[ImageArray] = []
        for item in Inputs([images]):
            with contextlib.suppress(InputError):
                image = read_image(item.path)
                boxes = predictor.detect(image)
                crops += [predictor.info.crop_for(box).warp(image) for box in boxes]
            if len(crops) >= QUANTIZING_FACES:
                break
        quantize(full, target, crops[:QUANTIZING_FACES])


def quantize(model: Path, target: PathLike, crops: Sequence[ImageArray]) -> None:
    """Write an exported model with 8-bit convolutions, ranges taken from real crops.

    `crops` are (S, S, 3) face crops, as `Predictor.crop` makes them; some fifty are enough.
    The first convolution and the last two, which make the heat maps, stay at 32 bits: with
    luvli-68 that is the difference between losing 0.2 points of NME and losing none. Weights
    use 7 bits, because processors without VNNI add up pairs of products in 16.
    """
    import onnx

    onnx_runtime()
    from onnxruntime import quantization

    if len(crops) < 8:
        raise InputError(
            f"{len(crops)} face crops are too few to set 8-bit ranges: give a folder with at "
            "least 8 faces, better 50."
        )
    info = OnnxBackend(model).info.model_copy(update={"precision": "int8"})
    window = Windows.of_crops(1, info)
    batches = iter([window.inputs(crop[None]) for crop in crops])
    reader = type(
        "CropReader",
        (quantization.CalibrationDataReader,),
        {"get_next": lambda self: next(batches, None)},
    )
    prepared = model.with_suffix(".prepared.onnx")
    logging.disable(logging.WARNING)  # the quantizer's remarks are for its developers
    try:
        quantization.quant_pre_process(os.fspath(model), prepared, skip_symbolic_shape=True)
        nodes = onnx.load(prepared, load_external_data=False).graph.node
        layers = [node.name for node in nodes if node.op_type == "Conv"]
        with whole_file(target) as temporary:
            quantization.quantize_static(
                prepared,
                temporary,
                reader(),
                op_types_to_quantize=["Conv"],
                nodes_to_exclude=[layers[0], *layers[-2:]],
                per_channel=True,
                reduce_range=True,
                calibrate_method=quantization.CalibrationMethod.MinMax,
            )
            proto = onnx.load(temporary)
            onnx.helper.set_model_props(proto, metadata(info))
            onnx.save(proto, temporary)
    finally:
        logging.disable(logging.NOTSET)
