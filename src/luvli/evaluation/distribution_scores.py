"""Scores of whole predicted distributions: energy score, CRPS, sharpness, width.

Proper scores ask for calibration and sharpness at once and, unlike the likelihood, do not
explode where a landmark falls far out. All are lengths: lower is better, 0 is a sure and exact
prediction, and a prediction without spread scores its distance from the label.

Arguments are in the order prediction, spread, truth, as in `luvli.evaluation.uncertainty`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import require
from luvli.evaluation.uncertainty import LikelihoodName, spread_root, usable_landmarks
from luvli.likelihood import Student, family

DIRECTIONS = 16
"""directions that the energy score is averaged over: exact to 1e-3 for axes of 1 : 5"""
_FAR = 40.0  # standard deviations: beyond, the closed forms are their limits


def energy_score(
    predicted: ArrayLike,
    covariance: ArrayLike,
    truth: ArrayLike,
    likelihood: LikelihoodName = "laplace",
    visible: ArrayLike | None = None,
    *,
    directions: int = DIRECTIONS,
) -> Floats:
    """(n, k) energy score E|X - p| - E|X - X'| / 2 of each label p, in pixels; NaN where unusable.

    In the plane the length of a vector is pi/2 times the mean of its projections' absolute
    values, so that the score is pi/2 times the mean CRPS of the projections, each of which is
    the density's own marginal.
    """
    mask = usable_landmarks(predicted, covariance, truth, visible)
    mean, spread, point = (np.asarray(a, np.float64)[mask] for a in (predicted, covariance, truth))
    total = np.zeros(len(mean))
    for angle in np.arange(directions) * np.pi / directions:
        u = np.array([np.cos(angle), np.sin(angle)])
        deviation = np.sqrt(np.einsum("i,mij,j->m", u, spread, u))
        total += deviation * _tabulated_crps((point - mean) @ u / deviation, likelihood)
    return _spread_out(mask, np.pi / 2 * total / directions)


def crps(
    predicted: ArrayLike,
    covariance: ArrayLike,
    truth: ArrayLike,
    likelihood: LikelihoodName = "laplace",
    visible: ArrayLike | None = None,
) -> Floats:
    """(n, k) mean of the CRPS of x and of y, in pixels; NaN where unusable."""
    mask = usable_landmarks(predicted, covariance, truth, visible)
    mean, spread, point = (np.asarray(a, np.float64)[mask] for a in (predicted, covariance, truth))
    deviation = np.sqrt(np.stack([spread[:, 0, 0], spread[:, 1, 1]], axis=1))
    values = deviation * _tabulated_crps((point - mean) / deviation, likelihood)
    return _spread_out(mask, values.mean(axis=1))


def standard_crps(z: ArrayLike, likelihood: LikelihoodName = "laplace") -> Floats:
    """CRPS E|Z - z| - E|Z - Z'| / 2 of one coordinate of the standard density, at values z.

    >>> float(standard_crps(0.0, "gauss").round(4))  # (sqrt(2) - 1) / sqrt(pi)
    0.2337
    """
    special = require("scipy.special", "evaluate")
    x = np.abs(np.asarray(z, dtype=np.float64))
    if likelihood == "gauss":
        density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        return np.asarray(x * special.erf(x / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi))
    kind = family(likelihood)
    if issubclass(kind, Student):
        return _student_crps(x, kind.freedom)
    near = np.minimum(x, _FAR)
    inside = 2 * _laplace_half(near)
    return np.asarray(x * inside + 2 * _laplace_tail(near) - laplace_gini() / 2)


def _tabulated_crps(z: Floats, likelihood: LikelihoodName) -> Floats:
    """`standard_crps` by linear interpolation, to 1e-5: Bessel functions of millions are slow."""
    grid, table = _crps_table(likelihood)
    x = np.abs(z)
    beyond = np.maximum(x - grid[-1], 0.0)  # far out it grows as fast as the distance
    return np.asarray(np.interp(x, grid, table) + beyond)


@cache
def _crps_table(likelihood: LikelihoodName) -> tuple[Floats, Floats]:
    grid = np.linspace(0.0, 30.0, 6001)
    return grid, standard_crps(grid, likelihood)


def _student_crps(x: Floats, freedom: float) -> Floats:
    """The same of Student's law with variance 1 at x >= 0."""
    special = require("scipy.special", "evaluate")
    stretch = np.sqrt(freedom / (freedom - 2))  # to the textbook's t, whose scale is 1
    t = x * stretch
    logs = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2)
    density = np.exp(logs - (freedom + 1) / 2 * np.log1p(t**2 / freedom)) / np.sqrt(freedom * np.pi)
    beta = np.exp(special.betaln(0.5, freedom - 0.5) - 2 * special.betaln(0.5, freedom / 2))
    inside = t * (2 * special.stdtr(freedom, t) - 1)
    outside = 2 * density * (freedom + t**2) / (freedom - 1)
    gini = 2 * np.sqrt(freedom) / (freedom - 1) * beta
    return np.asarray((inside + outside - gini) / stretch)


