"""Whether the predicted uncertainty can be trusted to find the predictions that are wrong.

A "risk" is what a wrong prediction costs, one number per face or landmark (its NME); the
uncertainty decides which predictions are kept first. Both are flat arrays of one length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.evaluation.accuracy import FAILED_NME
from luvli.evaluation.visibility import auroc


class RiskCoverage(NamedTuple):
    """Mean risk of the most certain predictions, as more and more of them are kept."""

    coverage: Floats
    """share of the predictions kept, from 1/n to 1"""
    risk: Floats
    """mean risk of those kept"""
    aurc: float
    """area under the curve: the mean of `risk`"""
    best: float
    """the area that sorting by the true risk would give"""

    @property
    def excess(self) -> float:
        """AURC above the best possible one: 0 for a perfect order."""
        return self.aurc - self.best


def risk_coverage(
    risk: ArrayLike, uncertainty: ArrayLike, failed: float = FAILED_NME
) -> RiskCoverage:
    """Risk-coverage curve and its area (AURC), in the unit of `risk`.

    Equal uncertainties share their mean risk, so that the result does not depend on the
    order of the faces. Unpredicted ones (risk inf) cost `failed` and come last.

    >>> curve = risk_coverage([1.0, 2.0, 6.0], [0.1, 0.2, 0.3])
    >>> curve.risk.tolist(), curve.aurc
    ([1.0, 1.5, 3.0], 1.8333333333333333)
    """
    cost, spread = _known(risk, uncertainty, failed)
    if not len(cost):
        return RiskCoverage(np.empty(0), np.empty(0), float("nan"), float("nan"))
    share = np.arange(1, len(cost) + 1) / len(cost)
    order = np.argsort(spread, kind="stable")
    kept = _running_mean(_shared_by_ties(cost[order], spread[order]))
    best = _running_mean(np.sort(cost))
    return RiskCoverage(share, kept, float(kept.mean()), float(best.mean()))


def failure_auroc(
    risk: ArrayLike, uncertainty: ArrayLike, threshold: float, failed: float = FAILED_NME
) -> float:
    """Chance that a prediction with risk > `threshold` is more uncertain than one without.

    NaN when all predictions are on one side of the threshold.
    """
    cost, spread = _known(risk, uncertainty, failed)
    return auroc(spread, cost > threshold)


class RankCurve(NamedTuple):
    """Mean NME of groups of faces, from the most certain to the least."""

    rank: Floats
    """mean rank of the group's faces, 1 the most certain"""
    nme: Floats
    faces: NDArray[np.int64]
    """how many stand in each group"""


def nme_by_rank(
    risk: ArrayLike, uncertainty: ArrayLike, bins: int = 20, failed: float = FAILED_NME
) -> RankCurve:
    """Average NME against uncertainty rank in `bins` groups of equal size (Figure 6)."""
    cost, spread = _known(risk, uncertainty, failed)
    order = np.argsort(spread, kind="stable")
    groups = np.array_split(np.arange(len(cost)), max(1, min(bins, len(cost))))
    groups = [g for g in groups if len(g)]
    sorted_cost = _shared_by_ties(cost[order], spread[order])
    return RankCurve(
        np.array([g.mean() + 1.0 for g in groups]),
        np.array([sorted_cost[g].mean() for g in groups]),
        np.array([len(g) for g in groups]),
    )


def face_uncertainty(
    spread: ArrayLike, scale: ArrayLike, weight: ArrayLike | None = None
) -> Floats:
    """(n,) how unsure a face is: the mean of |Sigma_j|^(1/4), in percent of `scale`.

    `spread` is |Sigma|^(1/2) (n, k), `scale` (n,) a length of the face (of the *predicted*
    face: the true one is not known in use), `weight` (n, k) for instance the predicted
    visibility. Faces with no prediction are infinitely uncertain.
    """
    length = np.sqrt(np.asarray(spread, dtype=np.float64))
    weights = np.ones_like(length) if weight is None else np.asarray(weight, dtype=np.float64)
    size = np.asarray(scale, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (length * weights).sum(axis=1) / weights.sum(axis=1)
        value = mean / size * 100.0
    return np.where(np.isfinite(value), value, np.inf)


def _known(risk: ArrayLike, uncertainty: ArrayLike, failed: float) -> tuple[Floats, Floats]:
    cost = np.asarray(risk, dtype=np.float64).ravel()
    spread = np.asarray(uncertainty, dtype=np.float64).ravel()
    if cost.shape != spread.shape:
        raise InputError(f"risk has {len(cost)} values and uncertainty {len(spread)}.")
    spread = np.where(np.isinf(cost) | np.isnan(spread), np.inf, spread)
    known = ~np.isnan(cost)
    return np.where(np.isinf(cost), failed, cost)[known], spread[known]


def _shared_by_ties(cost: Floats, spread: Floats) -> Floats:
    """Replace the costs of equal neighbours in `spread` (sorted) by their mean."""
    _, index, count = np.unique(spread, return_inverse=True, return_counts=True)
    mean = np.bincount(index.ravel(), weights=cost) / count
    return np.asarray(mean[index.ravel()])


def _running_mean(values: Floats) -> Floats:
    return np.asarray(np.cumsum(values) / np.arange(1, len(values) + 1))
