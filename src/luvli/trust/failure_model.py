"""The failure model: from the features of a prediction to its confidence and expected error.

Two generalised additive models (a sum of one piecewise-linear function per feature) estimate the
log-odds that the alignment failed completely and the logarithm of the expected error otherwise.
A third, of their combination alone, gives the log-odds of success. `luvli calibrate` fits them;
here they are evaluated with NumPy.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field, field_validator

from luvli.arrays import Floats
from luvli.faces import Faces
from luvli.trust.features import FEATURE_COLUMNS, FEATURES, SCORE, ShapeModel, feature_table


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
        return np.asarray(self.basis(features) @ np.ravel(self.coefficients) + self.intercept)

    def of_table(self, table: Floats) -> Floats:
        """(n, 13) feature table -> (n,)."""
        return self(table[:, [FEATURE_COLUMNS.index(name) for name in self.features]])

    def basis(self, features: ArrayLike) -> Floats:
        """(n, d) features -> (n, d (1 + knots)) terms that the coefficients weigh. NaN, as of a
        missing failure score, counts as the ordinary value `centre`."""
        scaled = (np.asarray(features, dtype=np.float64) - self.centre) / self.spread
        z = np.where(np.isnan(scaled), 0.0, np.clip(scaled, -self.limit, self.limit))[:, :, None]
        terms = np.concatenate([z, np.maximum(z - np.asarray(self.knots), 0.0)], axis=2)
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
    return np.asarray(1 / (1 + np.exp(np.clip(-logits, -30.0, 30.0))))


class ExpectedErrorModel(BaseModel):
    """The three additive models for faces that have the same features."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    error: AdditiveModel
    """log of the expected error, percent of the box, of alignments that did not fail completely"""
    failure: AdditiveModel
    """log-odds of a complete failure"""
    success: AdditiveModel
    """log-odds of success by the logarithm of the expected error, its only feature"""

    @field_validator("error", "failure")
    @classmethod
    def _known_features(cls, model: AdditiveModel) -> AdditiveModel:
        unknown = set(model.features) - set(FEATURE_COLUMNS)
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
        scored = np.isfinite(table[:, FEATURE_COLUMNS.index(SCORE)])
        logs = [self.log_error(table, model) for model in (self.detected, self.given)]
        logits = [self.detected.success(logs[0][:, None]), self.given.success(logs[1][:, None])]
        error = np.exp(np.clip(np.where(scored, *logs), -3.0, math.log(self.max_error)))
        confidence = sigmoid(np.where(scored, *logits))
        return np.where(located, confidence, 0.0), np.where(located, error, self.max_error)

    def log_error(self, table: Floats, model: ExpectedErrorModel) -> Floats:
        """(n,) log of the expected error, in percent of the box."""
        near, failure = model.error.of_table(table), model.failure.of_table(table)
        return expected_log_error(near, failure, self.failure_from, self.failure_error)
