"""Fits the failure model: confidence and expected error from the features of a prediction.

Two generalised additive models estimate the log-odds of a complete failure (logistic regression)
and the logarithm of the mean error otherwise (Gamma regression with a log link). The confidence is
a decreasing piecewise-linear function, in log-odds, of the logarithm of the expected error. The
ridge penalties are chosen by leaving out one kind of corruption at a time, so that the model
generalises to kinds of failure that it has not been fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.calibration.measure import NOT_CORRUPTED, MeasuredFaces
from luvli.errors import InputError, require
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
    best_rotation,
    feature_table,
    normalised,
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
MAX_ERROR = 50.0
MAX_SLOPE = -0.05
"""the log-odds of success fall at least so much for every standard deviation"""
CORRUPTED_SHARE = 0.2
"""share of corrupted images in the fit, whatever their number"""
LOG_ERROR = "log expected error"
FOLDS = 5
MIN_FACES = 100
"""plain faces, successes and failures that a fit takes"""


class Ridges(NamedTuple):
    """Penalties of the coefficients, in faces."""

    failure: float = 2.0
    error: float = 100.0


@dataclass(frozen=True)
class _Table:
    """What the models are fitted on: n faces with known errors."""

    features: Floats
    """(n, 13) feature table"""
    error: Floats
    """(n,) percent of the box, at most `MAX_ERROR`"""
    weight: Floats
    corruption: NDArray[np.str_]
    fold: NDArray[np.intp]

    def __getitem__(self, rows: Bools) -> _Table:
        return _Table(
            self.features[rows],
            self.error[rows],
            self.weight[rows],
            self.corruption[rows],
            self.fold[rows],
        )

    @property
    def failed(self) -> Bools:
        return np.asarray(self.error >= FAILURE_FROM)

    @property
    def plain(self) -> Bools:
        return np.asarray(self.corruption == NOT_CORRUPTED)

    def columns(self, names: Sequence[str]) -> Floats:
        return self.features[:, [FEATURE_COLUMNS.index(name) for name in names]]


def fit_failure_model(
    measured: MeasuredFaces, success: float = 5.0, ridges: Ridges | None = None
) -> FailureModel:
    """Fit on predicted faces with known errors; without `ridges`, they are chosen."""
    faces, error = measured.faces, measured.error
    known = ~np.isnan(error) & np.isfinite(faces.points).all(axis=(1, 2))
    good = error < success
    _check_counts(known, good, measured.plain)
    shape = fit_shape(faces.points[known & measured.plain & good])
    table = _table(measured, known, shape)
    failed = table.failed
    failure_error = (
        float(np.average(table.error[failed], weights=table.weight[failed])) if failed.any() else 40
    )
    has_failure = bool(np.isfinite(table.columns([FAILURE])).all())
    models: dict[str, ExpectedErrorModel] = {}
    for name, rows in (
        ("detected", np.isfinite(table.columns([SCORE])[:, 0])),
        ("given", np.ones(len(table.error), dtype=bool)),
    ):
        succeeded = table.error[rows] < success
        if min(succeeded.sum(), (~succeeded).sum()) >= MIN_FACES // 2:
            scored = [SCORE] if name == "detected" else []
            inputs = _Inputs([*FEATURES, *scored], [FAILURE] if has_failure else [], success)
            ridges = ridges or choose_ridges(table[rows], inputs)
            models[name] = _fit_error_model(table[rows], inputs, ridges, failure_error)
    return FailureModel(
        success=success,
        failure_from=FAILURE_FROM,
        failure_error=round(failure_error, 3),
        max_error=MAX_ERROR,
        shape=shape,
        detected=models.get("detected", models["given"]),  # where no box was detected
        given=models["given"],
        faces=len(table.error),
        corrupted=int((~table.plain).sum()),
    )


def _check_counts(known: Bools, good: Bools, plain: Bools) -> None:
    for name, rows in (
        ("faces with labels", known & plain),
        ("failed alignments", known & ~good),
        ("successful alignments", known & good),
    ):
        if rows.sum() < MIN_FACES:
            raise InputError(
                f"a failure model takes at least {MIN_FACES} {name}, got {int(rows.sum())}: label "
                "more faces."
            )


def _table(measured: MeasuredFaces, known: Bools, shape: ShapeModel) -> _Table:
    """Features, errors and weights of the known faces; corrupted ones count `CORRUPTED_SHARE`."""
    features = feature_table(measured.faces, shape)
    known = known & np.isfinite(features[:, : len(FEATURES)]).all(axis=1)
    plain = measured.plain[known]
    weight = np.ones(int(known.sum()))
    if not plain.all():
        share = CORRUPTED_SHARE / (1 - CORRUPTED_SHARE) * plain.sum() / (~plain).sum()
        weight[~plain] = min(1.0, share)
    _, photograph = np.unique(measured.photograph[known], return_inverse=True)
    return _Table(
        features[known],
        np.clip(measured.error[known], 0.2, MAX_ERROR),
        weight,
        measured.corruption[known],
        photograph % FOLDS,
    )


def fit_shape(points: ArrayLike, modes: int = MODES) -> ShapeModel:
    """The shape model of points (n, k, 2) of successful alignments (Procrustes, then PCA)."""
    shapes = normalised(points)
    first = normalised(shapes.mean(axis=0))
    mean = first
    for _ in range(4):
        upright = _rotate(shapes, -best_rotation(shapes, mean))
        mean = normalised(upright.mean(axis=0))
        mean = _rotate(mean[None], -best_rotation(mean, first)[None])[0]
    difference = (upright - mean).reshape(len(shapes), -1)
    _, spread, components = np.linalg.svd(difference, full_matrices=False)
    count = min(modes, len(spread), len(shapes) - 1)
    deviation = np.maximum(spread[:count] / np.sqrt(len(shapes)), 1e-4)
    return ShapeModel(
        mean=np.round(mean, 4).tolist(),
        modes=np.round(components[:count].reshape(count, *mean.shape), 4).tolist(),
        deviations=np.round(deviation, 5).tolist(),
    )


def _rotate(shapes: Floats, angles: Floats) -> Floats:
    """Shapes (n, k, 2) rotated by angles (n,)."""
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    x, y = shapes[..., 0], shapes[..., 1]
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)


class _Inputs(NamedTuple):
    """Names of the features: the failure score separates faces from non-faces but does not rank
    good alignments, so that only the failure log-odds use it."""

    error: list[str]
    failure_score: list[str]
    success: float

    @property
    def failure(self) -> list[str]:
        return [*self.error, *self.failure_score]


def _fit_error_model(
    table: _Table, inputs: _Inputs, ridges: Ridges, failure_error: float
) -> ExpectedErrorModel:
    """The models of error and failure from all faces; that of success from their cross-fitted
    values: a fit looks better on its own faces than on new ones. There every prediction counts
    once, corrupted or not: fewer failed alignments get a high confidence."""
    crossed = np.empty(len(table.error))
    for fold in range(FOLDS):
        test = table.fold == fold
        models = _fit_pair(table[~test], inputs, ridges)
        crossed[test] = _log_error(table[test].features, *models, failure_error)
    succeeded, once = table.error < inputs.success, np.ones(len(crossed))
    success = fit_logistic(crossed[:, None], succeeded, once, [LOG_ERROR], SUCCESS_RIDGE)
    error, failure = _fit_pair(table, inputs, ridges)
    return ExpectedErrorModel(error=error, failure=failure, success=_decreasing(success))


def _fit_pair(
    table: _Table, inputs: _Inputs, ridges: Ridges
) -> tuple[AdditiveModel, AdditiveModel | None]:
    """Models of the log error of alignments that did not fail, and of the log-odds that they did;
    of all faces, and None, where too few of either are known."""
    failed = table.failed
    enough = min(failed.sum(), (~failed).sum()) >= MIN_FACES // 4
    near = table[~failed] if enough else table
    error = fit_mean(
        near.columns(inputs.error), near.error, near.weight, inputs.error, ridges.error, near.plain
    )
    if not enough:
        return error, None
    features = table.columns(inputs.failure)
    return error, fit_logistic(features, failed, table.weight, inputs.failure, ridges.failure)


def _log_error(
    features: Floats, error: AdditiveModel, failure: AdditiveModel | None, failure_error: float
) -> Floats:
    near = error.of_table(features)
    if failure is None:
        return near
    return expected_log_error(near, failure.of_table(features), FAILURE_FROM, failure_error)


def choose_ridges(table: _Table, inputs: _Inputs) -> Ridges:
    """The penalties that separate failures of a kind of corruption that was left out from plain
    successes best: the highest mean AUROC over the kinds."""
    kinds = [
        kind
        for kind in np.unique(table.corruption[~table.plain]).tolist()
        if (table.failed & (table.corruption == kind)).sum() >= MIN_FACES // 4
    ]
    if len(kinds) < 2:
        return Ridges()

    def score(ridges: Ridges) -> float:
        return float(np.mean([_left_out_auroc(table, kind, inputs, ridges) for kind in kinds]))

    best = max((Ridges(failure=ridge) for ridge in RIDGES), key=score)
    return max((best._replace(error=ridge) for ridge in ERROR_RIDGES), key=score)


def _left_out_auroc(table: _Table, kind: str, inputs: _Inputs, ridges: Ridges) -> float:
    """AUROC of failures of one kind against plain successes, of another fold, by a fit without
    either."""
    held = (table.corruption == kind) | (table.plain & (table.fold == 0))
    test = table[held & ((table.error >= inputs.success) == (table.corruption == kind))]
    error, failure = _fit_pair(table[~held], inputs, ridges)
    logs = _log_error(test.features, error, failure, 40.0)
    return float(auroc(logs, test.corruption == kind))


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
    coefficients, intercept = regression.coef_[0], float(regression.intercept_[0])
    return _additive(coefficients, intercept, centre, spread, KNOTS, LIMIT, names)


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
    if SPREAD in names:
        place = list(names).index(SPREAD)
        prior[place * (1 + len(ERROR_KNOTS))] = spread[place]  # a slope of 1 in the raw feature
    ratio = error / np.exp(terms @ prior)
    regression = linear.GammaRegressor(
        alpha=ridge / weight.sum(), solver="newton-cholesky", max_iter=200, tol=1e-6
    )
    regression.fit(terms, ratio, sample_weight=weight)
    coefficients = regression.coef_ + prior
    intercept = float(regression.intercept_)
    return _additive(coefficients, intercept, centre, spread, ERROR_KNOTS, ERROR_LIMIT, names)


def _standardise(features: Floats) -> tuple[Floats, Floats]:
    """Robust centre and spread of each feature: median and interquartile range."""
    low, middle, high = np.quantile(features, (0.25, 0.5, 0.75), axis=0)
    return middle, np.maximum((high - low) / 1.349, 1e-3)


def _additive(
    coefficients: Floats,
    intercept: float,
    centre: Floats,
    spread: Floats,
    knots: Floats,
    limit: float,
    names: Sequence[str],
) -> AdditiveModel:
    return AdditiveModel(
        features=list(names),
        centre=np.round(centre, 5).tolist(),
        spread=np.round(spread, 5).tolist(),
        knots=knots.tolist(),
        coefficients=np.round(coefficients.reshape(len(names), -1), 5).tolist(),
        intercept=round(intercept, 5),
        limit=limit,
    )
