"""The failure model: from the features of a prediction to its confidence and expected error.

Two generalised additive models (a sum of one piecewise-linear function per feature) estimate the
log-odds that the alignment failed completely and the logarithm of the expected error otherwise.
A third, of their combination alone, gives the log-odds of success. `luvli calibrate` fits them;
here they are evaluated with NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator

from luvli.arrays import Floats
from luvli.faces import Faces
from luvli.trust.features import FEATURE_COLUMNS, FEATURES, ShapeModel, feature_table


class AdditiveModel(BaseModel):
    """A generalised additive model: intercept plus one piecewise-linear function per feature.

    Feature x enters as z = clip((x - centre) / spread, -limit, limit) and its hinges
    max(z - knot, 0).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    features: list[str]
    centre: list[float]
    spread: list[float]
    knots: list[float]
    """standardised; shared by all features"""
    coefficients: list[list[float]]
    """for each feature: of z, and of the hinge at each knot"""
    intercept: float
    limit: float = 4.0

    def __call__(self, features: ArrayLike) -> Floats:
        """(n, d) features in the order of their names -> (n,)."""
        raw = np.atleast_2d(np.asarray(features, dtype=np.float64))
        return Hinges.of([self], range(len(self.features)))(raw)[:, 0]

    def of_table(self, table: Floats) -> Floats:
        """(n, 13) feature table -> (n,). A missing failure score counts as the ordinary one."""
        return Hinges.of([self])(table)[:, 0]


class Hinges(NamedTuple):
    """Additive models of one table x as sums of T hinges:
    f(x) = constant + sum_t weight_t max(min(x_t, limit_t) - knot_t, 0)."""

    columns: NDArray[np.intp]
    """(T,) of the table"""
    ordinary: Floats
    """(T,) what takes the place of NaN"""
    limits: Floats
    """(T,)"""
    knots: Floats
    """(T,) in units of the feature; the first hinge of each feature begins at its lower limit"""
    weights: Floats
    """(T, m)"""
    constants: Floats
    """(m,)"""

    @classmethod
    def of(cls, models: Sequence[AdditiveModel], columns: Sequence[int] | None = None) -> Hinges:
        """`columns` of the features of all models; those of a feature table by default."""
        if columns is None:
            columns = [FEATURE_COLUMNS.index(name) for model in models for name in model.features]
        place = iter(columns)
        rows: list[tuple[float, ...]] = []
        for m, model in enumerate(models):
            for i, (centre, spread) in enumerate(zip(model.centre, model.spread, strict=True)):
                column, limit = next(place), centre + spread * model.limit
                for knot, slope in zip(
                    (-model.limit, *model.knots), model.coefficients[i], strict=True
                ):
                    rows.append((column, centre, limit, centre + spread * knot, m, slope / spread))
        chosen, ordinary, limits, knots, which, slopes = np.array(rows).T
        weights = slopes[:, None] * (which[:, None] == np.arange(len(models)))
        constants = [m.intercept - m.limit * sum(row[0] for row in m.coefficients) for m in models]
        return cls(chosen.astype(np.intp), ordinary, limits, knots, weights, np.array(constants))

    def __call__(self, table: Floats) -> Floats:
        """(n, d) table -> (n, m)."""
        x = table[:, self.columns]
        x = np.where(np.isnan(x), self.ordinary, x)
        hinges = np.maximum(np.minimum(x, self.limits) - self.knots, 0.0)
        return np.asarray(hinges @ self.weights + self.constants)


def hinge_basis(
    features: ArrayLike, centre: Floats, spread: Floats, knots: Floats, limit: float
) -> Floats:
    """(n, d) features as the (n, d (1 + knots)) terms that `AdditiveModel` weighs.

    >>> hinge_basis([[3.0]], np.zeros(1), np.ones(1), np.array([1.0]), 4.0).tolist()
    [[3.0, 2.0]]
    """
    raw = np.atleast_2d(np.asarray(features, dtype=np.float64))
    z = np.clip((raw - centre) / spread, -limit, limit)
    terms = np.concatenate([z[:, :, None], np.maximum(z[:, :, None] - knots, 0.0)], axis=2)
    return terms.reshape(len(z), -1)


