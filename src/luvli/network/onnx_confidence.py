"""Confidence and expected error as nodes of an ONNX graph.

The same numbers as `luvli.trust.failure_model` gives with NumPy from `luvli.trust.features`, which
say what each feature means; a test compares the two. Points are turned into the axes of the image
first, because a crop may be rotated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from luvli.network.backend import SCORE
from luvli.trust.failure_model import FailureModel, Hinges
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
    from luvli.network.onnx_graph import Graph
    from luvli.network.onnx_outputs import Landmarks


def confidence_nodes(
    graph: Graph, model: FailureModel, markup: str, landmarks: Landmarks
) -> tuple[str, str]:
    """Names of the confidence (n,), 0..1, and of the expected error (n,), percent of the box."""
    table = _feature_table(graph, model.shape, markup, landmarks)
    variants = (model.detected, model.given)
    has_failure = bool(landmarks.failure_logit)
    logs = []
    for variant in variants:
        sums = _sums(graph, table, variant.pair if has_failure else _without_failure(variant.pair))
        log = graph.column(sums, 0)
        if variant.failure is not None:
            log = _mixture(graph, model, log, graph.column(sums, 1))
        logs.append(log)
    log_errors = graph.join(logs)
    logits = graph.join(
        [
            _sums(graph, log, Hinges.of([variant.success], [0]))
            for log, variant in zip(logs, variants, strict=True)
        ]
    )
    detected = graph.node("Less", [graph.reshape(SCORE, -1, 1), graph.constant(1.0)])
    log_error, logit = (
        graph.reshape(
            graph.node("Where", [detected, graph.column(both, 0), graph.column(both, 1)]), -1
        )
        for both in (log_errors, logits)
    )
    error = graph.node("Exp", [graph.clip(log_error, -3.0, math.log(model.max_error))])
    return graph.node("Sigmoid", [graph.clip(logit, -30.0, 30.0)]), error


def _mixture(graph: Graph, model: FailureModel, near: str, failure: str) -> str:
    """`luvli.trust.failure_model.expected_log_error`"""
    probability = graph.node("Sigmoid", [graph.clip(failure, -30.0, 30.0)])
    limit = graph.constant(math.log(model.failure_from))
    close = graph.node("Exp", [graph.node("Min", [near, limit])])
    difference = graph.node("Sub", [graph.constant(model.failure_error), close])
    return graph.node("Log", [graph.add(close, graph.times(probability, difference))])


def _sums(graph: Graph, table: str, hinges: Hinges) -> str:
    """(n, m) the sums of m additive models of a table (n, columns): `Hinges`."""
    x = graph.node("Gather", [table, graph.constant(hinges.columns)], axis=1)
    x = graph.node("Min", [x, graph.constant(hinges.limits)])
    x = graph.node("Relu", [graph.node("Sub", [x, graph.constant(hinges.knots)])])
    total = graph.node("MatMul", [x, graph.constant(hinges.weights)])
    return graph.add(total, graph.constant(hinges.constants))


def _without_failure(hinges: Hinges) -> Hinges:
    """The same sums where every failure score is the ordinary one, for a network that has none."""
    table = np.full((1, len(FEATURE_COLUMNS)), np.nan)
    weights = hinges.weights * (hinges.columns == FEATURE_COLUMNS.index(FAILURE))[:, None]
    ordinary = hinges._replace(weights=weights)(table)[0]
    return hinges._replace(weights=hinges.weights - weights, constants=ordinary)


def _feature_table(graph: Graph, shape: ShapeModel, markup: str, landmarks: Landmarks) -> str:
    """(n, 13) the `FEATURE_COLUMNS`, by name."""
    points, box = landmarks.in_image, landmarks.box
    count = len(shape.mean)
    low, high = (
        graph.node(kind, [points], axes=[1], keepdims=0) for kind in ("ReduceMin", "ReduceMax")
    )
    first, last = graph.column(box, 0, 2), graph.column(box, 2, 4)
    size = graph.root(graph.product(graph.node("Sub", [last, first])))
    size = graph.node("Max", [size, graph.constant(1e-9)])
    extent = graph.root(
        graph.node("Max", [graph.product(graph.node("Sub", [high, low])), graph.constant(TINY)])
    )
    ends = graph.node("Sub", [graph.add(low, high), graph.add(first, last)])
    offset = graph.times(graph.node("ReduceL2", [ends], axes=[1]), 0.5)
    residual, distance, tilt = _shape(graph, shape, points)
    spreads, unevenness = _spreads(graph, landmarks, size, group_members(markup, count))
    groups = group_members(markup, count).shape[1]
    worst = graph.node("ReduceMax", [graph.column(spreads, 1, groups)], axes=[1])
    visible = landmarks.visible
    hidden = graph.node("ReduceMean", [graph.node("Sub", [graph.constant(1.0), visible])], axes=[1])
    both = graph.times(visible, graph.node("Sub", [graph.constant(1.0), visible]))
    score = graph.clip(graph.reshape(SCORE, -1, 1), *SCORE_LIMITS)
    odds = graph.node("Div", [score, graph.node("Sub", [graph.constant(1.0), score])])
    columns = {
        "spread": graph.log(graph.column(spreads, 0)),
        "spread jaw": graph.log(graph.column(spreads, 1)),
        "worst spread": graph.log(worst),
        "unevenness": unevenness,
        "box size": graph.log(graph.node("Div", [extent, size])),
        "box place": graph.log(graph.add(graph.node("Div", [offset, size]), MIN_OFFSET)),
        "shape residual": graph.log(graph.add(residual, float(MIN_MISFIT[0]))),
        "shape distance": graph.log(graph.add(distance, float(MIN_MISFIT[1]))),
        "tilt": tilt,
        "hidden": hidden,
        "undecided": graph.times(graph.node("ReduceMean", [both], axes=[1]), 4.0),
        FAILURE: graph.reshape(landmarks.failure_logit, -1, 1)
        if landmarks.failure_logit
        else graph.times(hidden, 0.0),
        "score": graph.log(odds),
    }
    return graph.join([columns[name] for name in FEATURE_COLUMNS])


def _spreads(graph: Graph, landmarks: Landmarks, size: str, members: np.ndarray) -> tuple[str, str]:
    """(n, 1 + groups) weighted mean standard deviations, in box sizes, of all landmarks and of each
    group; and (n, 1) the standard deviation of their logarithms."""
    floor = graph.constant(TINY**4)
    area = graph.root(graph.root(graph.node("Max", [landmarks.determinant, floor])))
    sigma = graph.node("Div", [area, size])
    weight = graph.add(landmarks.visible, MIN_VISIBILITY)
    chosen = graph.constant(members)
    sums = graph.node("MatMul", [graph.times(weight, sigma), chosen])
    means = graph.node("Div", [sums, graph.node("MatMul", [weight, chosen])])
    off = graph.node("Sub", [graph.log(sigma), graph.log(graph.column(means, 0))])
    square = graph.node("ReduceSum", [graph.times(weight, graph.times(off, off)), graph.axis(1)])
    total = graph.node("ReduceSum", [weight, graph.axis(1)])
    return means, graph.root(graph.node("Div", [square, total]))


def _shape(graph: Graph, shape: ShapeModel, points: str) -> tuple[str, str, str]:
    """Residual, distance and absolute rotation, each (n, 1): `ShapeModel.compare`."""
    mean, deviations = np.array(shape.mean), np.array(shape.deviations)
    modes = np.array(shape.modes).reshape(len(deviations), -1)
    centred = graph.node("Sub", [points, graph.node("ReduceMean", [points], axes=[1])])
    flat = graph.node("Flatten", [centred], axis=1)
    length = graph.node("ReduceL2", [flat], axes=[1])
    radius = graph.node("Max", [graph.times(length, len(mean) ** -0.5), graph.constant(1e-9)])
    # the mean as a matrix that gives both parts of the complex product with its conjugate
    turned = np.stack([mean, np.stack([-mean[:, 1], mean[:, 0]], axis=1)]).reshape(2, -1)
    parts = graph.node("MatMul", [flat, graph.constant(turned.T)])  # real, imaginary
    modulus = graph.node("Max", [graph.node("ReduceL2", [parts], axes=[1]), graph.constant(1e-20)])
    unit = graph.node("Div", [parts, graph.times(modulus, radius)])
    rotate = graph.constant(np.array([[1.0, 0.0, 0.0, 1.0], [0.0, -1.0, 1.0, 0.0]]))
    matrix = graph.reshape(graph.node("MatMul", [unit, rotate]), -1, 2, 2)
    aligned = graph.node("Flatten", [graph.node("MatMul", [centred, matrix])], axis=1)
    difference = graph.node("Sub", [aligned, graph.constant(mean.reshape(-1))])
    coefficients = graph.node("MatMul", [difference, graph.constant(modes.T)])
    explained = graph.node("MatMul", [coefficients, graph.constant(modes)])
    rest = graph.node("ReduceL2", [graph.node("Sub", [difference, explained])], axes=[1])
    standardised = graph.node("Div", [coefficients, graph.constant(deviations)])
    distance = graph.node("ReduceL2", [standardised], axes=[1])
    # |atan2(y, x)| = 2 atan(|y| / (r + x)), the floors for the negative axis
    above = graph.node("Max", [graph.node("Abs", [graph.column(parts, 1)]), graph.constant(1e-12)])
    below = graph.node("Max", [graph.add(modulus, graph.column(parts, 0)), graph.constant(1e-20)])
    tilt = graph.times(graph.node("Atan", [graph.node("Div", [above, below])]), 2.0)
    return (
        graph.times(rest, len(mean) ** -0.5),
        graph.times(distance, len(deviations) ** -0.5),
        tilt,
    )
