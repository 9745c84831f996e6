"""Algebra of 2x2 covariances, in closed form, for numpy arrays and PyTorch tensors alike.

A covariance is (..., 2, 2); its Cholesky entries are (..., 3) as L11, L21, L22 of
Sigma = L L^T. PyTorch is never imported here: a tensor brings its own library along, and
with it the gradients.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from luvli.arrays import Array, Bools


def library(*arrays: Array) -> Any:
    """The module whose functions fit the arrays: torch if one of them is a tensor, else numpy."""
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(array, torch.Tensor) for array in arrays):
        return torch
    return np


def is_covariance(matrices: Array, tolerance: float = 1e-3) -> Bools:
    """(...) whether each matrix (..., 2, 2) is positive-definite, and symmetric up to this share of
    its larger variance; numpy.

    >>> is_covariance(np.array([np.eye(2), [[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.0, 1.0]]]))
    array([ True, False, False])
    """
    values = np.asarray(matrices, dtype=np.float64)
    xx, xy = values[..., 0, 0], values[..., 0, 1]
    yx, yy = values[..., 1, 0], values[..., 1, 1]
    with np.errstate(invalid="ignore", over="ignore"):
        symmetric = np.abs(xy - yx) <= tolerance * np.maximum(np.abs(xx), np.abs(yy))
        positive = (xx > 0) & (xx * yy - xy * yx > 0) & np.isfinite(xx + yy)
    return np.asarray(symmetric & positive)


def from_cholesky(cholesky: Array) -> Array:
    """Entries (..., 3) -> covariance L L^T (..., 2, 2).

    >>> from_cholesky(np.array([2.0, 1.0, 3.0])).tolist()
    [[4.0, 2.0], [2.0, 10.0]]
    """
    l11, l21, l22 = cholesky[..., 0], cholesky[..., 1], cholesky[..., 2]
    return _symmetric(l11 * l11, l11 * l21, l21 * l21 + l22 * l22)


def to_cholesky(covariance: Array) -> Array:
    """Covariance (..., 2, 2) -> Cholesky entries (..., 3); the inverse of `from_cholesky`.

    >>> to_cholesky(np.array([[4.0, 2.0], [2.0, 10.0]])).tolist()
    [2.0, 1.0, 3.0]
    """
    xp = library(covariance)
    l11 = xp.sqrt(covariance[..., 0, 0])
    l21 = covariance[..., 1, 0] / l11
    # det / S11 instead of S22 - L21^2: the latter may come out negative after rounding
    l22 = xp.sqrt(determinant(covariance)) / l11
    return xp.stack([l11, l21, l22], -1)


def determinant(covariance: Array) -> Array:
    """(..., 2, 2) -> (...)."""
    return (
        covariance[..., 0, 0] * covariance[..., 1, 1]
        - covariance[..., 0, 1] * covariance[..., 1, 0]
    )


def spread(covariance: Array) -> Array:
    """|Sigma|^(1/4) (...), in pixels: the geometric mean of the standard deviations.

    Its square, |Sigma|^(1/2), is the paper's scalar uncertainty.

    >>> float(spread(np.diag([4.0, 9.0])).round(9)) == round(6**0.5, 9)
    True
    """
    return determinant(covariance) ** 0.25


def inverse(covariance: Array) -> Array:
    """(..., 2, 2) -> (..., 2, 2)."""
    a, b, c = _entries(covariance)
    det = determinant(covariance)
    return _symmetric(c / det, -b / det, a / det)


def square_root(covariance: Array) -> Array:
    """The symmetric root R with R R = Sigma (Cayley-Hamilton: no eigenvectors needed).

    >>> square_root(np.diag([4.0, 9.0])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    xp = library(covariance)
    a, b, c = _entries(covariance)
    s = xp.sqrt(determinant(covariance))
    t = xp.sqrt(a + c + 2 * s)
    return _symmetric((a + s) / t, b / t, (c + s) / t)


def whiten(residuals: Array, covariance: Array) -> Array:
    """Residuals (..., 2) -> Sigma^(-1/2) times them (eq. 18): standard if the model is right."""
    root = inverse(square_root(covariance))
    return (root * residuals[..., None, :]).sum(-1)


def eigenvalues(covariance: Array) -> Array:
    """(..., 2, 2) -> (..., 2), the larger first."""
    xp = library(covariance)
    middle, half = _spectrum(covariance)
    largest = middle + half
    # the product of both is the determinant; middle - half would cancel
    return xp.stack([largest, determinant(covariance) / largest], -1)


def logarithm(covariance: Array) -> Array:
    """Matrix logarithm of a covariance.

    >>> logarithm(np.diag([1.0, np.e])).round(12).tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    xp = library(covariance)
    middle, half = _spectrum(covariance)
    ratio = half / middle
    slope = xp.where(ratio > 1e-4, xp.arctanh(ratio) / _nonzero(half), (1 + ratio**2 / 3) / middle)
    return _function(covariance, middle, xp.log(determinant(covariance)) / 2, slope)


def exponential(symmetric: Array) -> Array:
    """Matrix exponential of a symmetric matrix (..., 2, 2): a covariance again."""
    xp = library(symmetric)
    middle, half = _spectrum(symmetric)
    growth = xp.exp(middle)
    slope = xp.where(half > 1e-4, xp.sinh(half) / _nonzero(half), 1 + half**2 / 6) * growth
    return _function(symmetric, middle, growth * xp.cosh(half), slope)


def log_euclidean_mean(covariances: Array, weights: Array | None = None, axis: int = 0) -> Array:
    """exp(mean(log Sigma)): the mean that does not swell determinants.

    `axis` counts among the leading axes; `weights` has one number for each item along it.

    >>> log_euclidean_mean(np.stack([np.eye(2), 16 * np.eye(2)])).round(9).tolist()
    [[4.0, 0.0], [0.0, 4.0]]
    """
    logs = logarithm(covariances)
    if axis < 0:
        axis += logs.ndim - 2
    if weights is None:
        return exponential(logs.mean(axis))
    shape = [1] * logs.ndim
    shape[axis] = -1
    share = (weights / weights.sum()).reshape(shape)
    return exponential((logs * share).sum(axis))


def mahalanobis(residuals: Array, cholesky: Array) -> Array:
    """Mahalanobis distance of residuals (..., 2) under Cholesky entries (..., 3) -> (...).

    The triangular solve keeps float32 exact where forming the inverse would not; at zero
    the gradient is zero, not NaN.
    """
    xp = library(residuals, cholesky)
    first = residuals[..., 0] / cholesky[..., 0]
    second = (residuals[..., 1] - cholesky[..., 1] * first) / cholesky[..., 2]
    zero = (first == 0) & (second == 0)
    length = xp.hypot(xp.where(zero, xp.ones_like(first), first), second)
    return xp.where(zero, xp.zeros_like(length), length)


def half_log_determinant(cholesky: Array) -> Array:
    """1/2 log det Sigma from the Cholesky diagonal: T1 of eq. 11 and 13."""
    xp = library(cholesky)
    return xp.log(cholesky[..., 0]) + xp.log(cholesky[..., 2])


def _entries(covariance: Array) -> tuple[Array, Array, Array]:
    return covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]


def _symmetric(a: Array, b: Array, c: Array) -> Array:
    xp = library(a, b, c)
    return xp.stack([xp.stack([a, b], -1), xp.stack([b, c], -1)], -2)


def _spectrum(symmetric: Array) -> tuple[Array, Array]:
    """Half the sum and half the difference of the eigenvalues."""
    xp = library(symmetric)
    a, b, c = _entries(symmetric)
    return (a + c) / 2, xp.hypot((a - c) / 2, b)


def _nonzero(half: Array) -> Array:
    xp = library(half)
    return xp.where(half == 0, xp.ones_like(half), half)


def _function(matrix: Array, middle: Array, value: Array, slope: Array) -> Array:
    """value * I + slope * (matrix - middle * I): any function of a symmetric 2x2 matrix."""
    a, b, c = _entries(matrix)
    return _symmetric(value + slope * (a - middle), slope * b, value + slope * (c - middle))
