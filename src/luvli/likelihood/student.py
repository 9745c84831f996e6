"""Student's t in two dimensions: a Gaussian whose scale is itself not quite known.

    P(z) = (1 + r^2 / (nu - 2))^(-(nu + 2) / 2) / (2 pi (nu - 2) / nu * sqrt(det Sigma))

with r the Mahalanobis radius and nu > 2 degrees of freedom. Its covariance is exactly Sigma. It is
rounder than the Laplacian in the middle, and the errors of a network whose covariances were
calibrated follow it closely: each landmark's error is nearly Gaussian, and the network knows
its spread only so well. No network is trained with it; `luvli.calibration.covariance` fits nu.
"""

from __future__ import annotations

from functools import cache
from math import isfinite, lgamma, log, pi, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Array
from luvli.errors import InputError
from luvli.likelihood import covariance as cov
from luvli.likelihood.elliptical import Elliptical, checked_probability

MOST = 1e4
"""degrees of freedom beyond which nothing is left to tell it from the Gaussian"""


class Student(Elliptical):
    """Student's locations; `student(nu)` gives the class with nu degrees of freedom.

    >>> standard = student(8)(np.zeros(2), np.array([1.0, 0.0, 1.0]))
    >>> round(float(standard.log_prob(np.zeros(2))), 4)  # log(8 / (2 pi 6))
    -1.5502
    >>> round(float(standard.radius_quantile(0.95)), 4)
    2.5862
    """

    freedom: ClassVar[float]
    """nu, above 2"""

    @classmethod
    def radius_energy(cls, radius: Array) -> Array:
        xp = cov.library(radius)
        return (cls.freedom + 2) / 2 * xp.log1p(radius * radius / (cls.freedom - 2))

    @classmethod
    def radius_probability(cls, radius: ArrayLike) -> Any:
        r = np.asarray(radius, dtype=np.float64)
        return -np.expm1(-cls.freedom / 2 * np.log1p(r * r / (cls.freedom - 2)))

    @classmethod
    def radius_quantile(cls, probability: ArrayLike) -> Any:
        p = checked_probability(probability)
        with np.errstate(divide="ignore"):
            return np.sqrt((cls.freedom - 2) * np.expm1(-2 / cls.freedom * np.log1p(-p)))

    @classmethod
    def standard_marginal(cls, x: ArrayLike) -> Any:
        nu = cls.freedom
        height = np.exp(lgamma((nu + 1) / 2) - lgamma(nu / 2)) / sqrt(pi * (nu - 2))
        return height * (1 + np.square(np.asarray(x, dtype=np.float64)) / (nu - 2)) ** (
            -(nu + 1) / 2
        )

    def entropy(self) -> Array:
        # 1 + r^2 / (nu - 2) is Pareto with shape nu / 2, and its log has the mean 2 / nu
        return self.log_det_term() + self.log_constant + 1.0 + 2.0 / self.freedom


@cache
def student(freedom: float) -> type[Student]:
    """The class of locations with so many degrees of freedom, above 2."""
    if not isfinite(freedom) or not 2 < freedom <= MOST:
        raise InputError(
            f"Student's t needs more than 2 and at most {MOST:g} degrees of freedom, "
            f"got {freedom:g}."
        )
    constant = log(2 * pi * (freedom - 2) / freedom)
    name = f"Student{freedom:g}".replace(".", "_")
    return type(name, (Student,), {"freedom": float(freedom), "log_constant": constant})
