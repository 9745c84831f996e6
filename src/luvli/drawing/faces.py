"""Landmarks on images, as the paper draws them.

Predicted points are yellow, their error ellipses blue, labels green. A landmark is as opaque
as it is visible; one that something covers (a hand, hair) is hollow. Lines and points grow
with the face, so that a drawing reads the same on a thumbnail and on a photograph of twelve
megapixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.drawing.sheet import Colour
from luvli.errors import InputError, check_range
from luvli.face_landmarks import FaceLandmarks, confidence_text
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray
from luvli.image.source import AnyImage, Color, image_pixels
from luvli.likelihood import family
from luvli.likelihood.covariance import to_cholesky

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
_CORNERS = [[0, 1], [2, 1], [2, 3], [0, 3]]
_SHIFT = 4  # OpenCV draws at 1/16 of a pixel
_TURN = np.linspace(0.0, 2 * math.pi, 48, endpoint=False)
_CIRCLE = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=-1)  # (48, 2)


def draw(
    image: AnyImage,
    faces: FaceLandmarks | Iterable[FaceLandmarks],
    coverage: float = COVERAGE,
    mahalanobis: float | None = None,
    enlarge: float | Literal["readable"] = 1.0,
    color: Color = "rgb",
    confidence: bool = False,
    boxes: bool = False,
    truth: ArrayLike | None = None,
) -> ImageArray:
    """Faces on a copy of an image: points yellow, error ellipses blue, fading where a landmark
    is hidden, hollow where something covers it.

    Ellipses hold the share `coverage` if the model is right; with `mahalanobis` they lie at that
    distance instead (the paper draws 1). `enlarge="readable"` enlarges small images. `boxes` adds
    the box of each face, `confidence` writes its confidence above that, `truth` (k, 2) are labels,
    drawn in green, which may have NaN rows. Arrays in `color` "bgr" come back so, ready for
    `cv2.imshow`; everything else comes back as RGB (H, W, 3) uint8.

    >>> face = FaceLandmarks(points=[[10.0, 10.0]], covariance=[4 * np.eye(2)],
    ...                      visibility=[1.0], box=[0, 0, 20, 20], markup="mine1")
    >>> drawn = draw(np.zeros((21, 21, 3), np.uint8), face)
    >>> drawn[10, 10].tolist() > drawn[10, 5].tolist()  # a yellow dot on black
    True
    """
    check_range("coverage", coverage, 0, 1, ends=False)
    faces = [faces] if isinstance(faces, FaceLandmarks) else list(faces)
    canvas = image_pixels(image, color)
    factor = _readable(canvas, faces) if enlarge == "readable" else enlarge
    if factor != 1.0:
        import cv2

        size = round(canvas.shape[1] * factor), round(canvas.shape[0] * factor)
        canvas = np.asarray(cv2.resize(canvas, size, interpolation=cv2.INTER_CUBIC), dtype=np.uint8)
        shift = factor / 2 - 0.5  # pixel centres: (x + 1/2) * factor - 1/2
        faces = [face.transform([[factor, 0, shift], [0, factor, shift]]) for face in faces]
    for face in faces:
        radius = mahalanobis
        if radius is None:
            radius = float(family(face.likelihood).radius_quantile(coverage))
        _draw(canvas, face, truth, radius)
        if boxes:
            _lines(canvas, face.box[_CORNERS][None], 1.2 * _unit(face), BLUE, 0.9)
        if confidence:
            _write(canvas, face, confidence_text(face.confidence))
    return np.ascontiguousarray(canvas[:, :, ::-1]) if color == "bgr" else canvas


def draw_tile(
    image: ImageArray, face: FaceLandmarks, side: int, truth: Floats | None = None, **options: Any
) -> ImageArray:
    """The face cut out, a square of `side` pixels, and drawn as `draw` does with these options,
    whatever its confidence; the whole image where neither face nor label has a location."""
    around = face.points if truth is None else np.concatenate([face.points, truth])
    located = np.isfinite(around).all(axis=1).any()
    box = Box.around(around) if located else Box(0, 0, image.shape[1], image.shape[0])
    crop = Crop.from_box(box, side, 1.35)
    shown = replace(face.transform(crop.affine), confidence=None, accepted=None)
    label = None if truth is None else crop.to_crop(truth)
    return draw(crop.warp(image), shown, truth=label, **options)


def _readable(image: ImageArray, faces: list[FaceLandmarks]) -> int:
    """How many times to enlarge a small image so that its smallest face can be looked at.

    Faces below 160 pixels ask for it; no image grows beyond 1600 pixels.
    """
    sizes = [_size(face) for face in faces if not face.is_empty]
    wanted = math.ceil(160 / max(min(sizes, default=160.0), 1.0))
    return int(max(1, min(wanted, 1600 // max(image.shape[:2]), 6)))


def _size(face: FaceLandmarks) -> float:
    """Geometric mean of the sides of the points' box, in pixels; the face box for one point."""
    if face.is_empty:
        return 0.0
    width, height = np.nanmax(face.points, axis=0) - np.nanmin(face.points, axis=0)
    if width <= 0 or height <= 0:
        width, height = face.box[2:] - face.box[:2]
    return float(np.sqrt(max(width * height, 0.0)))


def _unit(face: FaceLandmarks) -> float:
    """Width of lines and points in pixels: 1 for a face of 160 pixels."""
    return max(_size(face) / 160, 0.35)


