"""Visibility as a probability: of landmarks called visible with 0.7, seven in ten are.

A slope and an offset of the logit (Platt scaling), fitted on held-out faces of data sets that
label hidden landmarks. They go into the linear layer that gives the logit, so that every backend
gives calibrated visibilities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools, Floats
from luvli.data.record import Visibility
from luvli.errors import require
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.trust.failure_model import sigmoid

MIN_LANDMARKS = 500
"""hidden landmarks, and visible ones, from which two numbers are worth fitting"""
MIN_PROBABILITY = 1e-6
"""probabilities nearer to 0 or 1 count as this: a logit must stay finite"""


class LogitMap(NamedTuple):
    """slope * logit + offset"""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, probability: Floats) -> Floats:
        """Probabilities after calibration, of the same shape."""
        return sigmoid(self.slope * logit(probability) + self.offset)

    def apply_to_weights(self, weights: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The same weights with the map in the layer that gives the logit."""
        weight, bias = "visibility.linear.weight", "visibility.linear.bias"
        slope, offset = np.float32(self.slope), np.float32(self.offset)
        return weights | {weight: weights[weight] * slope, bias: weights[bias] * slope + offset}


def logit(probability: Floats) -> Floats:
    """log(p / (1 - p)), finite for 0 and 1."""
    p = np.clip(probability, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.asarray(np.log(p / (1 - p)))


def fit_visibility(faces: LabelledFaces) -> LogitMap:
    """Fit on the faces of sources that label hidden landmarks."""
    if not faces.faces.visibility_trained:
        return LogitMap()
    classes, sources = faces.label_visibility, faces.groups["source"]
    hidden = (classes == Visibility.SELF_OCCLUDED).any(axis=1)
    labelled = (classes != Visibility.UNLABELLED) & np.isin(sources, sources[hidden])[:, None]
    visible = classes[labelled] > Visibility.SELF_OCCLUDED
    return fit_logit_map(faces.faces.visibility[labelled], visible)


def fit_logit_map(probability: Floats, visible: Bools) -> LogitMap:
    """The map that makes probabilities (n,) most likely for what is visible (n,); the identity
    where there is too little of either kind."""
    if min(visible.sum(), (~visible).sum()) < MIN_LANDMARKS:
        return LogitMap()
    linear = require("sklearn.linear_model", "calibrate")
    regression = linear.LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8)
    regression.fit(logit(probability)[:, None], visible)
    slope, offset = float(regression.coef_[0, 0]), float(regression.intercept_[0])
    return LogitMap(slope, offset) if slope > 0 else LogitMap()
