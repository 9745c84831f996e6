"""The one affine: x -> A x + t, as an array (2, 3) of A beside t.

Crops, augmentation, predictions and faces all move points and covariances by these functions;
nobody else writes that algebra. A stack of affines (..., 2, 3) moves a stack of point sets
(..., k, 2), each its own. Import the module, so that calls say what they are about:

>>> import numpy as np
>>> from luvli.image import affine
>>> twice = affine.zoom(2.0, about=(0.0, 0.0))
>>> affine.apply(twice, [[1.0, 3.0]]).tolist()
[[2.0, 6.0]]
>>> affine.push_covariance(twice, np.eye(2)).tolist()
[[4.0, 0.0], [0.0, 4.0]]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError

_MIN_AREA = 1e-12
"""what a unit square must at least become, or the affine is said not to be invertible"""


def as_affine(matrix: ArrayLike) -> Floats:
    """A private, checked copy (2, 3) of an affine given as (2, 3) or (3, 3)."""
    array = np.array(matrix, dtype=np.float64)
    if array.shape not in ((2, 3), (3, 3)):
        raise InputError(f"affine must have shape (2, 3) or (3, 3), got {array.shape}.")
    if array.shape == (3, 3) and not np.array_equal(array[2], (0.0, 0.0, 1.0)):
        raise InputError("affine must have (0, 0, 1) as its third row: it is not affine.")
    array = array[:2]
    if not np.isfinite(array).all() or abs(_determinant(array)) < _MIN_AREA:
        raise InputError("affine must be finite and invertible.")
    return array


def apply(affine: Floats, points: ArrayLike) -> Floats:
    """Points (..., 2) moved by one affine (2, 3), or (..., k, 2) by their own (..., 2, 3)."""
    array = np.asarray(points, dtype=np.float64)
    if array.shape[-1:] != (2,):
        raise InputError(f"points must have shape (..., 2), got {array.shape}.")
    shift = affine[:, 2] if affine.ndim == 2 else affine[..., None, :, 2]
    return _linear(affine, array) + shift


def _linear(affine: Floats, rows: Floats) -> Floats:
    """Vectors (..., 2), or (..., k, 2) for stacked affines, times A^T, without the shift."""
    return rows @ affine[..., :2].swapaxes(-1, -2)


def push_covariance(affine: Floats, covariance: ArrayLike) -> Floats:
    """Covariances (..., 2, 2) of moved points: A S A^T, exactly symmetric.

    One affine (2, 3) for all, or stacked ones (..., 2, 3) for covariances (..., k, 2, 2).
    """
    array = np.asarray(covariance, dtype=np.float64)
    if array.shape[-2:] != (2, 2):
        raise InputError(f"covariance must have shape (..., 2, 2), got {array.shape}.")
    # S A^T, turned over, is A S: two products of tall matrices, where k of 2 x 2 take ten times
    # as long
    tall = *array.shape[:-3], 2 * array.shape[-3] if array.ndim > 2 else 2, 2
    half = _linear(affine, array.reshape(tall)).reshape(array.shape).swapaxes(-1, -2)
    moved = _linear(affine, half.reshape(tall)).reshape(array.shape)
    moved[..., 1, 0] = moved[..., 0, 1]
    return moved


def box_around(affine: Floats, boxes: Floats) -> Floats:
    """(..., 4) the upright boxes around the moved corners of boxes x0, y0, x1, y1.

    >>> box_around(mirror(10), np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [6.0, 2.0, 8.0, 4.0]
    """
    corners = apply(affine, boxes[..., [0, 1, 2, 1, 2, 3, 0, 3]].reshape(*boxes.shape[:-1], 4, 2))
    return np.concatenate([corners.min(axis=-2), corners.max(axis=-2)], axis=-1)


def compose(outer: Floats, inner: Floats) -> Floats:
    """(..., 2, 3) the affine x -> outer(inner(x)).

    >>> there = zoom(3.0, about=(1.0, 1.0))
    >>> compose(invert(there), there).round(9).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    both = outer[..., :2] @ inner
    both[..., 2] += outer[..., 2]
    return np.asarray(both)


def invert(affine: Floats) -> Floats:
    """(..., 2, 3) the inverse affine."""
    linear = np.empty((*affine.shape[:-2], 2, 2))
    linear[..., 0, 0], linear[..., 1, 1] = affine[..., 1, 1], affine[..., 0, 0]
    linear[..., 0, 1], linear[..., 1, 0] = -affine[..., 0, 1], -affine[..., 1, 0]
    linear /= _determinant(affine)[..., None, None]
    return np.concatenate([linear, -linear @ affine[..., 2:]], axis=-1)


def scale(affine: Floats) -> Floats:
    """(...) how much lengths grow: the square root of the change of area.

    >>> float(scale(np.array([[0.0, 3.0, 7.0], [-3.0, 0.0, 7.0]])))
    3.0
    """
    return np.asarray(np.sqrt(np.abs(_determinant(affine))))


def is_mirrored(affine: Floats) -> NDArray[np.bool_]:
    """(...) whether left and right change places, so that landmarks change their names too.

    >>> bool(is_mirrored(mirror(100)))
    True
    """
    return np.asarray(_determinant(affine) < 0)


def mirror(width: float) -> Floats:
    """Left and right swapped in an image whose pixels lie at 0 .. width - 1."""
    return np.array([[-1.0, 0.0, width - 1], [0.0, 1.0, 0.0]])


def zoom(factor: ArrayLike, about: ArrayLike) -> Floats:
    """Everything `factor` times as far (one number, or one for x and one for y) from `about`."""
    factors = np.broadcast_to(np.asarray(factor, dtype=np.float64), (2,))
    return np.column_stack([np.diag(factors), (1 - factors) * np.asarray(about)])


def _determinant(affine: Floats) -> Floats:
    a, b, c, d = affine[..., 0, 0], affine[..., 0, 1], affine[..., 1, 0], affine[..., 1, 1]
    return np.asarray(a * d - b * c)
