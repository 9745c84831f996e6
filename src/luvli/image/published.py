"""The crop of the published code, for running the published checkpoints.

Its habits: corners cut to whole pixels; when the face is at least twice the wanted size
the whole image is shrunk first; every resize or rotation stretches the contrast of what
it is given so that the darkest value of any channel becomes 0 and the brightest 255.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from luvli.image.read import ImageArray


def published_warp(
    image: ImageArray, centre: NDArray[np.float64], side: float, rotation: float, size: int
) -> ImageArray:
    """The square of `side` image pixels around `centre`, as the published code cuts it.

    `rotation` in degrees, counter-clockwise as seen. Returns (size, size, 3) uint8.
    """
    factor = side / size
    middle = np.asarray(centre, dtype=np.float64)
    pixels: NDArray[np.float64] = image.astype(np.float64)
    if factor >= 2:
        height, width = image.shape[:2]
        pixels = _resize(pixels, (int(width / factor), int(height / factor)))
        middle, side = middle / factor, float(size)
    low, high = _corners(middle, side, size)
    if factor >= 2:
        high = low + size
    margin = 0
    if rotation:
        extent = high - low
        margin = int(math.hypot(*extent) / 2 - extent[1] / 2)
    part = _cut(pixels, low - margin, high + margin)
    if rotation:
        turned = Image.fromarray(_stretch(part)).rotate(rotation, Image.Resampling.BILINEAR)
        part = np.asarray(turned, dtype=np.float64)
        if margin:
            part = part[margin:-margin, margin:-margin]
    return _resize(part, (size, size)).astype(np.uint8)


def _corners(
    centre: NDArray[np.float64], side: float, size: int
) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Lower and upper corner of the square, x and y, cut to whole pixels.

    The published code keeps centre and side in single precision and inverts the map to the
    crop. Where a corner is a whole number, that rounding decides on which side it falls.
    """
    scale = np.float32(size) / np.float32(side)
    shift = np.float32(size) * (np.float32(0.5) - centre.astype(np.float32) / np.float32(side))
    ends = (np.array([[0.0], [size]]) - shift.astype(np.float64)) / float(scale)
    low, high = np.trunc(ends).astype(int)
    return low, high


def _cut(
    pixels: NDArray[np.float64], low: NDArray[np.int_], high: NDArray[np.int_]
) -> NDArray[np.float64]:
    """The window [low, high) of the image (x, y order), black outside it."""
    height, width = pixels.shape[:2]
    window = np.zeros((high[1] - low[1], high[0] - low[0], 3))
    x0, y0 = np.clip(low, 0, (width, height))
    x1, y1 = np.clip(high, (x0, y0), (width, height))
    window[y0 - low[1] : y1 - low[1], x0 - low[0] : x1 - low[0]] = pixels[y0:y1, x0:x1]
    return window


def _resize(pixels: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float64]:
    resized = Image.fromarray(_stretch(pixels)).resize(size, Image.Resampling.BILINEAR)
    return np.asarray(resized, dtype=np.float64)


def _stretch(pixels: NDArray[np.float64]) -> ImageArray:
    """Contrast stretched to 0..255, jointly over the channels."""
    low, high = pixels.min(), pixels.max()
    spread = high - low if high > low else 1.0
    scaled: NDArray[np.float64] = (pixels - low) * (255.0 / spread) + 0.5
    return scaled.clip(0, 255).astype(np.uint8)
