"""The last part of a model's ONNX graph: calibrated covariances and confidence.

Every program that runs the file gets the final numbers. `ModelInfo.finish` computes the same with
NumPy for networks that run in PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from luvli.network.backend import AFFINE, BOX, CONFIDENCE, EXPECTED_ERROR, FAILURE, OCCLUSION
from luvli.network.model_info import ModelInfo
from luvli.network.onnx_confidence import confidence_nodes

if TYPE_CHECKING:
    from luvli.network.onnx_graph import Graph


@dataclass(frozen=True)
class Landmarks:
    """Names of what the failure model reads. The origin of the image is moved to where the crop's
    is, so that faces far from it lose no digits."""

    in_image: str
    """(n, k, 2) points, image pixels"""
    box: str
    """(n, 4) image pixels"""
    determinant: str
    """(n, k) of the covariances, image pixels to the fourth power"""
    visible: str
    """(n, k) visibility; 1 where it was not trained"""
    failure_logit: str
    """(n,), or "" without one"""


def final_outputs(graph: Graph, info: ModelInfo, raw: Mapping[str, str]) -> dict[str, str]:
    """The outputs of the file, from those of the network, by name: `landmarks`, `covariance` with
    its factors, `visibility`, and `occlusion` and `failure_logit` where the network has them."""
    calibration, trust = info.calibration, info.trust
    failure_model = None if trust is None else trust.failure_model
    outputs = dict(raw)
    if calibration is None and failure_model is None:
        return outputs
    linear = graph.column(AFFINE, 0, 2)  # (n, 2, 2)
    inverse, determinant = _inverse(graph, linear)
    points = graph.node("MatMul", [raw["landmarks"], inverse])
    covariance = raw["covariance"]
    if calibration is not None and calibration.occlusion and info.occlusion_trained:
        growth = graph.node("Exp", [graph.times(raw[OCCLUSION], calibration.occlusion)])
        column = graph.reshape(growth, -1, len(calibration.scale), 1, 1)
        covariance = graph.times(covariance, column)
    if calibration is not None and (calibration.pixel_variance or calibration.convention_variance):
        variance = _added_variance(graph, info, points)
        transposed = graph.node("Transpose", [linear], perm=[0, 2, 1])
        pixel = graph.reshape(graph.node("MatMul", [linear, transposed]), -1, 1, 2, 2)
        covariance = graph.add(covariance, graph.times(variance, pixel))
    outputs["covariance"] = covariance
    if failure_model is not None:
        landmarks = _landmarks(graph, info, outputs, points, inverse, determinant)
        confidence = confidence_nodes(graph, failure_model, info.config.markup, landmarks)
        outputs |= dict(zip((CONFIDENCE, EXPECTED_ERROR), confidence, strict=True))
    return outputs


def _inverse(graph: Graph, linear: str) -> tuple[str, str]:
    """(n, 2, 2) transposed inverse, for rows of points, and (n, 1) determinant of the affines'
    linear part."""
    flat = graph.reshape(linear, -1, 4)
    a, b, c, d = (graph.column(flat, i) for i in range(4))
    determinant = graph.node("Sub", [graph.times(a, d), graph.times(b, c)])
    adjugate = graph.join([d, graph.node("Neg", [c]), graph.node("Neg", [b]), a])
    inverse = graph.reshape(graph.node("Div", [adjugate, determinant]), -1, 2, 2)
    return inverse, determinant


def _added_variance(graph: Graph, info: ModelInfo, points: str) -> str:
    """(n or 1, k, 1, 1) variances along both axes, in square pixels of the image."""
    calibration = info.calibration
    assert calibration is not None
    count = len(calibration.scale)
    fixed = np.array(calibration.pixel_variance or np.zeros(count)).reshape(1, count, 1, 1)
    variance = graph.constant(fixed)
    if calibration.convention_variance:
        ends = [
            graph.node(f"Reduce{end}", [points], axes=[1], keepdims=0) for end in ("Max", "Min")
        ]
        area = graph.product(graph.node("Sub", ends))  # `face_area`
        convention = np.array(calibration.convention_variance).reshape(1, count, 1, 1)
        variance = graph.add(
            variance, graph.times(graph.reshape(area, -1, 1, 1, 1), graph.constant(convention))
        )
    return variance


def _landmarks(
    graph: Graph,
    info: ModelInfo,
    outputs: Mapping[str, str],
    points: str,
    inverse: str,
    determinant: str,
) -> Landmarks:
    count = info.config.landmarks
    entries = graph.reshape(outputs["covariance"], -1, count, 4)
    xx, xy, yy = (graph.column(entries, i) for i in (0, 1, 3))
    in_crop = graph.node("Sub", [graph.times(xx, yy), graph.times(xy, xy)])
    in_image = graph.node(
        "Div", [graph.reshape(in_crop, -1, count), graph.times(determinant, determinant)]
    )
    shift = graph.reshape(graph.column(AFFINE, 2), -1, 1, 2)
    moved = graph.reshape(graph.node("MatMul", [shift, inverse]), -1, 2)
    visible = outputs["visibility"]
    if not info.config.visibility_trained:
        visible = graph.add(graph.times(visible, 0.0), 1.0)
    return Landmarks(
        points,
        graph.add(BOX, graph.join([moved, moved])),
        in_image,
        visible,
        outputs.get(FAILURE, ""),
    )
