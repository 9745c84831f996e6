"""Has the world changed since calibration? Guarantees hold for faces like the calibration's.

The distribution of what the predictions look like (uncertainty, plausibility of the shape,
fit to the box, detector's score) is compared with that of the calibration faces by two-sample
Kolmogorov-Smirnov tests, one for each feature, with the Bonferroni correction: on faces that
are exchangeable with the calibration's, an alarm is raised with at most the stated
probability. With labels at hand, radii are compared in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luvli.errors import check_range
from luvli.network.trust_tables import ShiftTable

KEPT = 256
"""order statistics that are kept of each feature"""
DECIMALS = 5
FEWEST = 20
"""faces below which nothing is tested"""


class Shift(NamedTuple):
    """What the tests found."""

    alarm: bool
    p_values: dict[str, float]
    """by feature, before correction; NaN where there were too few faces"""
    distance: dict[str, float]
    """largest difference of the two distribution functions, 0..1, by feature"""

    @property
    def worst(self) -> str:
        """The feature that differs most clearly."""
        return min(self.p_values, key=lambda name: (self.p_values[name], name))


def fit_shift(features: Mapping[str, ArrayLike]) -> ShiftTable:
    """Keep the quantiles of each feature (n,) of the calibration faces."""
    quantiles: dict[str, list[float]] = {}
    faces = 0
    for name, values in features.items():
        known = np.asarray(values, dtype=np.float64).ravel()
        known = np.sort(known[np.isfinite(known)])
        faces = max(faces, len(known))
        if len(known) > KEPT:
            known = np.quantile(known, (np.arange(KEPT) + 0.5) / KEPT)
        quantiles[name] = [round(float(value), DECIMALS) for value in known]
    return ShiftTable(quantiles=quantiles, faces=faces)


def find_shift(table: ShiftTable, features: Mapping[str, ArrayLike], level: float = 0.01) -> Shift:
    """Compare the features of new faces with those of the calibration faces."""
    check_range("the level of the test", level, 0, 1, ends=False)
    p_values: dict[str, float] = {}
    distances: dict[str, float] = {}
    for name, reference in table.quantiles.items():
        values = np.asarray(features.get(name, ()), dtype=np.float64).ravel()
        values = np.round(values[np.isfinite(values)], DECIMALS)  # as those that were kept
        if len(values) < FEWEST or len(reference) < FEWEST:
            p_values[name] = distances[name] = math.nan
            continue
        # what was thinned out can hide or feign a difference of half a step
        blur = 0.5 / len(reference) if table.faces > len(reference) else 0.0
        distance = max(0.0, ks_distance(values, np.array(reference)) - blur)
        distances[name] = distance
        p_values[name] = ks_p_value(distance, len(values), max(table.faces, len(reference)))
    tested = [value for value in p_values.values() if not math.isnan(value)]
    alarm = bool(tested) and min(tested) * len(tested) < level
    return Shift(alarm, p_values, distances)


def ks_distance(first: ArrayLike, second: ArrayLike) -> float:
    """Largest difference of two empirical distribution functions.

    >>> ks_distance([1.0, 2.0], [1.5, 3.0])
    0.5
    """
    a, b = np.sort(np.ravel(np.asarray(first))), np.sort(np.ravel(np.asarray(second)))
    both = np.concatenate([a, b])
    gap = np.searchsorted(a, both, "right") / len(a) - np.searchsorted(b, both, "right") / len(b)
    return float(np.abs(gap).max())


def ks_p_value(distance: float, n: int, m: int) -> float:
    """Asymptotic probability of a distance at least as large without any difference."""
    root = math.sqrt(n * m / (n + m))
    x = (root + 0.12 + 0.11 / root) * distance
    if x < 0.2:
        return 1.0
    terms = [(-1) ** (i - 1) * math.exp(-2 * i * i * x * x) for i in range(1, 101)]
    return float(min(1.0, max(0.0, 2 * sum(terms))))
