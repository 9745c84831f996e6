"""The heart: a landmark as a mixed random variable (section 3.2, eq. 1 to 5).

It is visible with some probability; if visible, it has a location; if not, it has none.
"""

from __future__ import annotations

from typing import NamedTuple

from luvli.arrays import Array
from luvli.likelihood.covariance import library
from luvli.likelihood.elliptical import Elliptical


class Mixed(NamedTuple):
    """Visible or not, and where, if visible.

    >>> import numpy as np
    >>> from luvli.likelihood import Gauss
    >>> location = Gauss(np.zeros((1, 2)), np.array([[1.0, 0.0, 1.0]]))
    >>> landmark = Mixed.from_probability(location, np.array([0.75]))
    >>> landmark.log_prob(np.array([False]), np.array([[np.nan, np.nan]])).round(4).tolist()
    [-1.3863]
    """

    location: Elliptical
    """where, if visible: mean (..., 2)"""
    visibility_logit: Array
    """(...) log odds of being visible; they do not saturate as probabilities do"""

    @classmethod
    def from_probability(cls, location: Elliptical, visibility: Array) -> Mixed:
        """The same from probabilities (...)."""
        xp = library(visibility)
        return cls(location, xp.log(visibility) - xp.log1p(-visibility))

    def visibility_log_prob(self, visible: Array) -> Array:
        """log q(v) (eq. 2) for visible (...), boolean."""
        xp = library(self.visibility_logit)
        logit = xp.where(visible, -self.visibility_logit, self.visibility_logit)
        return -xp.logaddexp(xp.zeros_like(logit), logit)

    def log_prob(self, visible: Array, points: Array) -> Array:
        """log q(v, z), the negative of eq. 5; `points` are ignored where not visible."""
        xp = library(self.visibility_logit, points)
        # replaced before, not after: NaN would pass through the gradient of `where`
        known = xp.where(visible[..., None], points, self.location.mean)
        located = self.location.log_prob(known)
        zero = xp.zeros_like(located)
        return self.visibility_log_prob(visible) + xp.where(visible, located, zero)
