"""The confidence of a face: fitted on labelled faces and on what goes wrong in life.

The error of an alignment is predicted from what it looks like (`FaceLandmarks` alone), in two
parts: whether it went astray altogether, and how large the error is if it did not. The log-odds of
the first and the logarithm of the second are each a sum of one broken line for each feature: what
tells a good face from a better one is not what tells a face from a cat. The confidence, which is
the probability that the error stays below the bound of success, is a broken line of the logarithm
of the whole, in log-odds. So the order of faces by either is the same, and it is learnt from how
large the errors are, which says more than which of them lie above the bound. All fits are convex,
so the same faces give the same numbers anywhere, small enough for a model's metadata, and numpy
evaluates them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.network.face_features import (
    ASTRAY,
    FEATURE_COLUMNS,
    FEATURES,
    SCORE,
    ShapeModel,
    best_turn,
    feature_table,
    normalised,
)
from luvli.network.trust_tables import Additive, ConfidenceTable, basis, expected_log

MODES = 15
"""modes of the shape model"""
KNOTS = (-1.0, 0.0, 1.0, 2.0)
"""where the log-odds bend, in deviations of all faces"""
UNUSUAL = (-3.0, 2.0, 4.0, 7.0)
"""where the lines of the expected error bend, in deviations of plain faces: among ordinary ones
they are straight, because bends there follow the noise of a thousand faces and cost the order"""
LIMIT = 12.0
"""deviations of plain faces beyond which all count alike"""
RIDGE = 2.0
"""pull of every slope towards 0, in faces"""
SPREAD = FEATURES[0]
"""the logarithm of the mean sigma: unless faces say otherwise, errors are proportional to it"""
NEAR_RIDGE = 100.0
"""pull, in faces, of the slopes of the expected error: of sigma's towards 1, of all others to 0"""
BEND = 100.0
"""pull of every bend towards 0 in the lines of the expected error"""
ASTRAY_FROM = 15.0
"""error in percent of the box from which an alignment went astray"""
ASTRAY_RIDGE = 0.5
"""pull of slopes and bends towards 0 where faces that went astray are told"""
FALL = -0.05
"""what log-odds fall with every deviation at least, so that no two errors are equally likely"""
SPOILT_SHARE = 0.2
"""share that spoilt images have in the fit, whatever their number"""
EXPECTED = "log expected error"
FOLDS = 5
NEIGHBOURS = 8
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
    known &= np.isfinite(table[:, : len(FEATURES)]).all(axis=1)
    told = [ASTRAY] if np.isfinite(table[known, FEATURE_COLUMNS.index(ASTRAY)]).all() else []
    weight = np.ones(len(errors))
    count_spoilt = int((known & wrong_on_purpose).sum())
    if count_spoilt:
        plain_count = int((known & ~wrong_on_purpose).sum())
        share = SPOILT_SHARE / (1 - SPOILT_SHARE) * plain_count / count_spoilt
        weight[wrong_on_purpose] = min(1.0, share)
    logs = np.log(np.clip(errors, 0.2, largest_error))
    astray = errors >= ASTRAY_FROM
    lost = known & astray
    astray_error = float(np.average(np.exp(logs[lost]), weights=weight[lost])) if lost.any() else 40
    fitted: dict[str, Additive | None] = {}
    for name, scored, rows in (
        ("", [SCORE], known & np.isfinite(table[:, -1])),
        ("_unscored", [], known),
    ):
        if good[rows].sum() < FEWEST // 2 or (~good[rows]).sum() < FEWEST // 2:
            continue
        names = _Names([*FEATURES, *scored], [*FEATURES, *told, *scored])
        usual = ~wrong_on_purpose[rows]
        known_faces = _Faces(table[rows], logs[rows], weight[rows], usual, astray[rows])
        crosswise = _told_by_others(known_faces, names, astray_error)
        odds = fit_logistic(crosswise[:, None], good[rows], weight[rows], [EXPECTED], ridge=0.1)
        near, wrong = _fit_error(known_faces, names)
        fitted |= {f"error{name}": near, f"astray{name}": wrong, f"odds{name}": _falling(odds)}
    if "error" not in fitted:  # boxes were given: there was no detector to learn from
        parts = ("error", "astray", "odds")
        fitted |= {part: fitted[f"{part}_unscored"] for part in parts}
    return ConfidenceTable(
        success=success,
        shape=shape,
        largest_error=largest_error,
        astray_from=ASTRAY_FROM,
        astray_error=round(astray_error, 3),
        faces=int(known.sum()),
        spoilt=count_spoilt,
        **fitted,  # type: ignore[arg-type]
    )


