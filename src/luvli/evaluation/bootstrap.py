"""Confidence intervals by drawing faces again, with replacement.

Every accuracy metric here is a mean over faces (the exact AUC and the failure rate too), or
a ratio of two sums over faces (pooled landmarks), so one matrix product resamples them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError, require

_DRAWS_AT_ONCE = 2_000_000  # faces drawn in one go: bounds the memory, not the result


class Interval(NamedTuple):
    """A value with its confidence interval; the ends are NaN where there is none."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


class PairedDifference(NamedTuple):
    """Mean of A - B over the same faces, its interval, and two-sided p-values."""

    difference: float
    low: float
    high: float
    p_value: float
    """of the mean, from the resamples"""
    signed_rank: float
    """Wilcoxon's: whether differences are as often and as far on one side as on the other"""


def bootstrap(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
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
    counts = None if weights is None else np.asarray(weights, dtype=np.float64)[:, None]
    return bootstrap_columns(numbers[:, None], counts, resamples=resamples, level=level, seed=seed)[
        0
    ]


def bootstrap_columns(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> list[Interval]:
    """`bootstrap` for each column of `values` (n, m), drawing the faces once for all of them."""
    numbers = np.asarray(values, dtype=np.float64)
    counts = np.ones_like(numbers) if weights is None else np.asarray(weights, dtype=np.float64)
    if numbers.ndim != 2 or counts.shape != numbers.shape:
        raise InputError(
            f"values and weights must both be (n, m), got {numbers.shape} and {counts.shape}."
        )
    known = ~np.isnan(numbers) & (counts > 0)
    numbers, counts = np.where(known, numbers, 0.0), np.where(known, counts, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = numbers.sum(axis=0) / counts.sum(axis=0)
    low, high = np.full((2, numbers.shape[1]), np.nan)
    enough = known.sum(axis=0) >= 2
    if enough.any():
        drawn = _statistics(numbers[:, enough], counts[:, enough], resamples, seed)
        tail = (1.0 - level) / 2.0
        low[enough], high[enough] = np.nanquantile(drawn, (tail, 1.0 - tail), axis=0)
    return [
        Interval(float(mean), float(lowest), float(highest))
        for mean, lowest, highest in zip(means, low, high, strict=True)
    ]


def paired_bootstrap(
    a: ArrayLike, b: ArrayLike, *, resamples: int = 2000, level: float = 0.95, seed: int = 0
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
    both = ~(np.isnan(first) | np.isnan(second))
    difference = first[both] - second[both]
    if not len(difference):
        return PairedDifference(*(float("nan"),) * 5)
    value = float(difference.mean())
    if len(difference) < 2:
        return PairedDifference(value, *(float("nan"),) * 4)
    drawn = _statistics(difference[:, None], np.ones((len(difference), 1)), resamples, seed)[:, 0]
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(drawn, (tail, 1.0 - tail))
    below, above = (drawn <= 0).sum(), (drawn >= 0).sum()
    p_value = min(1.0, 2.0 * (min(below, above) + 1) / (resamples + 1))
    return PairedDifference(
        value, float(low), float(high), float(p_value), _signed_rank(difference)
    )


def _signed_rank(difference: Floats) -> float:
    if not np.any(difference):
        return 1.0
    return float(require("scipy.stats", "evaluate").wilcoxon(difference).pvalue)


def _statistics(numbers: Floats, counts: Floats, resamples: int, seed: int) -> Floats:
    """(resamples, m) ratios of the columns' sums in each resample of the rows."""
    columns = np.concatenate([numbers, counts], axis=1)
    parts = [drawn @ columns for drawn in _resampled_counts(len(columns), resamples, seed)]
    sums, totals = np.split(np.concatenate(parts), 2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / totals)


def _resampled_counts(faces: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Blocks (b, n): how often each face stands in each resample."""
    generator = np.random.default_rng(seed)
    block = max(1, _DRAWS_AT_ONCE // faces)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = generator.integers(faces, size=(rows, faces), dtype=np.int64)
        drawn += np.arange(rows)[:, None] * faces
        counts = np.bincount(drawn.ravel(), minlength=rows * faces)
        yield counts.reshape(rows, faces).astype(np.float64)
