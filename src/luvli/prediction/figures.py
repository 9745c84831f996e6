"""A face in a few numbers, for tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luvli.faces import FaceLandmarks
from luvli.likelihood.covariance import determinant
from luvli.markup import get_markup, is_markup


def uncertainty(face: FaceLandmarks) -> NDArray[np.float64]:
    """(k,) standard deviation of each landmark in pixels: |Sigma|^(1/4), the geometric mean of
    the half-axes of its ellipse at Mahalanobis distance 1."""
    return np.asarray(determinant(face.covariance) ** 0.25, dtype=np.float64)


def least_sure(face: FaceLandmarks, count: int = 5) -> list[tuple[str, float]]:
    """Names and uncertainties of the least sure landmarks, the worst first."""
    spread = uncertainty(face)
    names = (
        get_markup(face.markup).names
        if is_markup(face.markup)
        else [f"landmark {j}" for j in range(len(face))]
    )
    return [(names[j], float(spread[j])) for j in np.argsort(-spread)[:count]]
