"""From a trained network to an ONNX file that runs without PyTorch, checked on the way; with 8 bits
it is smaller and, with the right processor, faster."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, require
from luvli.files import PathLike, whole_file
from luvli.image.read import ImageArray, read_image
from luvli.network.backend import Windows
from luvli.network.description import metadata
from luvli.network.inference import CropPredictor
from luvli.network.model import LUVLi
from luvli.network.model_info import ModelInfo
from luvli.network.onnx_graph import build_graph
from luvli.network.onnx_trace import trace_graph
from luvli.network.weights import network_weights
from luvli.onnx_runtime import onnx_runtime
from luvli.prediction.inputs import Inputs
from luvli.prediction.onnx_backend import OnnxBackend
from luvli.prediction.predictor import load


class Difference(NamedTuple):
    """Largest differences between two backends on the same crops."""

    pixels: float
    """of a location, in crop pixels"""
    covariance: float
    """of an entry, as a share of the covariance's largest entry"""
    visibility: float
    """of visibility and, where there is one, of occlusion"""
    failure_logit: float
    """of the log-odds of failure, where the network estimates them; they reach 30 and more"""
    confidence: float
    """between the file's confidence and that of NumPy for the file's own landmarks"""

    def __str__(self) -> str:
        """In one line, for sentences."""
        return ", ".join(f"{n} {value:.2g}" for n, value in zip(self._fields, self, strict=True))


QUANTIZING_FACES = 64
"""face crops that the 8-bit ranges are set on"""
TOLERANCE = Difference(1e-3, 1e-3, 1e-4, 1e-2, 1e-3)
"""differences above which no file is written"""


def export_onnx(model: PathLike, target: PathLike) -> Difference:
    """Write a safetensors model as ONNX; the file appears only if it predicts the same.

    Inputs and outputs are described in docs/reference/model-file.md. The number of faces is free.
    Calibration and failure model are inside.
    """
    loaded = CropPredictor.load(model)
    return export_network(loaded.network, loaded.info, target)


def export_network(network: LUVLi, info: ModelInfo, target: PathLike) -> Difference:
    """As `export_onnx`, for a network in memory."""
    onnx = require("onnx", "train")
    model = CropPredictor(network.eval(), info)
    crops = test_crops(info.config.input_size)
    with whole_file(target) as temporary:
        ours = info.config.trunk == "dunet"
        weights = network_weights(network)
        onnx.save(build_graph(weights, info) if ours else trace_graph(model), temporary)
        found = check(model, OnnxBackend(temporary), crops)
        if not all(value <= limit for value, limit in zip(found, TOLERANCE, strict=True)):
            raise InputError(f"{target} was not written: ONNX and PyTorch differ ({found}).")
    return found


def check(model: CropPredictor, backend: OnnxBackend, crops: ImageArray) -> Difference:
    """Largest differences between PyTorch and ONNX on the same crops.

    On crops without a face some heat maps are all but empty, and the mean of next to nothing
    is lost in rounding. Locations count where PyTorch agrees with itself in double precision
    to a tenth of the tolerance.
    """
    single, other = model(crops), backend(crops)
    exact = CropPredictor(copy.deepcopy(model.network).double(), model.info)(crops)
    steady = np.abs(single.points - exact.points) <= TOLERANCE.pixels / 10
    if steady.mean() < 0.5:
        raise InputError("the network's heat maps are empty: train it before you export it.")
    windows, trust = Windows.of_crops(len(crops), model.info), model.info.trust
    placed = replace(other, boxes=windows.boxes, scores=windows.scores)
    confidence = placed.confidence if trust is None else trust.assess(placed).confidence
    size = np.abs(single.covariance).max(axis=(-1, -2), keepdims=True)
    return Difference(
        _largest(single.points, np.where(steady, other.points, single.points)),
        _largest(single.covariance / size, other.covariance / size),
        max(
            _largest(single.visibility, other.visibility),
            _largest(single.occlusion, other.occlusion),
        ),
        _largest(single.failure_logit, other.failure_logit),
        _largest(confidence, other.confidence),
    )


def _largest(one: Floats, other: Floats) -> float:
    """Largest difference of what may be missing (NaN); infinite where only one of two has it."""
    missing = np.isnan(one).all(), np.isnan(other).all()
    if any(missing):
        return 0.0 if all(missing) else float("inf")
    return float(np.abs(one - other).max())


def test_crops(size: int, count: int = 5) -> ImageArray:
    """(count, size, size, 3) crops to compare backends on: blobs and grain, flat at the end."""
    import cv2

    rng = np.random.default_rng(5)
    coarse = rng.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    crops = np.stack(
        [cv2.resize(c, (size, size), interpolation=cv2.INTER_CUBIC) for c in coarse]
    ).astype(np.int16)
    crops += rng.integers(-20, 21, crops.shape, dtype=np.int16)
    crops[-1] = 128
    return np.asarray(crops.clip(0, 255), dtype=np.uint8)


# -- 8 bits ----------------------------------------------------------------------------------


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
