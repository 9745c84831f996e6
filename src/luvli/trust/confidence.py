"""The confidence of a face: fitted on labelled faces and on what goes wrong in life.

Whether an alignment succeeded is predicted from what it looks like (`FaceLandmarks` alone): a
logistic model whose log-odds are a sum of one broken line for each feature. It is convex, so
the same faces give the same numbers anywhere, small enough for a model's metadata, and numpy
evaluates it. The expected error is the same kind of sum, of logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.network.face_features import (
    FEATURES,
    SCORE,
    ShapeModel,
    best_turn,
    feature_table,
    normalised,
)
from luvli.network.trust_tables import Additive, ConfidenceTable, basis

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MODES = 15
"""modes of the shape model"""
KNOTS = (-1.0, 0.0, 1.0, 2.0)
RIDGE = 2.0
"""pull of every slope towards 0, in faces"""
SPOILT_SHARE = 0.35
"""share that spoilt images have in the fit, whatever their number"""
FEWEST = 100
"""plain faces, and failures among all, that a fit takes"""


def fit_shape(points: ArrayLike, modes: int = MODES) -> ShapeModel:
    """The shape model of points (n, k, 2) of successful alignments (Procrustes, then PCA)."""
    shapes = np.stack([normalised(shape) for shape in np.asarray(points, dtype=np.float64)])
    mean = shapes.mean(axis=0)
    for _ in range(4):
        turns = [best_turn(shape, mean) for shape in shapes]
        cos, sin = np.cos(turns), np.sin(turns)
        back = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], axis=1)
        upright = shapes @ back
        mean = normalised(upright.mean(axis=0))
        level = best_turn(mean, normalised(shapes.mean(axis=0)))
        mean = mean @ np.array([[np.cos(level), -np.sin(level)], [np.sin(level), np.cos(level)]])
    difference = (upright - mean).reshape(len(shapes), -1)
    _, spread, ways = np.linalg.svd(difference, full_matrices=False)
    count = min(modes, len(spread), len(shapes) - 1)
    deviation = np.maximum(spread[:count] / np.sqrt(len(shapes)), 1e-4)
    return ShapeModel(
        mean=np.round(mean, 4).tolist(),
        modes=np.round(ways[:count].reshape(count, *mean.shape), 4).tolist(),
        deviations=np.round(deviation, 5).tolist(),
    )


def fit_confidence(
    faces: Sequence[FaceLandmarks],
    error: ArrayLike,
    spoilt: ArrayLike,
    success: float = 5.0,
    shape: ShapeModel | None = None,
    largest_error: float = 50.0,
) -> ConfidenceTable:
    """Fit on n predicted faces with their errors in percent of the box.

    An `error` (n,) of infinity means that there was no face; NaN, that nothing is known (the
    face is left out). `spoilt` (n,) tells images that were spoilt on purpose.
    """
    errors = np.asarray(error, dtype=np.float64)
    wrong_on_purpose = np.asarray(spoilt, dtype=bool)
    known = ~np.isnan(errors) & np.array([not face.is_empty for face in faces])
    good = errors < success
    plain = known & ~wrong_on_purpose
    for what, count in (
        ("faces with labels", int(plain.sum())),
        ("failed alignments", int((known & ~good).sum())),
        ("successful alignments", int((known & good).sum())),
    ):
        if count < FEWEST:
            raise InputError(
                f"a confidence takes at least {FEWEST} {what}, got {count}: label more faces."
            )
    if shape is None:
        shape = fit_shape([faces[i].points for i in np.flatnonzero(plain & good).tolist()])
    table = feature_table(faces, shape)
    known &= np.isfinite(table[:, :-1]).all(axis=1)
    weight = np.ones(len(errors))
    count_spoilt = int((known & wrong_on_purpose).sum())
    if count_spoilt:
        plain_count = int((known & ~wrong_on_purpose).sum())
        share = SPOILT_SHARE / (1 - SPOILT_SHARE) * plain_count / count_spoilt
        weight[wrong_on_purpose] = min(1.0, share)
    logs = np.log(np.clip(errors, 0.2, largest_error))
    fitted: dict[str, Additive] = {}
    for name, columns, rows in (
        ("scored", [*FEATURES, SCORE], known & np.isfinite(table[:, -1])),
        ("unscored", list(FEATURES), known),
    ):
        used = table[rows][:, : len(columns)]
        if (good[rows]).sum() < FEWEST // 2 or (~good[rows]).sum() < FEWEST // 2:
            fitted[name] = fitted[f"error_{name}"] = Additive(
                features=[], centre=[], spread=[], knots=[], slopes=[], constant=0.0
            )
            continue
        fitted[name] = fit_logistic(used, good[rows], weight[rows], columns)
        fitted[f"error_{name}"] = fit_mean(used, logs[rows], weight[rows], columns)
    if not fitted["scored"].features:  # boxes were given: there was no detector to learn from
        fitted["scored"], fitted["error_scored"] = fitted["unscored"], fitted["error_unscored"]
    return ConfidenceTable(
        success=success,
        shape=shape,
        scored=fitted["scored"],
        unscored=fitted["unscored"],
        error=fitted["error_scored"],
        error_unscored=fitted["error_unscored"],
        largest_error=largest_error,
        faces=int(known.sum()),
        spoilt=count_spoilt,
    )


def fit_logistic(
    features: Floats, outcome: Bools, weight: Floats, names: Sequence[str], ridge: float = RIDGE
) -> Additive:
    """Weighted logistic regression on the broken lines, by Newton's method."""
    centre, spread = _standard(features, weight)
    terms = basis(features, centre, spread, KNOTS)
    penalty = _penalty(terms.shape[1], ridge)
    beta = np.zeros(terms.shape[1])
    share = float(np.average(outcome, weights=weight))
    beta[-1] = np.log(share / (1 - share))

    def cost(at: Floats) -> float:
        odds = terms @ at
        return float(weight @ (np.logaddexp(0, odds) - outcome * odds) + penalty @ at**2 / 2)

    now = cost(beta)
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(terms @ beta, -30, 30)))
        gradient = terms.T @ (weight * (p - outcome)) + penalty * beta
        curve = (terms * (weight * p * (1 - p))[:, None]).T @ terms + np.diag(penalty + 1e-9)
        step = np.asarray(np.linalg.solve(curve, gradient), np.float64)
        length = 1.0
        while length > 1e-4 and cost(beta - length * step) > now:
            length /= 2
        beta = beta - length * step
        before, now = now, cost(beta)
        if before - now < 1e-9 * abs(now):
            break
    return _additive(beta, centre, spread, names)