class _Names(NamedTuple):
    """The features that each part of the expected error is learnt from."""

    near: list[str]
    astray: list[str]
    """with what the network itself says; it tells a face from none, not a good one from a better"""


class _Faces(NamedTuple):
    """What the error of n faces is learnt from."""

    table: Floats
    """(n, 13) the `FEATURE_COLUMNS`"""
    logs: Floats
    """(n,) of the errors"""
    weight: Floats
    usual: Bools
    """(n,) those that were not spoilt"""
    astray: Bools

    def take(self, chosen: Bools) -> _Faces:
        return _Faces(
            self.table[chosen],
            self.logs[chosen],
            self.weight[chosen],
            self.usual[chosen],
            self.astray[chosen],
        )

    def columns(self, names: Sequence[str]) -> Floats:
        """(n, d) the features of these names"""
        return self.table[:, [FEATURE_COLUMNS.index(name) for name in names]]


def _fit_error(faces: _Faces, names: _Names) -> tuple[Additive, Additive | None]:
    """Lines for the logarithm of the mean error of faces that did not go astray, and for the
    log-odds that they did; of all faces, and None, where too few of either are known."""
    enough = min(faces.astray.sum(), (~faces.astray).sum()) >= FEWEST // 4
    near = faces.take(~faces.astray) if enough else faces
    lines = fit_mean(near.columns(names.near), near.logs, near.weight, names.near, near.usual)
    if not enough:
        return lines, None
    features = faces.columns(names.astray)
    return lines, fit_logistic(features, faces.astray, faces.weight, names.astray, ASTRAY_RIDGE)


def _told_by_others(faces: _Faces, names: _Names, astray_error: float) -> Floats:
    """(n,) the logarithm of each face's expected error by a fit on other faces: by its own it
    would look better than that of a new face. Neighbours, which may be one photograph, go
    together."""
    fold = np.arange(len(faces.logs)) // NEIGHBOURS % FOLDS
    told = np.empty(len(faces.logs))
    for k in range(FOLDS):
        asked = faces.table[fold == k]
        lines, wrong = _fit_error(faces.take(fold != k), names)
        near = lines.of_columns(asked)
        told[fold == k] = (
            near
            if wrong is None
            else expected_log(near, wrong.of_columns(asked), ASTRAY_FROM, astray_error)
        )
    return told


def _falling(odds: Additive) -> Additive:
    """The same line, falling a little wherever it would rise: beyond the faces that it was fitted
    on."""
    (slopes,) = odds.slopes
    level = np.minimum(np.cumsum(slopes), FALL)
    changed = np.round(np.diff(level, prepend=0.0), 5)
    return odds.model_copy(update={"slopes": [changed.tolist()]})


def fit_logistic(
    features: Floats, outcome: Bools, weight: Floats, names: Sequence[str], ridge: float = RIDGE
) -> Additive:
    """Weighted logistic regression on the broken lines, by Newton's method."""
    centre, spread = _standard(features)
    terms = basis(features, centre, spread, KNOTS)
    penalty = _penalty(len(names), ridge, ridge, len(KNOTS))
    beta = np.zeros(terms.shape[1])
    share = float(np.average(outcome, weights=weight))
    beta[-1] = np.log(share / (1 - share))

    def cost(at: Floats) -> float:
        odds = terms @ at
        return float(weight @ (np.logaddexp(0, odds) - outcome * odds) + penalty @ at**2 / 2)

    def slopes(at: Floats) -> tuple[Floats, Floats]:
        p = 1 / (1 + np.exp(-np.clip(terms @ at, -30, 30)))
        return weight * (p - outcome), weight * p * (1 - p)

    beta = _newton(terms, penalty, beta, cost, slopes)
    return _additive(beta, centre, spread, KNOTS, names)


