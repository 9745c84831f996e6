"""How well predicted visibility agrees with the labels.

`probability` is v-hat in 0..1 and `classes` the labels of `luvli.data.record.Visibility`:
-1 unlabelled (left out everywhere), 0 self-occluded (invisible), 1 unoccluded, 2 externally
occluded (both visible). Any shape will do, the same for both.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import require, unknown_choice
from luvli.evaluation.curve import NO_CURVE, Curve, known_mean, reliability, trapezia


def is_called_visible(
    probability: ArrayLike, threshold: float = 0.5, rule: Literal["above", "at least"] = "above"
) -> Bools:
    """Whether v-hat calls a landmark visible: > 0.5 in the paper, >= in the published code."""
    if rule not in ("above", "at least"):
        raise unknown_choice("rule", rule, ("above", "at least"))
    values = np.asarray(probability, dtype=np.float64)
    return np.asarray(values > threshold if rule == "above" else values >= threshold)


def roc(probability: ArrayLike, classes: ArrayLike) -> Curve:
    """False-alarm rate (x) against detection rate (y) of "visible"; the value is the area.

    >>> roc([0.9, 0.8, 0.3, 0.1], [1, 2, 0, 0]).value
    1.0
    """
    score, visible = labelled(probability, classes)
    if visible.all() or not visible.any():
        return NO_CURVE
    hits, alarms = _counts(score, visible)
    x, y = np.append(0.0, alarms / (~visible).sum()), np.append(0.0, hits / visible.sum())
    return Curve(x, y, trapezia(x, y))


def hidden_precision_recall(probability: ArrayLike, classes: ArrayLike) -> Curve:
    """Recall (x) against precision (y) of the self-occluded landmarks, which are the rare ones;
    the value is the average precision."""
    score, visible = labelled(probability, classes)
    if visible.all():
        return NO_CURVE
    hits, alarms = _counts(1.0 - score, ~visible)
    recall, precision = hits / (~visible).sum(), hits / (hits + alarms)
    return Curve(recall, precision, float((np.diff(recall, prepend=0.0) * precision).sum()))


def brier(probability: ArrayLike, classes: ArrayLike) -> float:
    """Mean squared difference of v-hat and v: 0 is perfect, 0.25 is a fair coin.

    >>> brier([0.5, 1.0], [1, 0])
    0.625
    """
    score, visible = labelled(probability, classes)
    return float(known_mean((score - visible) ** 2))


def visibility_reliability(probability: ArrayLike, classes: ArrayLike, bins: int = 10) -> Curve:
    """Share of visible landmarks (y) among those with v-hat (x) in each of `bins` equal ranges."""
    return reliability(*labelled(probability, classes), bins)


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


def labelled(probability: ArrayLike, classes: ArrayLike) -> tuple[Floats, Bools]:
    """v-hat and v of the landmarks that have a visibility label and a prediction, flattened."""
    score, label = np.asarray(probability, dtype=np.float64), np.asarray(classes)
    known = (label >= 0) & ~np.isnan(score)
    return score[known], np.asarray(label[known] > 0)


def _counts(score: Floats, positive: Bools) -> tuple[Floats, Floats]:
    """Hits and false alarms when everything at or above each distinct score is called positive."""
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    hits = np.cumsum(positive[order], dtype=np.float64)[last]
    return hits, last + 1.0 - hits