def fit_mean(
    features: Floats, logs: Floats, weight: Floats, names: Sequence[str], ridge: float = RIDGE
) -> Additive:
    """The same lines for the logarithm of the mean error: a Gamma regression, by Newton steps.

    Its mean is right, not its median: errors are skew, and users add them up.
    """
    centre, spread = _standard(features, weight)
    terms = basis(features, centre, spread, KNOTS)
    penalty = _penalty(terms.shape[1], ridge)
    # start from least squares of the logarithms, then solve for E[error] = exp(terms beta)
    square = (terms * weight[:, None]).T @ terms + np.diag(penalty + 1e-9)
    beta: Floats = np.asarray(np.linalg.solve(square, terms.T @ (weight * logs)), np.float64)
    truth = np.exp(logs)

    def cost(at: Floats) -> float:
        line = np.clip(terms @ at, -5, 8)
        return float(weight @ (line + truth * np.exp(-line)) + penalty @ at**2 / 2)

    now = cost(beta)
    for _ in range(50):
        ratio = truth * np.exp(-np.clip(terms @ beta, -5, 8))
        gradient = terms.T @ (weight * (1 - ratio)) + penalty * beta
        curve = (terms * (weight * ratio)[:, None]).T @ terms + np.diag(penalty + 1e-9)
        step = np.asarray(np.linalg.solve(curve, gradient), np.float64)
        length = 1.0
        while length > 1e-4 and cost(beta - length * step) > now:
            length /= 2
        beta = beta - length * step
        before, now = now, cost(beta)
        if before - now < 1e-9 * abs(now):
            break
    return _additive(beta, centre, spread, names)


def _standard(features: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Robust centre and spread of each feature, of the middle of its values."""
    low, middle, high = np.quantile(features, (0.25, 0.5, 0.75), axis=0)
    return middle, np.maximum((high - low) / 1.349, 1e-3)


def _penalty(size: int, ridge: float) -> Floats:
    penalty = np.full(size, ridge)
    penalty[-1] = 0.0
    return penalty


def _additive(beta: Floats, centre: Floats, spread: Floats, names: Sequence[str]) -> Additive:
    return Additive(
        features=list(names),
        centre=np.round(centre, 5).tolist(),
        spread=np.round(spread, 5).tolist(),
        knots=list(KNOTS),
        slopes=np.round(beta[:-1].reshape(len(names), -1), 5).tolist(),
        constant=round(float(beta[-1]), 5),
    )
