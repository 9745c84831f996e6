"""Landmarks on images, as the paper draws them.

Predicted points are yellow, their error ellipses blue, labels green. A landmark is as opaque
as it is visible; one that something covers (a hand, hair) is hollow. Lines and points grow
with the face, so that a drawing reads the same on a thumbnail and on a photograph of twelve
megapixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError, check_range
from luvli.faces import FaceLandmarks
from luvli.image.read import ImageArray
from luvli.likelihood import family
from luvli.likelihood.covariance import to_cholesky

Colour = tuple[int, int, int]

YELLOW: Colour = (255, 222, 0)
BLUE: Colour = (40, 120, 255)
GREEN: Colour = (0, 215, 70)
RED: Colour = (230, 40, 40)
DARK: Colour = (20, 20, 30)

COVERAGE = 0.9
"""share of the landmarks that drawn ellipses hold; at Mahalanobis distance 1, as the paper draws
them, they disappear under the points"""
LEVELS = 16
"""steps of transparency; landmarks of the same step are drawn together"""
_SHIFT = 4  # OpenCV draws at 1/16 of a pixel
_TURN = np.linspace(0.0, 2 * math.pi, 48, endpoint=False)
_CIRCLE = np.stack([np.cos(_TURN), np.sin(_TURN)])  # (2, 48)


def draw_face(
    image: ImageArray,
    face: FaceLandmarks,
    truth: ArrayLike | None = None,
    coverage: float = COVERAGE,
    mahalanobis: float | None = None,
    likelihood: str = "laplace",
) -> ImageArray:
    """A copy of the image with one face's points, ellipses and, if given, labels (k, 2).

    Ellipses hold the probability `coverage` under the model's `likelihood`, or lie at Mahalanobis
    distance `mahalanobis` where that is given. Labels may have NaN rows. Where the model's
    visibility was not trained, everything is opaque.

    >>> face = FaceLandmarks(points=[[10.0, 10.0]], covariance=[4 * np.eye(2)],
    ...                      visibility=[1.0], box=[0, 0, 20, 20], markup="mine1")
    >>> drawn = draw_face(np.zeros((21, 21, 3), np.uint8), face)
    >>> drawn[10, 10].tolist() > drawn[10, 5].tolist()  # a yellow dot on black
    True
    """
    canvas = image.copy()
    _draw(canvas, face, truth, _radius(coverage, mahalanobis, likelihood))
    return canvas


def draw_faces(
    image: ImageArray,
    faces: Sequence[FaceLandmarks],
    coverage: float = COVERAGE,
    mahalanobis: float | None = None,
    likelihood: str = "laplace",
    enlarge: float = 1.0,
) -> ImageArray:
    """All faces of an image on a copy of it, `enlarge` times as large."""
    radius = _radius(coverage, mahalanobis, likelihood)
    canvas = image.copy()
    if enlarge != 1.0:
        import cv2

        height, width = image.shape[:2]
        size = round(width * enlarge), round(height * enlarge)
        canvas = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_CUBIC), dtype=np.uint8)
        shift = enlarge / 2 - 0.5  # pixel centres: (x + 1/2) * enlarge - 1/2
        zoom = [[enlarge, 0.0, shift], [0.0, enlarge, shift]]
        faces = [face.transform(zoom) for face in faces]
    for face in faces:
        _draw(canvas, face, None, radius)
    return canvas


def readable_enlargement(image: ImageArray, faces: Sequence[FaceLandmarks]) -> int:
    """How many times to enlarge a small image so that its smallest face can be looked at.

    Faces below 160 pixels ask for it; no image grows beyond 1600 pixels.
    """
    sizes = [_size(face) for face in faces if not face.is_empty]
    if not sizes:
        return 1
    wanted = math.ceil(160 / max(min(sizes), 1.0))
    return int(max(1, min(wanted, 1600 // max(image.shape[:2]), 6)))


def _radius(coverage: float, mahalanobis: float | None, likelihood: str) -> float:
    if mahalanobis is not None:
        return mahalanobis
    check_range("coverage", coverage, 0, 1, ends=False)
    return float(family(likelihood).radius_quantile(coverage))


def _draw(canvas: ImageArray, face: FaceLandmarks, truth: ArrayLike | None, radius: float) -> None:
    known = np.isfinite(face.points).all(axis=1)
    alpha = face.visibility if face.visibility_trained else np.ones(len(face))
    level = np.where(known, np.rint(alpha * LEVELS), 0).astype(int)
    covered = face.occluded()
    dot = RED if face.doubtful else YELLOW
    unit = max(_size(face) / 160, 0.35)  # 1 for a face of 160 pixels
    if truth is not None:
        labels = np.asarray(truth, dtype=np.float64)
        if labels.shape != face.points.shape:
            raise InputError(f"truth must have shape {face.points.shape}, got {labels.shape}.")
        labels = labels[np.isfinite(labels).all(axis=1)]
        _dots(canvas, labels, 1.9 * unit, GREEN, 1.0)
    for step in range(1, LEVELS + 1):
        chosen = level == step
        if not chosen.any():
            continue
        opacity = step / LEVELS
        if face.covariance_trained:
            curves = _ellipses(face.points[chosen], face.covariance[chosen], radius)
            _lines(canvas, curves, 1.1 * unit, RED if face.doubtful else BLUE, opacity)
        _dots(canvas, face.points[chosen & ~covered], 1.5 * unit, dot, opacity)
        _rings(canvas, face.points[chosen & covered], 1.7 * unit, dot, opacity)
    if face.doubtful:
        _cross_out(canvas, face, unit)


def _cross_out(canvas: ImageArray, face: FaceLandmarks, unit: float) -> None:
    """A red frame with its diagonals around a face that is not to be trusted."""
    x0, y0, x1, y1 = face.box
    frame = np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
    sides = [(frame[i], frame[(i + 1) % 4]) for i in range(4)]
    sides += [(frame[0], frame[2]), (frame[1], frame[3])]
    steps = np.linspace(0, 1, 24)[:, None]
    lines = [start + steps * (end - start) for start, end in sides]
    # there and back again: lines are drawn closed
    curves = np.stack([np.concatenate([line, line[::-1]]) for line in lines])
    _lines(canvas, curves, 1.6 * unit, RED, 0.8)


def _size(face: FaceLandmarks) -> float:
    """Geometric mean of the sides of the points' box, in pixels; the face box for one point."""
    if face.is_empty:
        return 0.0
    width, height = np.nanmax(face.points, axis=0) - np.nanmin(face.points, axis=0)
    if width <= 0 or height <= 0:
        width, height = face.box[2:] - face.box[:2]
    return float(np.sqrt(max(width * height, 0.0)))


