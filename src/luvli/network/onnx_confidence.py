"""Confidence and expected error as nodes of an ONNX graph.

The same numbers as `luvli.trust.failure_model` gives with NumPy from `luvli.trust.features`, which
say what each feature means; a test compares the two. Points are turned into the axes of the image
first, because a crop may be rotated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from luvli.arrays import Floats
from luvli.network.onnx_nodes import Node
from luvli.trust.failure_model import AdditiveModel, FailureModel
from luvli.trust.features import (
    FAILURE,
    FEATURE_COLUMNS,
    MIN_MISFIT,
    MIN_OFFSET,
    MIN_VISIBILITY,
    SCORE_LIMITS,
    TINY,
    ShapeModel,
    group_members,
)

if TYPE_CHECKING:
    from luvli.network.onnx_outputs import Landmarks


def confidence_nodes(model: FailureModel, markup: str, landmarks: Landmarks) -> tuple[Node, Node]:
    """The confidence (n,), 0..1, and the expected error (n,), percent of the box."""
    table = _feature_table(model.shape, markup, landmarks)
    known = {FAILURE: landmarks.failure_logit is not None}
    log_errors, logits = [], []
    for variant in (model.detected, model.given):
        near, failure = (_additive(table, each, known) for each in (variant.error, variant.failure))
        log_errors.append(_mixture(model, near, failure))
        logits.append(_additive(log_errors[-1], variant.success))
    detected = landmarks.score.apply("Less", 1.0)
    log_error, logit = (detected.apply("Where", *both).reshape(-1) for both in (log_errors, logits))
    error = log_error.clip(-3.0, math.log(model.max_error)).exp()
    return logit.clip(-30.0, 30.0).sigmoid(), error


def _mixture(model: FailureModel, near: Node, failure: Node) -> Node:
    """`luvli.trust.failure_model.expected_log_error`"""
    probability = failure.clip(-30.0, 30.0).sigmoid()
    close = near.minimum(math.log(model.failure_from)).exp()
    return (close + probability * (model.failure_error - close)).log()


def _additive(table: Node, model: AdditiveModel, known: Mapping[str, bool] | None = None) -> Node:
    """(n, 1) the sum of an additive model: of the feature table, or of its only feature (n, 1).
    Features that are not `known` count as ordinary.

    The linear term is a hinge too: clip(z, -limit, limit) = max(min(z, limit) + limit, 0) - limit.
    """
    knots = [-model.limit, *model.knots]
    weights = np.array(model.coefficients)
    if known is not None:
        columns = [FEATURE_COLUMNS.index(name) for name in model.features]
        table = table.apply("Gather", np.repeat(columns, len(knots)), axis=1)
    there = [float((known or {}).get(name, True)) for name in model.features]
    centre, spread, use = (
        np.repeat(each, len(knots)) for each in (model.centre, model.spread, there)
    )
    z = ((table - centre) * (use / spread)).minimum(model.limit)
    hinges: Node = (z - np.tile(knots, len(weights))).relu()
    constant = float(model.intercept - model.limit * weights[:, 0].sum())
    return hinges @ weights.reshape(-1, 1) + constant


def _feature_table(shape: ShapeModel, markup: str, landmarks: Landmarks) -> Node:
    """(n, 13) the `FEATURE_COLUMNS`, by name."""
    points, visible = landmarks.in_image, landmarks.visible
    members = group_members(markup, len(shape.mean))
    low, high = (points.reduced(how, 1, keep=False) for how in ("Min", "Max"))
    first, last = landmarks.box.columns(0, 2), landmarks.box.columns(2, 4)
    size = (last - first).reduced("Prod", 1).root().maximum(1e-9)
    extent = (high - low).reduced("Prod", 1).maximum(TINY).root()
    offset = (low + high - first - last).reduced("L2", 1) * 0.5
    residual, distance, tilt = _shape(shape, points)
    spreads, unevenness = _spreads(landmarks, size, members)
    hidden = (1.0 - visible).reduced("Mean", 1)
    score = landmarks.score.clip(*SCORE_LIMITS)
    columns = {
        "spread": spreads.column(0).log(),
        "spread jaw": spreads.column(1).log(),
        "worst spread": spreads.columns(1, members.shape[1]).reduced("Max", 1).log(),
        "unevenness": unevenness,
        "box size": (extent / size).log(),
        "box place": (offset / size + MIN_OFFSET).log(),
        "shape residual": (residual + float(MIN_MISFIT[0])).log(),
        "shape distance": (distance + float(MIN_MISFIT[1])).log(),
        "tilt": tilt,
        "hidden": hidden,
        "undecided": (visible * (1.0 - visible)).reduced("Mean", 1) * 4.0,
        FAILURE: landmarks.failure_logit or hidden * 0.0,
        "score": (score / (1.0 - score)).log(),
    }
    return points.graph.join([columns[name] for name in FEATURE_COLUMNS])


def _spreads(landmarks: Landmarks, size: Node, members: Floats) -> tuple[Node, Node]:
    """(n, 1 + groups) weighted mean standard deviations, in box sizes, of all landmarks and of each
    group; and (n, 1) the standard deviation of their logarithms."""
    sigma = landmarks.determinant.maximum(TINY**4).root().root() / size
    weight = landmarks.visible + MIN_VISIBILITY
    means = (weight * sigma) @ members / (weight @ members)
    off = sigma.log() - means.column(0).log()
    square = (weight * off * off).reduced("Sum", 1)
    return means, (square / weight.reduced("Sum", 1)).root()


def _shape(shape: ShapeModel, points: Node) -> tuple[Node, Node, Node]:
    """Residual, distance and absolute rotation, each (n, 1): `ShapeModel.compare`."""
    mean, deviations = np.array(shape.mean), np.array(shape.deviations)
    modes = np.array(shape.modes).reshape(len(deviations), -1)
    centred = points - points.reduced("Mean", 1)
    flat = centred.apply("Flatten", axis=1)
    radius = (flat.reduced("L2", 1) * len(mean) ** -0.5).maximum(1e-9)
    # the mean as a matrix that gives both parts of the complex product with its conjugate
    turned = np.stack([mean, np.stack([-mean[:, 1], mean[:, 0]], axis=1)]).reshape(2, -1)
    parts = flat @ turned.T  # real, imaginary
    modulus = parts.reduced("L2", 1).maximum(1e-20)
    rotate = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, -1.0, 1.0, 0.0]])
    matrix = (parts / (modulus * radius) @ rotate).reshape(-1, 2, 2)
    difference = (centred @ matrix).apply("Flatten", axis=1) - mean.reshape(-1)
    coefficients = difference @ modes.T
    rest = (difference - coefficients @ modes).reduced("L2", 1)
    distance = (coefficients / deviations).reduced("L2", 1)
    # |atan2(y, x)| = 2 atan(|y| / (r + x)), the floors for the negative axis
    above = parts.column(1).apply("Abs").maximum(1e-12)
    below = (modulus + parts.column(0)).maximum(1e-20)
    tilt = (above / below).apply("Atan") * 2.0
    return rest * len(mean) ** -0.5, distance * len(deviations) ** -0.5, tilt
