"""The two-dimensional Laplacian of the paper (eq. 12).

    P(z) = exp(-sqrt(3) r) / (2 pi / 3 * sqrt(det Sigma)),    r = Mahalanobis radius

It integrates to 1, and its covariance is exactly Sigma: sqrt(3) r follows a Gamma
distribution of shape 2, so E[r^2] = 6 / 3 = 2, which is 1 for each of the two whitened coordinates.
"""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Array, Floats
from luvli.errors import require
from luvli.likelihood.elliptical import Elliptical, checked_probability

ROOT3 = sqrt(3.0)


class Laplace(Elliptical):
    """Laplacian locations: heavier tails than the Gaussian, the paper's choice.

    >>> standard = Laplace(np.zeros(2), np.array([1.0, 0.0, 1.0]))
    >>> round(float(standard.log_prob(np.zeros(2))), 4)  # log(3 / 2 pi)
    -0.7393
    >>> round(float(standard.radius_quantile(0.95)), 4)
    2.7389
    """

    log_constant = log(2 * pi / 3)

    @classmethod
    def radius_energy(cls, radius: Array) -> Array:
        return ROOT3 * radius

    @classmethod
    def radius_probability(cls, radius: ArrayLike) -> Any:
        t = ROOT3 * np.asarray(radius, dtype=np.float64)
        return -np.expm1(-t) - t * np.exp(-t)

    @classmethod
    def radius_quantile(cls, probability: ArrayLike) -> Any:
        return gamma2_quantile(probability) / ROOT3

    @classmethod
    def standard_marginal(cls, x: ArrayLike) -> Any:
        special = require("scipy.special", "evaluate")
        t = ROOT3 * np.abs(np.asarray(x, dtype=np.float64))
        # t K1(t) -> 1 as t -> 0, where K1 itself is infinite
        with np.errstate(invalid="ignore"):
            shape = np.where(t > 0, t * special.k1(t), 1.0)
        return ROOT3 / pi * shape

    @classmethod
    def laguerre_rule(cls, count: int) -> tuple[Floats, Floats]:
        # sqrt(3) r follows a Gamma distribution of shape 2
        t, weights = np.polynomial.laguerre.laggauss(count)
        return t / ROOT3, weights * t

    def entropy(self) -> Array:
        return self.log_det_term() + self.log_constant + 2.0  # E[sqrt(3) r] = 2


def gamma2_quantile(probability: ArrayLike) -> Any:
    """t >= 0 with 1 - (1 + t) exp(-t) = p: Newton steps, each from a safe side.

    The survival function s(t) = (1 + t) exp(-t) has a concave logarithm, so Newton on
    log s(t) = log(1 - p) converges from any start; near p = 0, where that logarithm is
    flat, p ~ t^2 / 2 gives the start and p itself is matched.
    """
    p = checked_probability(probability)
    inner = (p > 0) & (p < 1)
    q = np.where(inner, p, 0.5)
    target = np.log1p(-q)
    t = np.sqrt(2 * q) - np.minimum(target, 0.0)  # above the root near 0, near it far out
    for _ in range(60):
        survival = np.log1p(t) - t
        step = (survival - target) * (1 + t) / t  # (log s)' = -t / (1 + t)
        t = np.maximum(t + step, t / 4)
        if np.all(np.abs(step) <= 1e-15 * t):
            break
    return np.where(inner, t, np.where(p == 0, 0.0, np.inf))[()]
