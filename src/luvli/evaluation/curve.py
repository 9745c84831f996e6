"""`Curve`: what every curve and binned comparison of an evaluation is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError


class NotMeasured(InputError):
    """A metric or figure needs what the predictions or labels do not have."""


class Curve(NamedTuple):
    """Points of a curve, or means of bins, and the one number that sums them up."""

    x: Floats
    y: Floats
    value: float = float("nan")
    """area, calibration error or correlation: the function that made the curve says which"""
    counts: NDArray[np.int64] | None = None
    """of bins: how many stand in each"""


NO_CURVE = Curve(np.empty(0), np.empty(0), float("nan"), np.empty(0, np.int64))


def trapezia(x: Floats, y: Floats) -> float:
    """Area under straight lines through the points."""
    return float(((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2.0).sum())


def reliability(probability: ArrayLike, outcome: ArrayLike, bins: int = 10) -> Curve:
    """Mean probability (x) and share of events (y) in `bins` ranges of equal width, empty ones
    left out; the value is the expected calibration error, mean |y - x| weighted by their counts.

    >>> reliability([0.9, 0.9, 0.1, 0.1], [True, True, False, True]).value
    0.25
    """
    p, happened = np.asarray(probability, dtype=np.float64), np.asarray(outcome, dtype=bool)
    if not p.size:
        return NO_CURVE
    place = np.minimum((p * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    used = count > 0
    x, y = (np.bincount(place, w, bins)[used] / count[used] for w in (p, happened))
    return Curve(x, y, float(np.average(np.abs(y - x), weights=count[used])), count[used])


def known_mean(values: Any, axis: int | None = None) -> Any:
    """Mean of what is not NaN, without a warning; NaN where there is nothing.

    >>> known_mean(np.array([[1.0, np.nan], [np.nan, np.nan]]), axis=1)
    array([ 1., nan])
    """
    array = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(array)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, array, 0.0).sum(axis=axis) / known.sum(axis=axis)
    return float(mean) if mean.ndim == 0 else mean