def expected_log_error(
    near: Floats, failure: Floats, failure_from: float, failure_error: float
) -> Floats:
    """(n,) log of the expected error: a mixture of failures, which have `failure_error` on
    average, and other alignments, whose log error is `near` (n,); `failure` (n,) are log-odds."""
    probability = sigmoid(failure)
    close = np.exp(np.minimum(near, math.log(failure_from)))
    return np.asarray(np.log((1 - probability) * close + probability * failure_error))


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + exp(-x)) without overflow."""
    return np.asarray(1 / (1 + np.exp(np.minimum(np.maximum(-logits, -30.0), 30.0))))


class ExpectedErrorModel(BaseModel):
    """The three additive models for faces that have the same features."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    error: AdditiveModel
    """log of the expected error, percent of the box, of alignments that did not fail completely"""
    failure: AdditiveModel | None = None
    """log-odds of a complete failure; None where too few were seen: `error` is of all faces"""
    success: AdditiveModel
    """log-odds of success by the logarithm of the expected error, its only feature"""

    @cached_property
    def pair(self) -> Hinges:
        """Log error and, where it is known, log-odds of failure, of a feature table."""
        return Hinges.of([self.error] if self.failure is None else [self.error, self.failure])

    @field_validator("error", "failure")
    @classmethod
    def _known_features(cls, model: AdditiveModel | None) -> AdditiveModel | None:
        unknown = set(model.features) - set(FEATURE_COLUMNS) if model is not None else set()
        if unknown:
            raise ValueError(f"no feature is called {sorted(unknown)[0]!r}")
        return model


class FailureModel(BaseModel):
    """Confidence (probability of success) and expected error of a prediction."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    success: float = Field(default=5.0, gt=0)
    """an alignment succeeded when the mean error of its visible landmarks is below this, in percent
    of the box (square root of the label box's area)"""
    failure_from: float = Field(default=15.0, gt=0)
    """error, in percent of the box, of a complete failure"""
    failure_error: float = Field(default=40.0, gt=0)
    """mean error of complete failures"""
    max_error: float = 50.0
    """percent of the box: the error of a prediction where there is no face"""
    shape: ShapeModel
    detected: ExpectedErrorModel
    """for faces with a detector's score"""
    given: ExpectedErrorModel
    """for boxes without one"""
    faces: int = 0
    """faces that it was fitted on"""
    corrupted: int = 0
    """how many of them were corrupted"""

    def __call__(self, faces: Faces) -> tuple[Floats, Floats]:
        """(n,) confidence, 0..1, and (n,) expected error, percent of the box.

        A face without locations has confidence 0 and the largest error.
        """
        return self.of_table(feature_table(faces, self.shape))

    def of_table(self, table: Floats) -> tuple[Floats, Floats]:
        """The same from a feature table (n, 13)."""
        located = np.isfinite(table[:, : len(FEATURES)]).all(axis=1)
        scored = np.isfinite(table[:, -1])
        logs, logits = np.zeros(len(table)), np.zeros(len(table))
        for rows, model in ((located & scored, self.detected), (located & ~scored, self.given)):
            if rows.any():
                logs[rows] = self.log_error(table[rows], model)
                logits[rows] = model.success(logs[rows, None])
        error = np.exp(np.minimum(np.maximum(logs, -3.0), math.log(self.max_error)))
        return np.where(located, sigmoid(logits), 0.0), np.where(located, error, self.max_error)

    def log_error(self, table: Floats, model: ExpectedErrorModel) -> Floats:
        """(n,) log of the expected error, in percent of the box."""
        values = model.pair(table)
        if model.failure is None:
            return np.asarray(values[:, 0])
        return expected_log_error(values[:, 0], values[:, 1], self.failure_from, self.failure_error)
