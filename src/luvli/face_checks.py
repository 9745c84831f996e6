"""What the numbers of a face must be: of the right shapes, finite, probabilities, covariances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError


def as_array(name: str, value: ArrayLike) -> Floats:
    """A read-only float64 copy, or the array itself where it is read-only already; None (null in
    JSON) reads as NaN."""
    if type(value) is np.ndarray and value.dtype == np.float64 and not value.flags.writeable:
        return value
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}.") from error
    array.setflags(write=False)
    return array


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


def check_not_infinite(name: str, values: Floats) -> None:
    """Refuse infinity; NaN means that there is no location."""
    if np.isinf(values).any():
        raise InputError(f"{name} must be finite, or NaN where there is no location.")


def check_probabilities(name: str, values: Floats, allow_nan: bool = True) -> None:
    """Refuse what lies outside 0..1, and NaN unless it means "unknown"."""
    wrong = (values < 0) | (values > 1)
    if not allow_nan:
        wrong |= np.isnan(values)
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise InputError(f"{name} must lie in 0..1, got {values[place]} at landmark {place[-1]}.")


def check_positive_definite(covariance: Floats) -> None:
    """Refuse matrices (..., k, 2, 2) that are not covariances; all-NaN ones mean "no location"."""
    xx, xy = covariance[..., 0, 0], covariance[..., 0, 1]
    yx, yy = covariance[..., 1, 0], covariance[..., 1, 1]
    with np.errstate(invalid="ignore", over="ignore"):
        symmetric = np.abs(xy - yx) <= 1e-6 * np.maximum(np.abs(xx), np.abs(yy))
        positive = (xx > 0) & (yy > 0) & (xx * yy - xy * yx > 0) & np.isfinite(xx + yy)
    if (symmetric & positive).all():
        return
    located = ~np.isnan(covariance).all(axis=(-2, -1))
    for good, what in ((symmetric, "symmetric"), (positive, "positive-definite")):
        bad = located & ~good
        if bad.any():
            place = np.unravel_index(int(np.argmax(bad)), bad.shape)
            raise InputError(
                f"covariance of landmark {place[-1]} is not {what}: {covariance[place].tolist()}."
            )
