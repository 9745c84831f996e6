"""From a trained network to an ONNX file that runs without PyTorch, checked on the way."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, require
from luvli.files import PathLike, whole_file
from luvli.image.read import ImageArray
from luvli.network.backend import Windows
from luvli.network.inference import CropPredictor
from luvli.network.model import LUVLi
from luvli.network.model_info import ModelInfo
from luvli.network.onnx_graph import build_graph
from luvli.network.onnx_trace import trace_graph
from luvli.network.weights import network_weights
from luvli.prediction.onnx_backend import OnnxBackend


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
