"""The last part of a model's ONNX graph: calibrated covariances and confidence.

Every program that runs the file gets the final numbers. `luvli.network.inference.finish` computes
the same with NumPy for networks that run in PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from luvli.network.backend import AFFINE, BOX, CONFIDENCE, EXPECTED_ERROR, FAILURE, OCCLUSION, SCORE
from luvli.network.calibration import Calibration
from luvli.network.model_info import ModelInfo
from luvli.network.onnx_confidence import confidence_nodes
from luvli.network.onnx_nodes import Graph, Node


class Landmarks(NamedTuple):
    """What the failure model reads. The origin of the image is moved to where the crop's is, so
    that faces far from it lose no digits."""

    in_image: Node
    """(n, k, 2) points, image pixels"""
    box: Node
    """(n, 4) image pixels"""
    score: Node
    """(n, 1)"""
    determinant: Node
    """(n, k) of the covariances, image pixels to the fourth power"""
    visible: Node
    """(n, k) visibility; 1 where it was not trained"""
    failure_logit: Node | None
    """(n, 1)"""


def final_outputs(graph: Graph, info: ModelInfo, raw: Mapping[str, Node]) -> dict[str, Node]:
    """The outputs of the file, from those of the network, by name: `landmarks`, `covariance`,
    `visibility`, and `occlusion` and `failure_logit` where the network has them."""
    calibration, trust = info.calibration, info.trust
    failure_model = None if trust is None else trust.failure_model
    outputs = dict(raw)
    if calibration is None and failure_model is None:
        return outputs
    linear = graph.tensor(AFFINE).columns(0, 2)  # (n, 2, 2)
    inverse, determinant = _inverse(linear)
    points = raw["landmarks"] @ inverse
    if calibration is not None:
        occlusion = raw[OCCLUSION] if info.occlusion_trained else None
        outputs["covariance"] = _calibrated(
            calibration, raw["covariance"], occlusion, points, linear
        )
    if failure_model is not None:
        landmarks = _landmarks(graph, info, outputs, points, inverse, determinant)
        confidence = confidence_nodes(failure_model, info.config.markup, landmarks)
        outputs |= dict(zip((CONFIDENCE, EXPECTED_ERROR), confidence, strict=True))
    return outputs


def _inverse(linear: Node) -> tuple[Node, Node]:
    """(n, 2, 2) transposed inverse, for rows of points, and (n, 1) determinant of the affines'
    linear part."""
    flat = linear.reshape(-1, 4)
    a, b, c, d = (flat.column(i) for i in range(4))
    determinant = a * d - b * c
    adjugate = flat.graph.join([d, 0.0 - c, 0.0 - b, a])
    return (adjugate / determinant).reshape(-1, 2, 2), determinant


def _calibrated(
    calibration: Calibration, covariance: Node, occlusion: Node | None, points: Node, linear: Node
) -> Node:
    """(n, k, 2, 2) crop pixels squared: `Calibration.apply`, whose variances are of the image."""
    count = len(calibration.scale)
    covariance = covariance * np.array(calibration.scale)[:, None, None]
    if calibration.occlusion and occlusion is not None:
        growth = (occlusion * calibration.occlusion).exp()
        covariance = covariance * growth.reshape(-1, count, 1, 1)
    if not (calibration.pixel_variance or calibration.convention_variance):
        return covariance
    fixed = np.array(calibration.pixel_variance or np.zeros(count)).reshape(1, count, 1, 1)
    variance = points.graph.constant(fixed)  # (n or 1, k, 1, 1) along both axes, image pixels
    if calibration.convention_variance:
        low, high = (points.reduced(how, 1, keep=False) for how in ("Min", "Max"))
        area = (high - low).reduced("Prod", 1).reshape(-1, 1, 1, 1)  # `face_area`
        convention = np.array(calibration.convention_variance).reshape(1, count, 1, 1)
        variance = variance + area * convention
    pixel = (linear @ linear.apply("Transpose", perm=[0, 2, 1])).reshape(-1, 1, 2, 2)
    return covariance + variance * pixel


def _landmarks(
    graph: Graph,
    info: ModelInfo,
    outputs: Mapping[str, Node],
    points: Node,
    inverse: Node,
    determinant: Node,
) -> Landmarks:
    count = info.config.landmarks
    entries = outputs["covariance"].reshape(-1, count, 4)
    xx, xy, yy = (entries.column(i) for i in (0, 1, 3))
    in_crop = (xx * yy - xy * xy).reshape(-1, count)
    moved = (graph.tensor(AFFINE).column(2).reshape(-1, 1, 2) @ inverse).reshape(-1, 2)
    visible, failure = outputs["visibility"], outputs.get(FAILURE)
    if not info.config.visibility_trained:
        visible = visible * 0.0 + 1.0
    return Landmarks(
        points,
        graph.tensor(BOX) + graph.join([moved, moved]),
        graph.tensor(SCORE).reshape(-1, 1),
        in_crop / (determinant * determinant),
        visible,
        None if failure is None else failure.reshape(-1, 1),
    )
