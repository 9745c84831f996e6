"""Visibility as a probability: of landmarks called visible with 0.7, seven in ten are.

A slope and an offset of the logit, fitted on held-out faces whose labels tell what is hidden
(Platt scaling). They go into the linear layer that makes the logit, so that a model file needs
no word about them and every backend gives calibrated visibilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from luvli.arrays import Bools, Floats
from luvli.data.record import FaceRecord, Visibility
from luvli.evaluation.labelled_faces import predict_records
from luvli.prediction.predictor import Predictor
from luvli.progress import Track

if TYPE_CHECKING:
    from luvli.network.model import LUVLi


ENOUGH = 500
"""hidden landmarks, and visible ones, from which two numbers are worth fitting"""
SURE = 1e-6
"""probabilities nearer to 0 or 1 count as this: a logit must stay finite"""


class LogitMap(NamedTuple):
    """slope * logit + offset"""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, probability: Floats) -> Floats:
        """Probabilities after calibration, of the same shape."""
        return np.asarray(1 / (1 + np.exp(-(self.slope * logit(probability) + self.offset))))


def logit(probability: Floats) -> Floats:
    """log(p / (1 - p)), finite for 0 and 1."""
    p = np.clip(np.asarray(probability, dtype=np.float64), SURE, 1 - SURE)
    return np.log(p / (1 - p))


def fit_logit_map(probability: Floats, visible: Bools) -> LogitMap:
    """The map that makes probabilities (n,) most likely for what is visible (n,).

    Logistic regression on the logit by Newton's method; the identity where there is too little of
    either kind.

    >>> p = np.repeat([0.2, 0.9], 5000)
    >>> seen = np.concatenate([np.arange(5000) < 1000, np.arange(5000) < 4500])
    >>> [round(x, 3) + 0 for x in fit_logit_map(p, seen)]
    [1.0, 0.0]
    """
    if min(visible.sum(), (~visible).sum()) < ENOUGH:
        return LogitMap()
    features = np.column_stack([logit(probability), np.ones(len(probability))])
    weights = np.array([1.0, 0.0])
    for _ in range(50):
        p = 1 / (1 + np.exp(np.clip(-features @ weights, -500, 500)))
        gradient = features.T @ (visible - p)
        curvature = (features * (p * (1 - p))[:, None]).T @ features
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    slope, offset = weights.tolist()
    return LogitMap(slope, offset) if np.isfinite(weights).all() and slope > 0 else LogitMap()


def visibility_beside_labels(
    predictor: Predictor, records: Sequence[FaceRecord], track: Track = iter
) -> tuple[Floats, Bools]:
    """Predicted probabilities and labels, both (n,), of landmarks in data sets that tell hidden
    ones; boxes are the records' own."""
    telling = {r.dataset for r in records if (r.visibility == Visibility.SELF_OCCLUDED).any()}
    chosen = [r for r in records if r.dataset in telling and r.image is not None]
    if not chosen:
        return np.empty(0), np.empty(0, dtype=bool)
    faces = predict_records(predictor, chosen, progress=track)
    assert faces.visibility is not None
    known = (faces.label_visibility >= Visibility.SELF_OCCLUDED) & np.isfinite(faces.visibility)
    visible = faces.label_visibility > Visibility.SELF_OCCLUDED
    return faces.visibility[known], visible[known]


def calibrate_visibility(
    network: LUVLi, predictor: Predictor, records: Sequence[FaceRecord], track: Track = iter
) -> LogitMap:
    """Fit the map by what `predictor`, which is the network in use, says of held-out faces, and
    put it into the network's own layer."""
    if not predictor.info.config.visibility_trained:
        return LogitMap()
    fitted = fit_logit_map(*visibility_beside_labels(predictor, records, track))
    import torch

    linear = network.visibility.linear
    with torch.no_grad():
        linear.weight.mul_(fitted.slope)
        linear.bias.mul_(fitted.slope).add_(fitted.offset)
    return fitted
