"""How well predicted visibility agrees with the labels.

`probability` is v-hat in 0..1 and `classes` the labels of `luvli.data.record.Visibility`:
-1 unlabelled (left out everywhere), 0 self-occluded (invisible), 1 unoccluded, 2 externally
occluded (both visible). Any shape will do, the same for both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import require


def is_called_visible(probability: ArrayLike, published: bool = False) -> Bools:
    """Whether v-hat calls a landmark visible: > 0.5 in the paper, >= 0.5 in the published code."""
    values = np.asarray(probability, dtype=np.float64)
    return np.asarray(values >= 0.5 if published else values > 0.5)


def labelled(probability: ArrayLike, classes: ArrayLike) -> tuple[Floats, Bools]:
    """v-hat and v of the landmarks that have a visibility label and a prediction, flattened."""
    score, label = np.asarray(probability, dtype=np.float64), np.asarray(classes)
    known = (label >= 0) & ~np.isnan(score)
    return score[known], np.asarray(label[known] > 0)


def brier(probability: ArrayLike, outcome: ArrayLike) -> float:
    """Mean squared difference of probability and outcome: 0 is perfect, 0.25 is a fair coin.

    >>> brier([0.5, 1.0], [True, False])
    0.625
    """
    return float(np.mean((np.asarray(probability) - np.asarray(outcome)) ** 2))


def auroc(score: ArrayLike, positive: ArrayLike) -> float:
    """Chance that a positive scores above a negative, ties counting half; NaN without both.

    >>> auroc([3, 2, 2, 1], [1, 1, 0, 0])
    0.875
    """
    values = np.asarray(score, dtype=np.float64).ravel()
    chosen = np.asarray(positive, dtype=bool).ravel()
    positives, negatives = int(chosen.sum()), int((~chosen).sum())
    if not positives or not negatives:
        return float("nan")
    ranks = require("scipy.stats", "evaluate").rankdata(values)
    return float((ranks[chosen].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def average_precision(score: ArrayLike, positive: ArrayLike) -> float:
    """Mean precision over the recall of the positives, equal scores called together; NaN without
    positives.

    >>> average_precision([0.9, 0.8, 0.1], [1, 0, 1]).__round__(4)
    0.8333
    """
    values, chosen = np.asarray(score, dtype=np.float64), np.asarray(positive, dtype=bool)
    if not chosen.any():
        return float("nan")
    _, group = np.unique(-values, return_inverse=True)
    hits, called = np.cumsum(np.bincount(group, chosen)), np.cumsum(np.bincount(group))
    return float((np.diff(hits, prepend=0.0) * hits / called).sum() / hits[-1])


def calibration_error(probability: ArrayLike, outcome: ArrayLike, bins: int = 10) -> float:
    """Expected calibration error: mean |share of events - probability| over `bins` ranges of
    equal width, weighted by their counts.

    >>> calibration_error([0.9, 0.9, 0.1, 0.1], [True, True, False, True])
    0.25
    """
    p, happened = np.asarray(probability, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
    if not p.size:
        return float("nan")
    place = np.minimum((p * bins).astype(np.int64), bins - 1)
    return float(np.abs(np.bincount(place, happened - p)).sum() / p.size)
