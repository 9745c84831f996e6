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
from luvli.evaluation.selective import auroc
from luvli.trust.failure_model import (
    AdditiveModel,
    ExpectedErrorModel,
    FailureModel,
    expected_log_error,
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
SOLVER = {"solver": "newton-cholesky", "max_iter": 200, "tol": 1e-6}
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
MIN_FAILURES = 25
"""complete failures that a fit takes, and of a kind that is left out to choose the ridges"""


class Ridges(NamedTuple):
    """Penalties of the coefficients, in faces."""

    failure: float = 2.0
    error: float = 100.0


class FitTable(NamedTuple):
    """What the models are fitted on: n faces with known errors."""

    features: Floats
    """(n, 13) feature table"""
    error: Floats
    """(n,) percent of the box, at most `MAX_ERROR`"""
    weight: Floats
    corruption: NDArray[np.str_]
    fold: NDArray[np.intp]

    def of(self, rows: Bools) -> FitTable:
        """Some of the faces."""
        return FitTable._make(array[rows] for array in self)

    def columns(self, names: Sequence[str]) -> Floats:
        """(n, d) features by name."""
        return self.features[:, [FEATURE_COLUMNS.index(name) for name in names]]

    @property
    def failed(self) -> Bools:
        """(n,) complete failures"""
        return self.error >= FAILURE_FROM

    @property
    def plain(self) -> Bools:
        """(n,) faces that are not corrupted"""
        return np.asarray(self.corruption == NOT_CORRUPTED)


def fit_failure_model(
    faces: LabelledFaces, success: float = 5.0, ridges: Ridges | None = None
) -> FailureModel:
    """Fit on predicted faces with known errors; without `ridges`, they are chosen."""
    error, plain = face_errors(faces), is_plain(faces)
    for name, found, needed in (
        ("faces with labels", plain, MIN_FACES),
        ("failed alignments", error >= success, MIN_FACES),
        ("successful alignments", error < success, MIN_FACES),
        ("complete failures", error >= FAILURE_FROM, MIN_FAILURES),
    ):
        if found.sum() < needed:
            raise InputError(
                f"a failure model takes at least {needed} {name}, got {found.sum()}: label more "
                "faces."
            )
    shape = fit_shape(faces.points[plain & (error < success)])
    table = fit_table(faces, shape)
    failed = table.of(table.failed)
    failure_error = round(float(np.average(failed.error, weights=failed.weight)), 3)
    ridges = ridges or choose_ridges(table, success)
    given = _fit_expected_error(table, FEATURES, ridges, failure_error, success)
    scored = table.of(np.isfinite(table.columns([SCORE])[:, 0]))
    detected = given  # where too few boxes were detected
    if min(scored.failed.sum(), (scored.error < success).sum()) >= MIN_FAILURES:
        names = (*FEATURES, SCORE)
        detected = _fit_expected_error(scored, names, ridges, failure_error, success)
    return FailureModel(
        success=success,
        failure_from=FAILURE_FROM,
        failure_error=failure_error,
        max_error=MAX_ERROR,
        shape=shape,
        detected=detected,
        given=given,
        faces=len(table.error),
        corrupted=int((~table.plain).sum()),
    )


def fit_table(faces: LabelledFaces, shape: ShapeModel) -> FitTable:
    """Features, errors and weights of the faces; corrupted ones count `CORRUPTED_SHARE`."""
    features = feature_table(faces.faces, shape)
    known = np.isfinite(features[:, : len(FEATURES)]).all(axis=1)
    plain = is_plain(faces)[known]
    share = CORRUPTED_SHARE / (1 - CORRUPTED_SHARE) * plain.sum() / max((~plain).sum(), 1)
    _, photograph = np.unique(faces.groups["photograph"], return_inverse=True)
    return FitTable(
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


def _fit_expected_error(
    table: FitTable, names: Sequence[str], ridges: Ridges, failure_error: float, success: float
) -> ExpectedErrorModel:
    """The models of error and failure from all faces; that of success from their cross-fitted
    values: a fit looks better on its own faces than on new ones. There every prediction counts
    once, corrupted or not: fewer failed alignments get a high confidence."""

    def fit(part: FitTable) -> tuple[AdditiveModel, AdditiveModel]:
        return fit_error(part, names, ridges.error), fit_failure(part, names, ridges.failure)

    crossed = np.empty(len(table.error))
    for fold in range(FOLDS):
        test = table.fold == fold
        near, odds = (model.of_table(table.features[test]) for model in fit(table.of(~test)))
        crossed[test] = expected_log_error(near, odds, FAILURE_FROM, failure_error)
    success_model = fit_logistic(
        crossed[:, None], table.error < success, np.ones(len(crossed)), ["log expected error"],
        SUCCESS_RIDGE,
    )  # fmt: skip
    error, failure = fit(table)
    return ExpectedErrorModel(error=error, failure=failure, success=_decreasing(success_model))


def choose_ridges(table: FitTable, success: float) -> Ridges:
    """The penalties that separate complete failures of a kind of corruption that was left out from
    plain successes best: the highest mean AUROC over the kinds."""
    kinds, failures = np.unique(table.corruption[table.failed & ~table.plain], return_counts=True)
    areas = []
    for kind in kinds[failures >= MIN_FAILURES]:
        of_kind = table.corruption == kind
        held = of_kind | (table.plain & (table.fold == 0))
        compared = table.of(held & np.where(of_kind, table.failed, table.error < success))
        fit = table.of(~held)
        if fit.failed.sum() < MIN_FAILURES:
            continue
        near = [fit_error(fit, FEATURES, r).of_table(compared.features) for r in ERROR_RIDGES]
        failure = [fit_failure(fit, FEATURES, r).of_table(compared.features) for r in RIDGES]
        expected = [[expected_log_error(n, f, FAILURE_FROM, 40.0) for n in near] for f in failure]
        areas.append([[auroc(each, compared.failed) for each in row] for row in expected])
    if len(areas) < 2:
        return Ridges()
    mean = np.mean(areas, axis=0)
    best, best_error = np.unravel_index(mean.argmax(), mean.shape)
    return Ridges(RIDGES[best], ERROR_RIDGES[best_error])


def _decreasing(model: AdditiveModel) -> AdditiveModel:
    """The same function, decreasing wherever it would increase: beyond the faces of the fit."""
    slopes = np.minimum(np.cumsum(model.coefficients[0]), MAX_SLOPE)
    coefficients = np.round(np.diff(slopes, prepend=0.0), 5).tolist()
    return model.model_copy(update={"coefficients": [coefficients]})


def fit_failure(table: FitTable, names: Sequence[str], ridge: float) -> AdditiveModel:
    """Log-odds of a complete failure. Only they use the network's failure score, which separates
    faces from non-faces but does not rank good alignments."""
    if np.isfinite(table.columns([FAILURE])).all():
        names = [*names, FAILURE]
    return fit_logistic(table.columns(names), table.failed, table.weight, names, ridge)


def fit_error(table: FitTable, names: Sequence[str], ridge: float) -> AdditiveModel:
    """Log of the mean error of alignments that did not fail completely; plain faces, if there are
    enough, standardise the features."""
    near = table.of(~table.failed)
    usual = near.of(near.plain) if near.plain.sum() >= MIN_FAILURES else near
    frame = _frame(names, usual.columns(names), ERROR_KNOTS, ERROR_LIMIT)
    return fit_mean(near.columns(names), near.error, near.weight, frame, ridge)


def fit_logistic(
    features: Floats, outcome: Bools, weight: Floats, names: Sequence[str], ridge: float
) -> AdditiveModel:
    """Weighted ridge logistic regression on the hinge basis."""
    linear = require("sklearn.linear_model", "calibrate")
    frame = _frame(names, features, KNOTS, LIMIT)
    regression = linear.LogisticRegression(C=1 / ridge, **SOLVER)
    regression.fit(frame.basis(features), outcome, sample_weight=weight)
    return _filled(frame, regression.coef_[0], regression.intercept_[0])


def fit_mean(
    features: Floats, error: Floats, weight: Floats, frame: AdditiveModel, ridge: float
) -> AdditiveModel:
    """The logarithm of the mean error: ridge Gamma regression on the hinge basis of `frame`.

    The mean, not the median: errors are skewed, and users add them up. The ridge shrinks towards
    an error proportional to sigma (`SPREAD`): the regression is of error / sigma.
    """
    linear = require("sklearn.linear_model", "calibrate")
    terms = frame.basis(features)
    prior = np.zeros(terms.shape[1])
    place = frame.features.index(SPREAD)
    prior[place * (1 + len(frame.knots))] = frame.spread[place]  # slope 1 in the raw feature
    regression = linear.GammaRegressor(alpha=ridge / weight.sum(), **SOLVER)
    regression.fit(terms, error / np.exp(terms @ prior), sample_weight=weight)
    return _filled(frame, regression.coef_ + prior, regression.intercept_)


def _frame(names: Sequence[str], features: Floats, knots: Floats, limit: float) -> AdditiveModel:
    """A model without terms that standardises by median and interquartile range of `features`."""
    low, middle, high = np.quantile(features, (0.25, 0.5, 0.75), axis=0)
    return AdditiveModel(
        features=list(names),
        centre=np.round(middle, 5).tolist(),
        spread=np.round(np.maximum((high - low) / 1.349, 1e-3), 5).tolist(),
        knots=knots.tolist(),
        limit=limit,
        coefficients=[],
        intercept=0.0,
    )


def _filled(frame: AdditiveModel, coefficients: Floats, intercept: float) -> AdditiveModel:
    rows = np.round(coefficients.reshape(len(frame.features), -1), 5).tolist()
    return frame.model_copy(update={"coefficients": rows, "intercept": round(float(intercept), 5)})
