"""Confidence intervals by drawing faces again, with replacement.

Every accuracy metric here is a mean over faces (the exact AUC and the failure rate too), or
a ratio of two sums over faces (pooled landmarks), so one matrix product resamples them all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError, require

TAILS = (0.025, 0.975)
"""quantiles between which an interval of 95 % lies"""


class Interval(NamedTuple):
    """A value with its 95 % confidence interval; the ends are NaN where there is none."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


class PairedDifference(NamedTuple):
    """Mean of A - B over the same faces, its interval, and two-sided p-values."""

    difference: float
    low: float = float("nan")
    high: float = float("nan")
    p_value: float = float("nan")
    """of the mean, from the resamples"""
    signed_rank: float = float("nan")
    """Wilcoxon's: whether differences are as often and as far on one side as on the other"""


def bootstrap(
    values: ArrayLike, weights: ArrayLike | None = None, *, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Mean of `values` (n,), one per face, with its percentile interval.

    With `weights` (n,) the statistic is sum(values) / sum(weights): give the sum of a face's
    landmark errors and the number of its landmarks to pool landmarks but draw faces. Faces
    with NaN are left out.

    >>> bootstrap([1.0, 1.0, 1.0])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise InputError(f"values must have shape (n,), got {numbers.shape}.")
    counts = np.ones_like(numbers) if weights is None else np.asarray(weights, dtype=np.float64)
    columns = numbers[:, None], counts[:, None]
    return bootstrap_columns(*columns, resamples=resamples, seed=seed)[0]


def bootstrap_columns(
    values: Floats, weights: Floats, *, resamples: int = 2000, seed: int = 0
) -> list[Interval]:
    """`bootstrap` for each column of `values` and `weights` (n, m), drawing the faces once for
    all of them."""
    known = ~np.isnan(values) & (weights > 0)
    sums, counts = np.where(known, values, 0.0), np.where(known, weights, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums.sum(axis=0) / counts.sum(axis=0)
    low, high = np.full((2, len(means)), np.nan)
    enough = known.sum(axis=0) >= 2
    if enough.any():
        drawn = _resampled(sums[:, enough], counts[:, enough], resamples, seed)
        low[enough], high[enough] = np.nanquantile(drawn, TAILS, axis=0)
    return [Interval(*map(float, each)) for each in zip(means, low, high, strict=True)]


def paired_bootstrap(
    a: ArrayLike, b: ArrayLike, *, resamples: int = 2000, seed: int = 0
) -> PairedDifference:
    """Compare two methods on the same faces: `a` and `b` are (n,), one value per face.

    The p-value is twice the smaller share of resamples on one side of zero, each share
    counted with one added resample so that it is never 0.
    """
    first, second = (np.asarray(x, dtype=np.float64) for x in (a, b))
    if first.shape != second.shape or first.ndim != 1:
        raise InputError(
            f"a paired comparison needs the same faces: got {first.shape} and {second.shape}."
        )
    difference = (first - second)[~(np.isnan(first) | np.isnan(second))]
    if not len(difference):
        return PairedDifference(float("nan"))
    value = float(difference.mean())
    if len(difference) < 2:
        return PairedDifference(value)
    column = difference[:, None]
    drawn = _resampled(column, np.ones_like(column), resamples, seed)[:, 0]
    low, high = np.quantile(drawn, TAILS)
    fewer = min((drawn <= 0).sum(), (drawn >= 0).sum())
    p_value = min(1.0, 2.0 * (fewer + 1) / (resamples + 1))
    wilcoxon = require("scipy.stats", "evaluate").wilcoxon
    signed_rank = float(wilcoxon(difference).pvalue) if difference.any() else 1.0
    return PairedDifference(value, float(low), float(high), float(p_value), signed_rank)


def _resampled(sums: Floats, counts: Floats, resamples: int, seed: int) -> Floats:
    """(resamples, m) ratios of the columns' sums when the n rows are drawn again."""
    faces = len(sums)
    generator = np.random.default_rng(seed)
    times = np.empty((resamples, faces))  # how often each face stands in each resample
    for row in times:
        row[:] = np.bincount(generator.integers(faces, size=faces), minlength=faces)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((times @ sums) / (times @ counts))