def _write(canvas: ImageArray, face: FaceLandmarks, text: str) -> None:
    """A line of text above the face's box, or below its upper edge where the image ends."""
    import cv2

    size = max(0.5 * _unit(face), 0.35)
    weight = max(1, round(1.2 * size))
    (width, height), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, weight)
    left = int(np.clip(face.box[0], 0, max(0, canvas.shape[1] - width)))
    base = round(face.box[1]) - height // 2
    if base < height:
        base = round(max(face.box[1], 0.0)) + height + height // 2
    for colour, thickness in ((DARK, 3 * weight), (YELLOW, weight)):
        cv2.putText(
            canvas, text, (left, base), cv2.FONT_HERSHEY_SIMPLEX, size, colour, thickness,
            cv2.LINE_AA,
        )  # fmt: skip


def _draw(canvas: ImageArray, face: FaceLandmarks, truth: ArrayLike | None, radius: float) -> None:
    unit = _unit(face)
    if truth is not None:
        labels = np.asarray(truth, dtype=np.float64)
        if labels.shape != face.points.shape:
            raise InputError(f"truth must have shape {face.points.shape}, got {labels.shape}.")
        _dots(canvas, labels[np.isfinite(labels).all(axis=1)], 1.9 * unit, GREEN, 1.0)
    dot, line = (RED, RED) if face.doubtful else (YELLOW, BLUE)
    known = np.isfinite(face.points).all(axis=1)
    alpha = face.visibility if face.visibility_trained else np.ones(len(face))
    level = np.where(known, np.rint(alpha * LEVELS), 0).astype(int)
    covered = face.occluded()
    for step in np.unique(level[level > 0]).tolist():
        chosen, opacity = level == step, step / LEVELS
        if face.covariance_trained:
            curves = _ellipses(face.points[chosen], face.covariance[chosen], radius)
            _lines(canvas, curves, 1.1 * unit, line, opacity)
        _dots(canvas, face.points[chosen & ~covered], 1.5 * unit, dot, opacity)
        _rings(canvas, face.points[chosen & covered], 1.7 * unit, dot, opacity)
    if face.doubtful:  # a frame with its diagonals
        corners = face.box[_CORNERS]
        _lines(canvas, corners[[[0, 1, 2, 3], [0, 2, 2, 0], [1, 3, 3, 1]]], 1.6 * unit, RED, 0.8)


def _ellipses(points: Floats, covariance: Floats, radius: float) -> Floats:
    """(n, 48, 2) points on the curves of that Mahalanobis distance: mu + radius L u."""
    l11, l21, l22 = np.moveaxis(to_cholesky(covariance), -1, 0)[:, :, None]
    u, v = _CIRCLE.T
    offsets = np.stack([l11 * u, l21 * u + l22 * v], axis=-1)
    return np.asarray(points[:, None] + radius * offsets, dtype=np.float64)


def _dots(canvas: ImageArray, points: Floats, radius: float, colour: Colour, alpha: float) -> None:
    """Filled circles with a thin dark rim, so that yellow is seen on skin and on white."""
    for grown, paint, opacity in ((1.45 * radius, DARK, alpha / 2), (radius, colour, alpha)):
        _paint(canvas, points[:, None] + grown * _CIRCLE, grown, paint, opacity, filled=True)


def _rings(canvas: ImageArray, points: Floats, radius: float, colour: Colour, alpha: float) -> None:
    """Circles that what lies below shows through, with the same dark rim."""
    around = points[:, None] + radius * _CIRCLE
    _lines(canvas, around, radius * 0.9, DARK, alpha / 2)
    _lines(canvas, around, radius * 0.45, colour, alpha)


def _lines(canvas: ImageArray, curves: Floats, width: float, colour: Colour, alpha: float) -> None:
    """Closed curves (n, m, 2), `width` pixels wide."""
    _paint(canvas, curves, width, colour, alpha, filled=False)


def _paint(
    canvas: ImageArray, curves: Floats, width: float, colour: Colour, alpha: float, filled: bool
) -> None:
    """canvas <- canvas + alpha * mask * (colour - canvas), where the mask is what closed curves
    (n, m, 2) cover: what they enclose, or lines `width` pixels wide."""
    import cv2

    if not len(curves):
        return
    limits = np.array(canvas.shape[1::-1])
    reach = math.ceil(width) + 2
    low = np.clip(np.floor(curves.min(axis=(0, 1))) - reach, 0, limits).astype(int)
    high = np.clip(np.ceil(curves.max(axis=(0, 1))) + reach + 1, 0, limits).astype(int)
    size = (high - low).tolist()
    if min(size) <= 0:
        return
    # OpenCV's lines are whole pixels wide: thin ones are drawn large and shrunk, which also
    # smooths them
    zoom = 1 if width >= 4 else 2 if width >= 1.5 else 4
    kind = cv2.LINE_AA if zoom == 1 else cv2.LINE_8
    mask = np.zeros((size[1] * zoom, size[0] * zoom), np.uint8)
    places = np.clip((curves - low + 0.5) * zoom - 0.5, -3e4, 3e4)  # farther is outside anyway
    fixed = np.rint(places * 2**_SHIFT).astype(np.int32)
    if filled:
        for curve in fixed:
            cv2.fillConvexPoly(mask, curve, 255, kind, _SHIFT)
    else:
        cv2.polylines(mask, list(fixed), True, 255, max(1, round(width * zoom)), kind, _SHIFT)
    if zoom > 1:
        mask = np.asarray(cv2.resize(mask, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    part = canvas[low[1] : high[1], low[0] : high[0]]
    covered = np.nonzero(mask)
    old = part[covered].astype(np.float32)
    share = mask[covered][:, None].astype(np.float32) * np.float32(alpha / 255)
    part[covered] = np.rint(old + share * (np.array(colour, np.float32) - old))