def fit_mean(
    features: Floats,
    logs: Floats,
    weight: Floats,
    names: Sequence[str],
    usual: Bools | None = None,
    ridge: float = NEAR_RIDGE,
    bend: float = BEND,
) -> Additive:
    """Lines for the logarithm of the mean error: a Gamma regression, by Newton steps.

    Its mean is right, not its median: errors are skew, and users add them up. The faces `usual`
    (n,), all of them by default, say what is an ordinary value of each feature: there the lines
    are straight. Without evidence the error is proportional to sigma, the feature `SPREAD`.
    """
    centre, spread = _standard(features if usual is None else features[usual])
    terms = basis(features, centre, spread, UNUSUAL, LIMIT)
    penalty = _penalty(len(names), ridge, bend, len(UNUSUAL))
    prior = np.zeros(terms.shape[1])
    if SPREAD in names:
        place = list(names).index(SPREAD)
        prior[place * (1 + len(UNUSUAL))] = spread[place]  # a slope of 1 before standardising
    # start from least squares of the logarithms, then solve for E[error] = exp(terms beta)
    square = (terms * weight[:, None]).T @ terms + np.diag(penalty + 1e-9)
    towards = terms.T @ (weight * logs) + penalty * prior
    beta: Floats = np.asarray(np.linalg.solve(square, towards), np.float64)
    truth = np.exp(logs)

    def cost(at: Floats) -> float:
        line = np.clip(terms @ at, -5, 8)
        return float(weight @ (line + truth * np.exp(-line)) + penalty @ (at - prior) ** 2 / 2)

    def slopes(at: Floats) -> tuple[Floats, Floats]:
        ratio = truth * np.exp(-np.clip(terms @ at, -5, 8))
        return weight * (1 - ratio), weight * ratio

    beta = _newton(terms, penalty, beta, cost, slopes, prior)
    return _additive(beta, centre, spread, UNUSUAL, names, LIMIT)


def _newton(
    terms: Floats,
    penalty: Floats,
    start: Floats,
    cost: Callable[[Floats], float],
    slopes: Callable[[Floats], tuple[Floats, Floats]],
    prior: Floats | float = 0.0,
) -> Floats:
    """The minimum of a convex cost of `terms` (n, d) @ beta with a ridge, by damped Newton steps.

    The ridge, `penalty` (d,), pulls beta towards `prior`. `slopes` gives the first and second
    derivative of each face's part in its own line, (n,).
    """
    beta, now = start, cost(start)
    for _ in range(50):
        first, second = slopes(beta)
        gradient = terms.T @ first + penalty * (beta - prior)
        curve = (terms * second[:, None]).T @ terms + np.diag(penalty + 1e-9)
        step = np.asarray(np.linalg.solve(curve, gradient), np.float64)
        length = 1.0
        while length > 1e-4 and cost(beta - length * step) > now:
            length /= 2
        beta = beta - length * step
        before, now = now, cost(beta)
        if before - now < 1e-9 * abs(now):
            break
    return beta


def _standard(features: Floats) -> tuple[Floats, Floats]:
    """Robust centre and spread of each feature, of the middle of its values."""
    low, middle, high = np.quantile(features, (0.25, 0.5, 0.75), axis=0)
    return middle, np.maximum((high - low) / 1.349, 1e-3)


def _penalty(features: int, slope: float, bend: float, knots: int) -> Floats:
    """On the slope and the bends of each line in turn; none on the constant."""
    return np.array([slope, *[bend] * knots] * features + [0.0])


def _additive(
    beta: Floats,
    centre: Floats,
    spread: Floats,
    knots: Sequence[float],
    names: Sequence[str],
    limit: float = 4.0,
) -> Additive:
    return Additive(
        features=list(names),
        centre=np.round(centre, 5).tolist(),
        spread=np.round(spread, 5).tolist(),
        knots=list(knots),
        slopes=np.round(beta[:-1].reshape(len(names), -1), 5).tolist(),
        constant=round(float(beta[-1]), 5),
        limit=limit,
    )
