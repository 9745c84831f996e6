"""Faces turned upright and cut to a fixed layout, as recognition networks and GANs want them.

A template says where the eyes, the nose and the mouth shall lie; the affine here takes them
there as nearly as turning, scaling and moving can.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError, check_choice

Template = Literal["arcface", "ffhq", "eyes"]
"""`arcface`: the five places of ArcFace's 112 x 112 crops. `ffhq`: the square that FFHQ's
photographs were cut by, from eyes and mouth. `eyes`: the eyes level, at 0.35 and 0.65 of the
width and 0.4 of the height."""

ARCFACE = (
    (38.2946, 51.6963),
    (73.5318, 51.5014),
    (56.0252, 71.7366),
    (41.5493, 92.3655),
    (70.7299, 92.2041),
)
"""eye, eye, nose tip, mouth corner, mouth corner of a 112 x 112 crop; the image's left first"""
EYES = ((0.35, 0.4), (0.65, 0.4))


def similarity(source: ArrayLike, target: ArrayLike) -> Floats:
    """(2, 3) the turn, scale and shift that bring points (n, 2) nearest to others, by squares.

    >>> similarity([[0, 0], [1, 0]], [[5, 5], [5, 7]]).round(9).tolist()
    [[0.0, -2.0, 5.0], [2.0, 0.0, 5.0]]
    """
    a, b = np.asarray(source, np.float64), np.asarray(target, np.float64)
    start, end = a.mean(axis=0), b.mean(axis=0)
    # as complex numbers a turn with scale is one factor: least squares in closed form
    z, w = (a - start) @ (1, 1j), (b - end) @ (1, 1j)
    norm = float((np.abs(z) ** 2).sum())
    if not norm > 0 or not np.isfinite(norm):
        raise InputError("the face cannot be aligned: its points have no extent.")
    factor = complex((z.conj() * w).sum() / norm)
    linear = np.array([[factor.real, -factor.imag], [factor.imag, factor.real]])
    return np.column_stack([linear, end - linear @ start])


def align_affine(five: ArrayLike, size: int, template: Template = "arcface") -> Floats:
    """(2, 3) image pixels -> pixels of a `size` x `size` crop.

    `five` (5, 2): the centres of the eyes, the nose tip and the corners of the mouth, in the
    order of `ARCFACE`. The nose may be NaN for `ffhq`, nose and mouth for `eyes`.
    """
    check_choice("template", template, get_args(Template))
    if not isinstance(size, int | np.integer) or size < 2:
        raise InputError(
            f"an aligned face is square: its size is one number of pixels, at least 2, got {size}."
        )
    points = np.asarray(five, dtype=np.float64)
    if template == "arcface":
        # the template counts pixels as we do: the first one's centre is 0
        target = (np.asarray(ARCFACE) + 0.5) * size / 112 - 0.5
        return similarity(points, target)
    if template == "eyes":
        return similarity(points[:2], np.asarray(EYES) * size - 0.5)
    return _ffhq(points, size)


def _ffhq(points: Floats, size: int) -> Floats:
    """The oriented square of the Progressive GAN paper's appendix C (x, y, c there)."""
    eyes, mouth = points[:2].mean(axis=0), points[3:].mean(axis=0)
    across, down = points[1] - points[0], mouth - eyes
    x = across - np.array([-down[1], down[0]])
    x = x / np.hypot(*x) * max(np.hypot(*across) * 2.0, np.hypot(*down) * 1.8)
    y = np.array([-x[1], x[0]])
    centre = eyes + 0.1 * down
    corners = np.stack([centre - x - y, centre + x - y, centre + x + y])
    last = size - 0.5
    return similarity(corners, [(-0.5, -0.5), (last, -0.5), (last, last)])
