"""From a trained network to an ONNX file that runs without PyTorch, checked on the way."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, require
from luvli.faces import Faces
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

PIXEL_TOLERANCE = 1e-3
"""largest difference of a location between the two backends, in crop pixels"""
COVARIANCE_TOLERANCE = 1e-3
"""largest difference of a covariance entry, as a share of the covariance's largest entry"""
VISIBILITY_TOLERANCE = 1e-4
FAILURE_TOLERANCE = 1e-2
"""of log-odds, which reach 30 and more"""
CONFIDENCE_TOLERANCE = 1e-3


class Difference(NamedTuple):
    """Largest differences between two backends on the same crops."""

    pixels: float
    covariance: float
    """relative to the largest entry of each covariance"""
    visibility: float
    """of visibility and, where there is one, of occlusion"""
    failure_logit: float = 0.0
    """of the log-odds of failure, where the network estimates them"""
    confidence: float = 0.0
    """between the file's confidence and that of NumPy for the file's own landmarks"""


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
        if not (
            found.pixels <= PIXEL_TOLERANCE
            and found.covariance <= COVARIANCE_TOLERANCE
            and found.visibility <= VISIBILITY_TOLERANCE
            and found.failure_logit <= FAILURE_TOLERANCE
            and found.confidence <= CONFIDENCE_TOLERANCE
        ):
            raise InputError(
                f"{target} was not written: ONNX and PyTorch differ by {found.pixels:.2g} px, "
                f"{found.covariance:.2g} in covariance, {found.visibility:.2g} in visibility, "
                f"{found.failure_logit:.2g} in the log-odds of failure, {found.confidence:.2g} in "
                "confidence."
            )
    return found


def check(model: CropPredictor, backend: OnnxBackend, crops: ImageArray) -> Difference:
    """Largest differences between PyTorch and ONNX on the same crops.

    On crops without a face some heat maps are all but empty, and the mean of next to nothing
    is lost in rounding. Locations count where PyTorch agrees with itself in double precision
    to a tenth of the tolerance.
    """
    single, other = model(crops), backend(crops)
    exact = CropPredictor(copy.deepcopy(model.network).double(), model.info)(crops)
    steady = np.abs(single.points - exact.points) <= PIXEL_TOLERANCE / 10
    windows = Windows.of_crops(len(crops), model.info)
    placed = replace(other, boxes=windows.boxes, scores=windows.scores)
    trust = model.info.trust
    confidence = placed.confidence if trust is None else trust.assess(placed).confidence
    other = replace(other, points=np.where(steady, other.points, single.points))
    if steady.mean() < 0.5:
        raise InputError("the network's heat maps are empty: train it before you export it.")
    return difference(single, other)._replace(confidence=_largest(confidence, other.confidence))


def difference(one: Faces, other: Faces) -> Difference:
    """Largest differences between two predictions about the same crops."""
    size = np.abs(one.covariance).max(axis=(-1, -2), keepdims=True)
    return Difference(
        float(np.abs(one.points - other.points).max()),
        float((np.abs(one.covariance - other.covariance) / size).max()),
        max(_largest(one.visibility, other.visibility), _largest(one.occlusion, other.occlusion)),
        _largest(one.failure_logit, other.failure_logit),
    )


def _largest(one: Floats, other: Floats) -> float:
    """Largest difference of what may be missing (NaN); infinite where only one of two has it."""
    if np.isnan(one).all() or np.isnan(other).all():
        return 0.0 if np.isnan(one).all() and np.isnan(other).all() else float("inf")
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