def _ellipses(points: Floats, covariance: Floats, radius: float) -> Floats:
    """(n, 48, 2) points on the curves of that Mahalanobis distance: mu + radius L u."""
    l11, l21, l22 = np.moveaxis(to_cholesky(covariance), -1, 0)[:, :, None]
    u, v = _CIRCLE
    offsets = np.stack([l11 * u, l21 * u + l22 * v], axis=-1)
    return np.asarray(points[:, None] + radius * offsets, dtype=np.float64)


def _lines(
    canvas: ImageArray, curves: Floats, width: float, colour: Colour, opacity: float
) -> None:
    import cv2

    # OpenCV's lines are whole pixels wide: thin ones are drawn large and shrunk, which also
    # smooths them
    zoom = 1 if width >= 4 else 2 if width >= 1.5 else 4
    mask, corner = _mask(canvas, curves.reshape(-1, 2), width, zoom)
    if mask is None:
        return
    fixed = _fixed((curves - corner + 0.5) * zoom - 0.5)
    thickness = max(1, round(width * zoom))
    kind = cv2.LINE_AA if zoom == 1 else cv2.LINE_8
    cv2.polylines(mask, list(fixed), True, 255, thickness, kind, _SHIFT)
    _blend(canvas, mask, corner, zoom, colour, opacity)


def _dots(
    canvas: ImageArray, points: Floats, radius: float, colour: Colour, opacity: float
) -> None:
    """Filled circles with a thin dark rim, so that yellow is seen on skin and on white."""
    import cv2

    for grown, paint in ((radius * 1.45, DARK), (radius, colour)):
        zoom = 1 if grown >= 4 else 4
        mask, corner = _mask(canvas, points, grown, zoom)
        if mask is None:
            return
        size = round(grown * zoom * 2**_SHIFT)
        kind = cv2.LINE_AA if zoom == 1 else cv2.LINE_8
        for x, y in _fixed((points - corner + 0.5) * zoom - 0.5).tolist():
            cv2.circle(mask, (x, y), size, 255, -1, kind, _SHIFT)
        _blend(canvas, mask, corner, zoom, paint, opacity * (0.5 if paint is DARK else 1.0))


def _rings(
    canvas: ImageArray, points: Floats, radius: float, colour: Colour, opacity: float
) -> None:
    """Circles that what lies below shows through, with the same dark rim."""
    around = points[:, None] + radius * _CIRCLE.T
    _lines(canvas, around, radius * 0.9, DARK, opacity / 2)
    _lines(canvas, around, radius * 0.45, colour, opacity)


def _mask(
    canvas: ImageArray, points: Floats, margin: float, zoom: int
) -> tuple[NDArray[np.uint8] | None, NDArray[np.int64]]:
    """An empty mask, `zoom` times as fine, over the part of the canvas around the points."""
    height, width = canvas.shape[:2]
    limits = np.array([width, height])
    if not len(points):
        return None, np.zeros(2, np.int64)
    reach = math.ceil(margin) + 2
    low = np.clip(np.floor(points.min(axis=0)) - reach, 0, limits).astype(np.int64)
    high = np.clip(np.ceil(points.max(axis=0)) + reach + 1, 0, limits).astype(np.int64)
    if (high <= low).any():
        return None, low
    shape = (high - low)[::-1] * zoom
    return np.zeros((int(shape[0]), int(shape[1])), np.uint8), low


def _fixed(points: Floats) -> NDArray[np.int32]:
    """OpenCV's fixed-point coordinates; far outside is as good as outside."""
    fixed: NDArray[np.int32] = np.rint(np.clip(points, -3e4, 3e4) * 2**_SHIFT).astype(np.int32)
    return fixed


def _blend(
    canvas: ImageArray,
    mask: NDArray[np.uint8],
    corner: NDArray[np.int64],
    zoom: int,
    colour: Colour,
    opacity: float,
) -> None:
    """canvas <- canvas + opacity * mask * (colour - canvas), where the mask lies."""
    import cv2

    height, width = mask.shape[0] // zoom, mask.shape[1] // zoom
    if zoom > 1:
        mask = np.asarray(
            cv2.resize(mask, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8
        )
    x, y = corner.tolist()
    part = canvas[y : y + height, x : x + width]
    rows, columns = np.nonzero(mask)
    old = part[rows, columns].astype(np.float32)
    share = mask[rows, columns, None].astype(np.float32) * np.float32(opacity / 255)
    part[rows, columns] = np.rint(old + share * (np.array(colour, np.float32) - old))
