"""What a face from outside must be: numbers, of the right shapes, that can be what they say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError


def as_array(name: str, value: ArrayLike) -> Floats:
    """A private float64 copy; None (null in JSON) reads as NaN."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}.") from error


def as_number(name: str, value: Any) -> float:
    """A float; NaN may mean "not known", infinity means nothing."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be a number, got {value!r:.40}.") from error
    if math.isinf(number):
        raise InputError(f"{name} must be finite, got {number}.")
    return number


def expect_shape(name: str, array: Floats, shape: tuple[int, ...], note: str = "") -> None:
    """Refuse an array of another shape."""
    if array.shape != shape:
        raise InputError(f"{name} must have shape {shape}{note}, got {array.shape}.")


def check_probabilities(name: str, values: Floats, allow_nan: bool = True) -> None:
    """Refuse what lies outside 0..1, and NaN unless it means "unknown"."""
    wrong = (values < 0) | (values > 1)
    if not allow_nan:
        wrong |= np.isnan(values)
    if wrong.any():
        j = int(np.argmax(wrong))
        raise InputError(f"{name} must lie in 0..1, got {values[j]} at landmark {j}.")


def check_positive_definite(covariance: Floats) -> None:
    """Refuse matrices that are not covariances; all-NaN ones mean "no location" and pass."""
    known = ~np.isnan(covariance).all(axis=(1, 2))
    xx, xy = covariance[:, 0, 0], covariance[:, 0, 1]
    yx, yy = covariance[:, 1, 0], covariance[:, 1, 1]
    with np.errstate(invalid="ignore", over="ignore"):
        symmetric = np.abs(xy - yx) <= 1e-6 * np.maximum(np.abs(xx), np.abs(yy))
        positive = (xx > 0) & (yy > 0) & (xx * yy - xy * yx > 0) & np.isfinite(xx + yy)
    for good, what in ((symmetric, "symmetric"), (positive, "positive-definite")):
        bad = known & ~good
        if bad.any():
            j = int(np.argmax(bad))
            raise InputError(f"covariance of landmark {j} is not {what}: {covariance[j].tolist()}.")
