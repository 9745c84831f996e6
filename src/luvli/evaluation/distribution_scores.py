"""Scores of whole predicted distributions: energy score, CRPS and width.

Proper scores ask for calibration and sharpness at once and, unlike the likelihood, do not
explode where a landmark falls far out. All are lengths: lower is better, 0 is a sure and exact
prediction, and a prediction without spread scores its distance from the label. They follow from
the marginal density of the likelihood, whichever it is.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.evaluation.uncertainty import Residuals
from luvli.likelihood import Elliptical, family

AXES = np.eye(2)
DIRECTIONS = 16
"""directions that the energy score is averaged over: exact to 1e-3 for axes of 1 : 5"""


def energy_score(residuals: Residuals) -> Floats:
    """(n, k) energy score E|X - p| - E|X - X'| / 2 of each label p, in pixels; NaN where unusable.

    In the plane the length of a vector is pi/2 times the mean of its projections' absolute
    values, so that the score is pi/2 times the mean CRPS of the projections, each of which is
    the density's own marginal.
    """
    angles = np.arange(DIRECTIONS) * np.pi / DIRECTIONS
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.pi / 2 * crps(residuals, directions)


def crps(residuals: Residuals, directions: Floats = AXES) -> Floats:
    """(n, k) mean CRPS of the projections onto the directions (d, 2), in pixels: of x and y unless
    others are named; NaN where unusable."""
    gap, spread, likelihood = residuals
    total = np.zeros(gap.shape[:-1])
    for u in directions:
        deviation = np.sqrt(np.einsum("i,...ij,j->...", u, spread, u))
        total += deviation * standard_crps(gap @ u / deviation, likelihood)
    return total / len(directions)


def standard_crps(z: ArrayLike, likelihood: str = "laplace") -> Floats:
    """CRPS E|Z - z| - E|Z - Z'| / 2 of one coordinate of the standard density, at values z.

    >>> float(standard_crps(0.0, "gauss").round(4))  # (sqrt(2) - 1) / sqrt(pi)
    0.2337
    """
    grid, table = _crps_table(family(likelihood))
    x = np.abs(np.asarray(z, dtype=np.float64))
    # far out it grows as fast as the distance
    return np.asarray(np.interp(x, grid, table) + np.maximum(x - grid[-1], 0.0))


@cache
def _crps_table(kind: type[Elliptical]) -> tuple[Floats, Floats]:
    """Values at z >= 0, to 1e-5. With G(z) = P(0 < Z < z) the CRPS rises by 2 G(z), from
    2 * the integral of (1/2 - G)^2 at z = 0."""
    grid = np.linspace(0.0, 40.0, 8001)
    inside = _integral(kind.standard_marginal(grid), grid)
    start = 2.0 * _integral((0.5 - inside) ** 2, grid)[-1]
    return grid, start + 2.0 * _integral(inside, grid)


def _integral(values: Floats, x: Floats) -> Floats:
    """The running integral by trapezia, from 0."""
    return np.append(0.0, np.cumsum((values[1:] + values[:-1]) / 2.0 * np.diff(x)))


def width_at_coverage(radii: Floats, length: Floats, level: float = 0.9) -> float:
    """Mean radius of the regions that do hold a share `level` of the labels, in `length`'s unit.

    `radii` are Mahalanobis distances, `length` |Sigma|^(1/4) of the same landmarks. All ellipses
    are scaled by one factor until they hold `level`, so that methods are compared at equal
    coverage: the smaller, the more useful.

    >>> width_at_coverage(np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, 0.5), 0.5)
    1.0
    """
    known = ~np.isnan(radii) & np.isfinite(length)
    if not known.any():
        return float("nan")
    reach = np.quantile(radii[known], level, method="inverted_cdf")
    return float(reach * length[known].mean())
