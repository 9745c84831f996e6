"""What the Laplacian, the Gaussian and Student's t share: density by Mahalanobis radius alone.

A location is mu + L u r with u uniform on the unit circle and a radius r whose distribution is all
that the families differ in. Arrays may be numpy's or PyTorch's (see `covariance`).

A family of one's own is a subclass with `log_constant` and `radius_energy`, and a call of
`register_likelihood`; then it can be trained and scored by NLL. Each further method opens what
needs it; without the method that is refused by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import pi
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Array, Floats
from luvli.errors import InputError
from luvli.likelihood import covariance as cov


def checked_probability(given: ArrayLike) -> Floats:
    """`given` as numbers; refused where they do not lie in 0..1."""
    p = np.asarray(given, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("a probability must lie in 0..1.")
    return p


class MissingMethod(InputError):
    """A likelihood has not the method that something needs."""


class Elliptical(ABC):
    """A distribution of locations with mean (..., 2) and covariance (..., 2, 2).

    Units are those of `mean`: heat-map, crop or image pixels.
    """

    log_constant: ClassVar[float]
    """log of the density's constant factor, so that -log P = T1 + T2 + log_constant"""

    def __init__(self, mean: Array, cholesky: Array) -> None:
        """`cholesky` (..., 3) holds L11, L21, L22 of the covariance L L^T."""
        if mean.shape[-1:] != (2,) or cholesky.shape[-1:] != (3,):
            raise InputError(
                "a distribution needs mean (..., 2) and cholesky (..., 3), "
                f"got {tuple(mean.shape)} and {tuple(cholesky.shape)}."
            )
        self.mean = mean
        self.cholesky = cholesky

    @classmethod
    def from_covariance(cls, mean: Array, covariance: Array) -> Self:
        """The same from covariances (..., 2, 2)."""
        return cls(mean, cov.to_cholesky(covariance))

    @property
    def covariance(self) -> Array:
        """(..., 2, 2): exactly the covariance of the random location."""
        return cov.from_cholesky(self.cholesky)

    # -- density ---------------------------------------------------------------------------

    def mahalanobis(self, points: Array) -> Array:
        """Mahalanobis radius of points (..., 2) -> (...)."""
        return cov.mahalanobis(points - self.mean, self.cholesky)

    def log_det_term(self) -> Array:
        """T1 of eq. 11 and 13: half the log-determinant of the covariance."""
        return cov.half_log_determinant(self.cholesky)

    def distance_term(self, points: Array) -> Array:
        """T2 of eq. 11 or 13: what the density falls with."""
        return self.radius_energy(self.mahalanobis(points))

    def log_prob(self, points: Array) -> Array:
        """Log-density at points (..., 2), in nats per square pixel -> (...)."""
        return -(self.log_det_term() + self.distance_term(points) + self.log_constant)

    # -- radius: the same for every member of the family -----------------------------------

    @classmethod
    @abstractmethod
    def radius_energy(cls, radius: Array) -> Array:
        """T2 as a function of the Mahalanobis radius."""

    @classmethod
    def radius_probability(cls, radius: ArrayLike) -> Any:
        """Probability that the Mahalanobis radius is at most `radius`."""
        raise cls._without("radius_probability", "coverage and calibration")

    @classmethod
    def radius_quantile(cls, probability: ArrayLike) -> Any:
        """Mahalanobis radius of the ellipse that holds `probability` (0..1)."""
        raise cls._without("radius_quantile", "ellipses, calibration and samples")

    @classmethod
    def standard_marginal(cls, x: ArrayLike) -> Any:
        """Density of one coordinate of the standard member (mean 0, covariance I)."""
        raise cls._without("standard_marginal", "CRPS, energy score and marginals")

    @classmethod
    def laguerre_rule(cls, count: int) -> tuple[Floats, Floats]:
        """`count` radii and weights of the Gauss-Laguerre rule for E[f(r)]."""
        raise cls._without("laguerre_rule", "distillation")

    @classmethod
    def _without(cls, method: str, purpose: str) -> MissingMethod:
        return MissingMethod(
            f"the likelihood {cls.__name__} has no {method}, which is needed for {purpose}: add "
            "the method, or use a likelihood that has it (laplace, gauss)."
        )

    def entropy(self) -> Array:
        """Differential entropy in nats -> (...)."""
        raise self._without("entropy", "the entropy of predictions")

    def sample(self, n: int, rng: np.random.Generator) -> Any:
        """n independent locations for each member: (n, ..., 2), numpy."""
        shape = (n, *self.mean.shape[:-1])
        radius = self.radius_quantile(rng.random(shape))
        angle = rng.uniform(0.0, 2 * pi, shape)
        u, v = radius * np.cos(angle), radius * np.sin(angle)
        x = self.cholesky[..., 0] * u
        y = self.cholesky[..., 1] * u + self.cholesky[..., 2] * v
        return np.stack([x, y], -1) + self.mean
