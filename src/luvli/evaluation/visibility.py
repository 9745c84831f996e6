"""How well predicted visibility agrees with the labels.

`probability` is v-hat in 0..1 and `classes` the labels of `luvli.data.record.Visibility`:
-1 unlabelled (left out everywhere), 0 self-occluded (invisible), 1 unoccluded, 2 externally
occluded (both visible). Any shape will do, the same for both.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.errors import InputError, require, unknown_choice

Rule = Literal["above", "at least"]


class DetectionCurve(NamedTuple):
    """Points of a curve in the order of falling threshold, and the area or mean under it."""

    x: Floats
    y: Floats
    threshold: Floats
    area: float


class Reliability(NamedTuple):
    """Predicted against observed frequency in bins, with the expected calibration error."""

    predicted: Floats
    observed: Floats
    landmarks: NDArray[np.int64]
    """how many stand in each bin"""
    error: float


def is_called_visible(
    probability: ArrayLike, threshold: float = 0.5, rule: Rule = "above"
) -> Bools:
    """Whether v-hat calls a landmark visible: > 0.5 in the paper, >= in the published code."""
    values = np.asarray(probability, dtype=np.float64)
    if rule == "above":
        return np.asarray(values > threshold)
    if rule == "at least":
        return np.asarray(values >= threshold)
    raise unknown_choice("rule", rule, ("above", "at least"))


def roc(probability: ArrayLike, classes: ArrayLike) -> DetectionCurve:
    """False-alarm rate (x) against detection rate (y) of "visible", with the area under it.

    >>> roc([0.9, 0.8, 0.3, 0.1], [1, 2, 0, 0]).area
    1.0
    """
    score, visible = labelled(probability, classes)
    hits, alarms, threshold = _counts(score, visible)
    positives, negatives = int(visible.sum()), int((~visible).sum())
    if not positives or not negatives:
        return _no_curve()
    x = np.concatenate([[0.0], alarms / negatives])
    y = np.concatenate([[0.0], hits / positives])
    area = float(((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2.0).sum())
    return DetectionCurve(x, y, np.concatenate([[np.inf], threshold]), area)


def precision_recall(
    probability: ArrayLike, classes: ArrayLike, target: Literal["visible", "hidden"] = "visible"
) -> DetectionCurve:
    """Recall (x) against precision (y), with the average precision as the area.

    "hidden" asks how well self-occluded landmarks are found, which are the rare ones.
    """
    score, visible = labelled(probability, classes)
    if target == "hidden":
        score, visible = 1.0 - score, ~visible
    elif target != "visible":
        raise unknown_choice("target", target, ("visible", "hidden"))
    hits, alarms, threshold = _counts(score, visible)
    if not visible.any():
        return _no_curve()
    recall = hits / visible.sum()
    precision = hits / (hits + alarms)
    area = float((np.diff(np.concatenate([[0.0], recall])) * precision).sum())
    return DetectionCurve(recall, precision, threshold, area)


def brier(probability: ArrayLike, classes: ArrayLike) -> float:
    """Mean squared difference of v-hat and v: 0 is perfect, 0.25 is a fair coin.

    >>> brier([0.5, 1.0], [1, 0])
    0.625
    """
    score, visible = labelled(probability, classes)
    return _mean((score - visible) ** 2)


def visibility_reliability(
    probability: ArrayLike, classes: ArrayLike, bins: int = 10
) -> Reliability:
    """Share of visible landmarks among those with v-hat in each of `bins` equal ranges.

    The error is the mean |observed - predicted|, weighted by the number of landmarks.
    """
    score, visible = labelled(probability, classes)
    index = np.minimum((score * bins).astype(int), bins - 1)
    count = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(index, weights=score, minlength=bins) / count
        observed = np.bincount(index, weights=visible, minlength=bins) / count
    used = count > 0
    gaps = np.abs(observed[used] - predicted[used]) * count[used]
    error = float(gaps.sum() / count.sum()) if len(score) else float("nan")
    return Reliability(predicted, observed, count, error)


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
    if score.shape != label.shape:
        raise InputError(f"probability {score.shape} and classes {label.shape} differ in shape.")
    known = (label >= 0) & ~np.isnan(score)
    return score[known], np.asarray(label[known] > 0)


def _counts(score: Floats, positive: Bools) -> tuple[Floats, Floats, Floats]:
    """Hits and false alarms when everything at or above each distinct score is called positive."""
    order = np.argsort(-score, kind="stable")
    sorted_score = score[order]
    last = np.flatnonzero(np.append(np.diff(sorted_score) != 0, len(score) > 0)[: len(score)])
    hits = np.cumsum(positive[order], dtype=np.float64)[last]
    return hits, last + 1.0 - hits, sorted_score[last]


def _no_curve() -> DetectionCurve:
    return DetectionCurve(np.empty(0), np.empty(0), np.empty(0), float("nan"))


def _mean(values: NDArray[Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
