"""The two-dimensional Gaussian (eq. 10)."""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Array, Floats
from luvli.likelihood import covariance as cov
from luvli.likelihood.elliptical import Elliptical, checked_probability


class Gauss(Elliptical):
    """Gaussian locations.

    >>> standard = Gauss(np.zeros(2), np.array([1.0, 0.0, 1.0]))
    >>> round(float(standard.log_prob(np.zeros(2))), 4)  # -log(2 pi)
    -1.8379
    >>> round(float(standard.radius_quantile(0.95)), 4)
    2.4477
    """

    log_constant = log(2 * pi)

    @classmethod
    def radius_energy(cls, radius: Array) -> Array:
        return 0.5 * radius * radius

    @classmethod
    def radius_probability(cls, radius: ArrayLike) -> Any:
        r = np.asarray(radius, dtype=np.float64)
        return -np.expm1(-0.5 * r * r)

    @classmethod
    def radius_quantile(cls, probability: ArrayLike) -> Any:
        p = checked_probability(probability)
        with np.errstate(divide="ignore"):
            return np.sqrt(-2.0 * np.log1p(-p))

    @classmethod
    def standard_marginal(cls, x: ArrayLike) -> Any:
        x = np.asarray(x, dtype=np.float64)
        return np.exp(-0.5 * x * x) / sqrt(2 * pi)

    @classmethod
    def laguerre_rule(cls, count: int) -> tuple[Floats, Floats]:
        # r^2 / 2 follows an exponential distribution
        t, weights = np.polynomial.laguerre.laggauss(count)
        return np.sqrt(2 * t), weights

    def entropy(self) -> Array:
        return self.log_det_term() + self.log_constant + 1.0  # E[r^2] / 2 = 1

    def kl_divergence(self, other: Gauss) -> Array:
        """D_KL(self || other) in nats -> (...)."""
        # E[r^2] under `other` = squared distance of the means + trace(Sigma_other^-1 Sigma), and
        # the trace is the squared Mahalanobis length of the columns of L
        l11, l21, l22 = (self.cholesky[..., i] for i in range(3))
        xp = cov.library(l11, other.cholesky)
        columns = (xp.stack([l11, l21], -1), xp.stack([xp.zeros_like(l22), l22], -1))
        squares = sum(cov.mahalanobis(column, other.cholesky) ** 2 for column in columns)
        distance = (other.mahalanobis(self.mean) ** 2 + squares) / 2
        return other.log_det_term() - self.log_det_term() + distance - 1.0
