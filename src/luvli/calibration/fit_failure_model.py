"""Fits the failure model: confidence and expected error from the features of a prediction.

Two generalised additive models estimate the log-odds of a complete failure (logistic regression)
and the logarithm of the mean error otherwise (Gamma regression with a log link). The confidence is
a decreasing piecewise-linear function, in log-odds, of the logarithm of the expected error. The
ridge penalties are chosen by leaving out one kind of corruption at a time, so that the model
generalises to kinds of failure that it has not been fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.calibration.measure import NOT_CORRUPTED, face_errors, is_plain
from luvli.errors import InputError, require
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.visibility import auroc
from luvli.trust.failure_model import (
    AdditiveModel,
    ExpectedErrorModel,
    FailureModel,
    expected_log_error,
    hinge_basis,
)
from luvli.trust.features import (
    FAILURE,
    FEATURE_COLUMNS,
    FEATURES,
    SCORE,
    ShapeModel,
    as_complex,
    feature_table,
    normalised,
    turned_to,
)

MODES = 15
"""modes of the shape model"""
KNOTS = np.array([-1.0, 0.0, 1.0, 2.0])
"""of the log-odds, in standard deviations of all faces"""
ERROR_KNOTS = np.array([-3.0, 2.0, 4.0, 7.0])
"""of the expected error, in standard deviations of faces that are not corrupted: linear among
ordinary faces, where hinges would fit the noise"""
LIMIT, ERROR_LIMIT = 4.0, 12.0
"""standard deviations at which features are clipped"""
RIDGES = (0.5, 2.0, 8.0, 32.0, 128.0)
"""penalties of the failure log-odds to choose from, in faces"""
ERROR_RIDGES = (30.0, 100.0, 300.0)
"""penalties of the expected error to choose from, in faces"""
SUCCESS_RIDGE = 0.1
SPREAD = FEATURES[0]
"""the logarithm of the mean sigma: the expected error is proportional to it, unless the faces show
otherwise"""
FAILURE_FROM = 15.0
"""error in percent of the box of a complete failure"""
MIN_ERROR, MAX_ERROR = 0.2, 50.0
MAX_SLOPE = -0.05
"""the log-odds of success fall at least so much for every standard deviation"""
CORRUPTED_SHARE = 0.5
"""share of corrupted images in the fit, whatever their number"""
FOLDS = 5
MIN_FACES = 100
"""plain faces, successes and failures that a fit takes"""


class Ridges(NamedTuple):
    """Penalties of the coefficients, in faces."""

    failure: float = 2.0
    error: float = 100.0


class _Table(NamedTuple):
    """What the models are fitted on: n faces with known errors."""

    features: Floats
    """(n, 13) feature table"""
    error: Floats
    """(n,) percent of the box, at most `MAX_ERROR`"""
    weight: Floats
    corruption: NDArray[np.str_]
    fold: NDArray[np.intp]

    def of(self, rows: Bools) -> _Table:
        """Some of the faces."""
        return _Table._make(array[rows] for array in self)

    def columns(self, names: Sequence[str]) -> Floats:
        """(n, d) features by name."""
        return self.features[:, [FEATURE_COLUMNS.index(name) for name in names]]


def fit_failure_model(
    faces: LabelledFaces, success: float = 5.0, ridges: Ridges | None = None
) -> FailureModel:
    """Fit on predicted faces with known errors; without `ridges`, they are chosen."""
    error, plain = face_errors(faces), is_plain(faces)
    good = error < success
    for name, count in (
        ("faces with labels", plain.sum()),
        ("failed alignments", (~good).sum()),
        ("successful alignments", good.sum()),
    ):
        if count < MIN_FACES:
            raise InputError(
                f"a failure model takes at least {MIN_FACES} {name}, got {count}: label more faces."
            )
    shape = fit_shape(faces.points[plain & good])
    table = _table(faces, shape)
    failed = table.error >= FAILURE_FROM
    mean = np.average(table.error[failed], weights=table.weight[failed]) if failed.any() else 40.0
    failure_error = round(float(mean), 3)
    ridges = ridges or choose_ridges(table, success)
    given = _fit_error_model(table, list(FEATURES), ridges, failure_error, success)
    scored = table.of(np.isfinite(table.columns([SCORE])[:, 0]))
    detected = given  # where too few boxes were detected
    if min((scored.error < success).sum(), (scored.error >= success).sum()) >= MIN_FACES // 2:
        names = [*FEATURES, SCORE]
        detected = _fit_error_model(scored, names, ridges, failure_error, success)
    return FailureModel(
        success=success,
        failure_from=FAILURE_FROM,
        failure_error=failure_error,
        max_error=MAX_ERROR,
        shape=shape,
        detected=detected,
        given=given,
        faces=len(table.error),
        corrupted=int((table.corruption != NOT_CORRUPTED).sum()),
    )


def _table(faces: LabelledFaces, shape: ShapeModel) -> _Table:
    """Features, errors and weights of the faces; corrupted ones count `CORRUPTED_SHARE`."""
    features = feature_table(faces.faces, shape)
    known = np.isfinite(features[:, : len(FEATURES)]).all(axis=1)
    plain = is_plain(faces)[known]
    share = CORRUPTED_SHARE / (1 - CORRUPTED_SHARE) * plain.sum() / max((~plain).sum(), 1)
    _, photograph = np.unique(faces.groups["photograph"], return_inverse=True)
    return _Table(
        features[known],
        np.clip(face_errors(faces)[known], MIN_ERROR, MAX_ERROR),
        np.where(plain, 1.0, min(1.0, share)),
        faces.groups["corruption"][known],
        photograph[known] % FOLDS,
    )


def fit_shape(points: ArrayLike) -> ShapeModel:
    """The shape model of points (n, k, 2) of successful alignments (Procrustes, then PCA)."""
    shapes = normalised(as_complex(points))
    first = mean = normalised(shapes.mean(axis=0))
    for _ in range(4):
        upright, _ = turned_to(shapes, mean)
        mean, _ = turned_to(normalised(upright.mean(axis=0)), first)
    difference = (upright - mean).view(np.float64)
    _, spread, components = np.linalg.svd(difference, full_matrices=False)
    count = min(MODES, len(spread), len(shapes) - 1)
    deviation = np.maximum(spread[:count] / np.sqrt(len(shapes)), 1e-4)
    return ShapeModel(
        mean=np.round(mean.view(np.float64).reshape(-1, 2), 4).tolist(),
        modes=np.round(components[:count].reshape(count, -1, 2), 4).tolist(),
        deviations=np.round(deviation, 5).tolist(),
    )


def _fit_error_model(
    table: _Table, names: list[str], ridges: Ridges, failure_error: float, success: float
) -> ExpectedErrorModel:
    """The models of error and failure from all faces; that of success from their cross-fitted
    values: a fit looks better on its own faces than on new ones. There every prediction counts
    once, corrupted or not: fewer failed alignments get a high confidence."""
    crossed = np.empty(len(table.error))
    for fold in range(FOLDS):
        test = table.fold == fold
        models = _fit_pair(table.of(~test), names, ridges)
        crossed[test] = _log_error(table.features[test], *models, failure_error)
    succeeded, once = table.error < success, np.ones(len(crossed))
    model = fit_logistic(crossed[:, None], succeeded, once, ["log expected error"], SUCCESS_RIDGE)
    error, failure = _fit_pair(table, names, ridges)
    return ExpectedErrorModel(error=error, failure=failure, success=_decreasing(model))


def _fit_pair(
    table: _Table, names: list[str], ridges: Ridges
) -> tuple[AdditiveModel, AdditiveModel | None]:
    """Models of the log error of alignments that did not fail, and of the log-odds that they did;
    of all faces, and None, where too few of either are known.

    The network's failure score separates faces from non-faces but does not rank good alignments, so
    that only the log-odds use it.
    """
    failed = table.error >= FAILURE_FROM
    enough = min(failed.sum(), (~failed).sum()) >= MIN_FACES // 4
    near = table.of(~failed) if enough else table
    plain = near.corruption == NOT_CORRUPTED
    error = fit_mean(near.columns(names), near.error, near.weight, names, ridges.error, plain)
    if not enough:
        return error, None
    if np.isfinite(table.columns([FAILURE])).all():
        names = [*names, FAILURE]
    return error, fit_logistic(table.columns(names), failed, table.weight, names, ridges.failure)


def _log_error(
    features: Floats, error: AdditiveModel, failure: AdditiveModel | None, failure_error: float
) -> Floats:
    near = error.of_table(features)
    if failure is None:
        return near
    return expected_log_error(near, failure.of_table(features), FAILURE_FROM, failure_error)


def choose_ridges(table: _Table, success: float) -> Ridges:
    """The penalties that separate failures of a kind of corruption that was left out from plain
    successes best: the highest mean AUROC over the kinds."""
    plain, succeeded = table.corruption == NOT_CORRUPTED, table.error < success
    failed = ~plain & (table.error >= FAILURE_FROM)
    corrupted, failures = np.unique(table.corruption[failed], return_counts=True)
    kinds = corrupted[failures >= MIN_FACES // 4].tolist()
    if len(kinds) < 2:
        return Ridges()

    def left_out_auroc(kind: str, ridges: Ridges) -> float:
        """Of failures of one kind against plain successes of a fold, by a fit without either."""
        of_kind = table.corruption == kind
        held = of_kind | (plain & (table.fold == 0))
        compared = held & (succeeded != of_kind)
        models = _fit_pair(table.of(~held), list(FEATURES), ridges)
        return auroc(_log_error(table.features[compared], *models, 40.0), of_kind[compared])

    def score(ridges: Ridges) -> float:
        return float(np.mean([left_out_auroc(kind, ridges) for kind in kinds]))

    best = max((Ridges(failure=ridge) for ridge in RIDGES), key=score)
    return max((best._replace(error=ridge) for ridge in ERROR_RIDGES), key=score)


def _decreasing(model: AdditiveModel) -> AdditiveModel:
    """The same function, decreasing wherever it would increase: beyond the faces of the fit."""
    slopes = np.minimum(np.cumsum(model.coefficients[0]), MAX_SLOPE)
    coefficients = np.round(np.diff(slopes, prepend=0.0), 5).tolist()
    return model.model_copy(update={"coefficients": [coefficients]})


def fit_logistic(
    features: Floats, outcome: Bools, weight: Floats, names: Sequence[str], ridge: float
) -> AdditiveModel:
    """Weighted ridge logistic regression on the hinge basis."""
    linear = require("sklearn.linear_model", "calibrate")
    centre, spread = _standardise(features)
    terms = hinge_basis(features, centre, spread, KNOTS, LIMIT)
    regression = linear.LogisticRegression(
        C=1 / ridge, solver="newton-cholesky", max_iter=200, tol=1e-6
    )
    regression.fit(terms, outcome, sample_weight=weight)
    return _additive(
        names, centre, spread, KNOTS, regression.coef_[0], regression.intercept_[0], LIMIT
    )


def fit_mean(
    features: Floats,
    error: Floats,
    weight: Floats,
    names: Sequence[str],
    ridge: float,
    plain: Bools | None = None,
) -> AdditiveModel:
    """The logarithm of the mean error: ridge Gamma regression on the hinge basis.

    The mean, not the median: errors are skewed, and users add them up. The ridge shrinks towards
    an error proportional to sigma (`SPREAD`): the regression is of error / sigma. The faces `plain`
    (n,), all by default, standardise the features.
    """
    linear = require("sklearn.linear_model", "calibrate")
    usual = features if plain is None or plain.sum() < MIN_FACES // 4 else features[plain]
    centre, spread = _standardise(usual)
    terms = hinge_basis(features, centre, spread, ERROR_KNOTS, ERROR_LIMIT)
    prior = np.zeros(terms.shape[1])
    place = list(names).index(SPREAD)
    prior[place * (1 + len(ERROR_KNOTS))] = spread[place]  # a slope of 1 in the raw feature
    regression = linear.GammaRegressor(
        alpha=ridge / weight.sum(), solver="newton-cholesky", max_iter=200, tol=1e-6
    )
    regression.fit(terms, error / np.exp(terms @ prior), sample_weight=weight)
    return _additive(
        names, centre, spread, ERROR_KNOTS, regression.coef_ + prior, regression.intercept_,
        ERROR_LIMIT,
    )  # fmt: skip


def _standardise(features: Floats) -> tuple[Floats, Floats]:
    """Robust centre and spread of each feature: median and interquartile range."""
    low, middle, high = np.quantile(features, (0.25, 0.5, 0.75), axis=0)
    return middle, np.maximum((high - low) / 1.349, 1e-3)


def _additive(
    names: Sequence[str], centre: Floats, spread: Floats, knots: Floats, coefficients: Floats,
    intercept: float, limit: float,
) -> AdditiveModel:  # fmt: skip
    return AdditiveModel(
        features=list(names),
        centre=np.round(centre, 5).tolist(),
        spread=np.round(spread, 5).tolist(),
        knots=knots.tolist(),
        coefficients=np.round(coefficients.reshape(len(names), -1), 5).tolist(),
        intercept=round(float(intercept), 5),
        limit=limit,
    )