def _laplace_half(x: Floats) -> Floats:
    """P(0 < Z < x) of the Laplacian's marginal sqrt(3)/pi t K1(t), t = sqrt(3) x >= 0."""
    special = require("scipy.special", "evaluate")
    t = np.sqrt(3.0) * x
    rising = np.where(t > 0, t * special.k0(np.maximum(t, 1e-300)), 0.0)
    return np.asarray((special.iti0k0(t)[1] - rising) / np.pi)


def _laplace_tail(x: Floats) -> Floats:
    """E[Z; Z > x] of the same marginal: t^2 K2(t) / (sqrt(3) pi)."""
    special = require("scipy.special", "evaluate")
    t = np.sqrt(3.0) * x
    shape = np.where(t > 1e-8, t**2 * special.kn(2, np.maximum(t, 1e-8)), 2.0)
    return np.asarray(shape / (np.sqrt(3.0) * np.pi))


@cache
def laplace_gini() -> float:
    """E|Z - Z'| of one coordinate of the standard Laplacian, about 1.07."""
    integrate = require("scipy.integrate", "evaluate")

    def product(x: float) -> float:
        half = float(_laplace_half(np.asarray(x)))
        return 0.25 - half**2

    area, _ = integrate.quad(product, 0.0, 20.0, epsabs=1e-12)
    return 4.0 * float(area)


def sharpness(covariance: ArrayLike, scale: ArrayLike | None = None) -> Floats:
    """(n, k) |Sigma|^(1/4), the radius of the circle as large as the ellipse at distance 1.

    In pixels, or in units of `scale` (n,). It says how sure predictions are, not whether
    they are right: compare it at equal coverage (`width_at_coverage`).
    """
    length = np.sqrt(spread_root(covariance))
    if scale is None:
        return np.asarray(length)
    return np.asarray(length / np.asarray(scale, dtype=np.float64)[:, None])


def width_at_coverage(radius: ArrayLike, length: ArrayLike, level: float = 0.9) -> float:
    """Mean radius of the regions that do hold a share `level` of the labels, in `length`'s unit.

    `radius` are Mahalanobis distances (`uncertainty.radii`), `length` |Sigma|^(1/4) of the same
    landmarks. All ellipses are widened or narrowed by one factor until they hold `level`, so
    that methods are compared at equal coverage: the smaller, the more useful.

    >>> width_at_coverage([1.0, 2.0, 3.0, 4.0], [0.5, 0.5, 0.5, 0.5], 0.5)
    1.0
    """
    distance, size = (np.asarray(a, dtype=np.float64).ravel() for a in (radius, length))
    known = ~np.isnan(distance) & np.isfinite(size)
    if not known.any():
        return float("nan")
    reach = np.quantile(distance[known], level, method="inverted_cdf")
    return float(reach * size[known].mean())


def _spread_out(mask: NDArray[np.bool_], values: Any) -> Floats:
    full = np.full(mask.shape, np.nan)
    full[mask] = values
    return full
