"""Whether probabilities are right, and whether uncertainty or confidence find the predictions that
are wrong.

A "risk" is what a wrong prediction costs, one number per face (its NME, inf where there is no
prediction); the uncertainty decides which predictions are kept first. Both have shape (n,).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError, require
from luvli.evaluation.accuracy import Curve, known_mean, with_failures


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


# --- risk and coverage -------------------------------------------------------------------


def risk_coverage(risk: ArrayLike, uncertainty: ArrayLike) -> Curve:
    """Mean risk (y) of the most certain share (x) of the predictions; the value is the area
    (AURC), in the unit of `risk`. The best possible one is that of `risk` as the uncertainty.

    Equal uncertainties share their mean risk, so that the result does not depend on the
    order of the faces. Unpredicted ones (risk inf) cost `FAILED_NME` and come last.

    >>> curve = risk_coverage([1.0, 2.0, 6.0], [0.1, 0.2, 0.3])
    >>> curve.y.tolist(), curve.value
    ([1.0, 1.5, 3.0], 1.8333333333333333)
    """
    cost = _sorted_costs(risk, uncertainty)
    rank = np.arange(1, len(cost) + 1)
    kept = np.cumsum(cost) / rank
    return Curve(rank / max(len(cost), 1), kept, known_mean(kept))


def failure_auroc(risk: ArrayLike, uncertainty: ArrayLike, threshold: float) -> float:
    """Chance that a prediction with risk > `threshold` is more uncertain than one without.

    NaN when all predictions are on one side of the threshold.
    """
    cost, spread = _known(risk, uncertainty)
    return auroc(spread, cost > threshold)


def nme_by_rank(risk: ArrayLike, uncertainty: ArrayLike, bins: int = 20) -> Curve:
    """Average NME (y) against uncertainty rank (x, 1 the most certain) in `bins` groups of equal
    size (Figure 6)."""
    cost = _sorted_costs(risk, uncertainty)
    groups = np.array_split(np.arange(len(cost)), max(1, min(bins, len(cost))))
    x = np.array([known_mean(group) + 1.0 for group in groups])
    return Curve(x, np.array([known_mean(cost[group]) for group in groups]))


def gain_share(error: ArrayLike, uncertainty: ArrayLike) -> float:
    """What an order of the faces is worth: its share of the possible gain in risk-coverage.

    The area under the risk-coverage curve lies between that of a random order (0) and that of
    the true errors (1); worse than random is negative. Infinite errors are left out.

    >>> gain_share([1.0, 2.0, 6.0], [0.1, 0.2, 0.3])
    1.0
    """
    risk, order = (np.asarray(a, dtype=np.float64) for a in (error, uncertainty))
    known = np.isfinite(risk)
    risk, order = risk[known], order[known]
    random, best = float(risk.mean()), risk_coverage(risk, risk).value
    return (random - risk_coverage(risk, order).value) / (random - best)


def _known(risk: ArrayLike, uncertainty: ArrayLike) -> tuple[Floats, Floats]:
    """Costs and uncertainties of what was measured; failures have the largest of both."""
    cost, spread = (np.asarray(a, dtype=np.float64) for a in (risk, uncertainty))
    if cost.shape != spread.shape:
        raise InputError(f"risk has {len(cost)} values and uncertainty {len(spread)}.")
    spread = np.where(np.isinf(cost) | np.isnan(spread), np.inf, spread)
    known = ~np.isnan(cost)
    return with_failures(cost)[known], spread[known]


def _sorted_costs(risk: ArrayLike, uncertainty: ArrayLike) -> Floats:
    """Costs, the most certain first; equal uncertainties have the mean of their costs."""
    cost, spread = _known(risk, uncertainty)
    _, index, count = np.unique(spread, return_inverse=True, return_counts=True)
    return np.repeat(np.bincount(index.ravel(), weights=cost) / count, count)
