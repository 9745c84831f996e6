"""Masks of cloth over nose, mouth and chin, as worn in hospitals and against dust."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luvli.data.augment.occlude import lay_over, mark_covered
from luvli.data.augment.occluders import as_colourful, to_image, unevenness
from luvli.data.record import Visibility
from luvli.image.read import ImageArray

_COLOURS = ((150, 195, 215), (225, 230, 235), (40, 42, 48), (185, 205, 190), (200, 160, 175))
"""light blue, white, black, light green, pink"""
_JAW = range(1, 16)
_FRONT = (30, 33, 51, 57, 8)
"""what a mask covers in every pose, from the tip of the nose to the chin"""
_MIN_JAW = 5
"""jaw landmarks with a location without which there is no telling where a mask ends"""


def add_mask(
    image: ImageArray,
    points: NDArray[np.float64],
    visibility: NDArray[np.int8],
    rng: np.random.Generator,
) -> tuple[ImageArray, NDArray[np.int8]]:
    """Draw a mask over a face of 68 points (crop pixels), if enough of the jaw is located.

    Its edge runs along the jaw, a little outside, and over the bridge of the nose; so it turns with
    the face. Landmarks below it become externally occluded.
    """
    import cv2

    located = visibility > Visibility.SELF_OCCLUDED
    jaw = [i for i in _JAW if located[i]]
    top = rng.uniform(0.1, 1.0)  # from the middle of the bridge to the tip of the nose
    if len(jaw) < _MIN_JAW or not located[[27, *_FRONT]].all():
        return image, visibility
    bridge = points[28 if located[28] else 27]
    nose = bridge + top * (points[30] - bridge) * 0.8
    height = rng.uniform(0.15, 0.5)  # where the upper edge meets the cheek, along the jaw
    cheeks = [i for i in jaw if min(i, 16 - i) >= 1 + 3 * height]
    outline = np.concatenate([points[cheeks], [nose], points[list(_FRONT)]])
    middle = outline.mean(axis=0)
    outline = middle + (outline - middle) * rng.uniform(1.0, 1.1)
    hull = cv2.convexHull(outline.astype(np.float32))[:, 0]
    size = image.shape[0]
    mask = np.zeros(image.shape[:2], np.uint8)
    cv2.fillConvexPoly(mask, np.rint(hull * 16).astype(np.int32), 255, cv2.LINE_AA, 4)
    _draw_straps(mask, points, cheeks, located, size)
    soft = np.asarray(cv2.GaussianBlur(mask, (0, 0), 0.6) / 255.0, np.float32)
    texture = _cloth(image, nose, points[8], rng)
    return lay_over(image, texture, soft), mark_covered(visibility, points, soft)


def _draw_straps(
    mask: NDArray[np.uint8],
    points: NDArray[np.float64],
    cheeks: list[int],
    located: NDArray[np.bool_],
    size: int,
) -> None:
    """Thin bands from the mask's corners to the ears."""
    import cv2

    for ear, side in ((0, [i for i in cheeks if i < 8]), (16, [i for i in cheeks if i > 8])):
        if side and located[ear]:
            corner = min(side) if ear == 0 else max(side)
            line = np.rint(points[[corner, ear]] * 16).astype(np.int32)
            cv2.polylines(mask, [line], False, 255, max(1, size // 90), cv2.LINE_AA, 4)


def _cloth(
    image: ImageArray,
    nose: NDArray[np.float64],
    chin: NDArray[np.float64],
    rng: np.random.Generator,
) -> ImageArray:
    """(S, S, 3) plain, pleated or patterned cloth, as bright as the image."""
    size = image.shape[0]
    base = np.array(_COLOURS[int(rng.integers(len(_COLOURS)))], np.float32)
    if rng.random() < 0.3:
        base = rng.uniform(20, 230, size=3).astype(np.float32)
    rows, columns = np.mgrid[:size, :size].astype(np.float32)
    down = (chin - nose) / max(float(np.linalg.norm(chin - nose)), 1.0)
    along = (columns - nose[0]) * down[0] + (rows - nose[1]) * down[1]
    across = (columns - nose[0]) * -down[1] + (rows - nose[1]) * down[0]
    width = max(float(np.linalg.norm(chin - nose)), 4.0)
    shade = 1.05 - 0.35 * (across / width) ** 2  # rounded: darker towards the cheeks
    kind = rng.random()
    if kind < 0.5:  # pleats
        shade -= 0.12 * (np.mod(along, width / rng.uniform(3, 6)) < width / 25)
    elif kind < 0.65:
        shade += 0.25 * np.sign(np.sin(across * rng.uniform(10, 40) / width))
    light = float(np.clip(image.mean() / 120.0, 0.35, 1.3))
    shading = np.clip(shade, 0.45, 1.4)[:, :, None] * unevenness(size, 0.06, rng, patches=7)
    return as_colourful(to_image(base * light * shading), image)
