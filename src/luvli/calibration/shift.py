"""Has the input changed since calibration? Guarantees hold for faces like the calibration faces.

The features of the predictions are compared with those of the calibration faces by two-sample
Kolmogorov-Smirnov tests, one for each feature, with the Bonferroni correction: on faces that are
exchangeable with the calibration faces, an alarm has at most the stated probability.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import require
from luvli.faces import Faces
from luvli.trust.features import FEATURE_COLUMNS, feature_table
from luvli.trust.trust import ReferenceFeatures, Trust

MAX_QUANTILES = 256
"""quantiles of each feature that a model file holds"""
DECIMALS = 4
MIN_FACES = 20
"""faces below which nothing is tested"""

WORDS = {
    "spread": "their landmarks are {more|less} uncertain",
    "spread jaw": "their jaws are {more|less} uncertain",
    "worst spread": "their least certain parts are {more|less} uncertain",
    "unevenness": "certainty differs {more|less} between their landmarks",
    "box size": "their landmarks fill {more|less} of the box",
    "box place": "their landmarks lie {farther from|nearer to} the middle of the box",
    "shape residual": "their shapes are {more|less} unusual",
    "shape distance": "their shapes are {more|less} extreme",
    "tilt": "their heads are tilted {more|less}",
    "hidden": "{more|fewer} of their landmarks are hidden",
    "undecided": "{more|fewer} of their landmarks are neither clearly visible nor hidden",
    "failure_logit": "the network finds {more|fewer} of them failed",
    "score": "the detector is {more|less} certain of them",
}
"""feature -> how faces with larger | smaller values differ from the calibration faces"""


class Shift(NamedTuple):
    """Results of the tests."""

    alarm: bool
    p_values: dict[str, float]
    """by feature, before correction; features that too few faces have are left out"""
    larger: dict[str, bool]
    """by feature, whether its median is larger than that of the calibration faces"""

    @property
    def worst(self) -> str:
        """The feature that differs most clearly."""
        return min(self.p_values, key=lambda name: (self.p_values[name], name))

    @property
    def sentence(self) -> str:
        """How these faces differ most clearly from the calibration faces."""
        before, more, less, after = re.split(r"[{|}]", WORDS[self.worst])
        return before + (more if self.larger[self.worst] else less) + after


def fit_reference(table: Floats) -> ReferenceFeatures:
    """Quantiles of each column of a feature table (n, 13) of the calibration faces."""
    quantiles = {}
    for name, column in zip(FEATURE_COLUMNS, table.T, strict=True):
        values = np.sort(column[np.isfinite(column)])
        if len(values) > MAX_QUANTILES:
            values = np.quantile(values, (np.arange(MAX_QUANTILES) + 0.5) / MAX_QUANTILES)
        quantiles[name] = np.round(values, DECIMALS).tolist()
    return ReferenceFeatures(quantiles=quantiles, faces=len(table))


def compare_features(reference: ReferenceFeatures, table: Floats, level: float = 0.01) -> Shift:
    """Compare a feature table (n, 13) of new faces with the calibration faces, whose quantiles
    count as so many faces."""
    stats = require("scipy.stats", "calibrate")
    p_values: dict[str, float] = {}
    larger: dict[str, bool] = {}
    for name, column in zip(FEATURE_COLUMNS, table.T, strict=True):
        values = np.round(column[np.isfinite(column)], DECIMALS)  # as those of the reference
        quantiles = reference.quantiles.get(name, [])
        if min(len(values), len(quantiles)) >= MIN_FACES:
            larger[name] = bool(np.median(values) > np.median(quantiles))
            p_values[name] = float(stats.ks_2samp(values, quantiles, method="asymp").pvalue)
    alarm = bool(p_values) and min(p_values.values()) * len(p_values) < level
    return Shift(alarm, p_values, larger)


def shift_of(faces: Faces, trust: Trust) -> Shift | None:
    """Whether these faces differ from the calibration faces; None where the model has none."""
    if trust.reference is None or trust.failure_model is None or not len(faces):
        return None
    return compare_features(trust.reference, feature_table(faces, trust.failure_model.shape))
