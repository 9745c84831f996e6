"""Things in front of the face. A landmark they cover becomes externally occluded.

Its visibility v stays 1, as in the paper: it is still somewhere, and a person could say where.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luvli.data.augment.config import Rectangle
from luvli.data.augment.occluders import draw_occluder
from luvli.data.record import Visibility
from luvli.image import affine as affines
from luvli.image.read import ImageArray

Mask = NDArray[np.float32]
"""(H, W) 0..1, how much of each pixel is covered"""


def mark_covered(
    visibility: NDArray[np.int8], points: NDArray[np.float64], mask: Mask
) -> NDArray[np.int8]:
    """Classes (k,) after something with this mask was laid over the image.

    `points` (k, 2) in pixels of the mask; those outside the image stay as they are.
    """
    height, width = mask.shape
    unoccluded = visibility == Visibility.UNOCCLUDED
    place = np.rint(np.where(unoccluded[:, None], points, -1)).astype(int)
    inside = unoccluded & (place >= 0).all(axis=1) & (place[:, 0] < width) & (place[:, 1] < height)
    covered = inside.copy()
    covered[inside] = mask[place[inside, 1], place[inside, 0]] > 0.5
    return np.where(covered, np.int8(Visibility.EXTERNALLY_OCCLUDED), visibility)


def lay_over(image: ImageArray, texture: ImageArray, mask: Mask) -> ImageArray:
    """`texture` over `image`, mixed by `mask`."""
    cover = mask[:, :, None]
    return np.rint(image + (texture.astype(np.float32) - image) * cover).astype(np.uint8)


def add_rectangle(
    image: ImageArray,
    points: NDArray[np.float64],
    visibility: NDArray[np.int8],
    config: Rectangle,
    affine: NDArray[np.float64],
    image_size: tuple[int, int],
    rng: np.random.Generator,
) -> tuple[ImageArray, NDArray[np.int8]]:
    """Fill a rectangle. `affine` (image -> crop) and `image_size` (width, height) place the
    published code's rectangle, which belongs to the whole image."""
    import cv2

    size = image.shape[0]
    if config.where == "image":
        corners = affines.apply(affine, _image_corners(image_size, rng))
        colour = (0, 0, 0)
    else:
        half = rng.uniform(*config.side, size=2) * size / 2
        centre = rng.uniform(0, size - 1, size=2)
        low, high = centre - half, centre + half
        corners = np.array([low, (high[0], low[1]), high, (low[0], high[1])])
        red, green, blue = rng.integers(0, 256, size=3).tolist()
        colour = (red, green, blue)
    mask = np.zeros(image.shape[:2], np.uint8)
    cv2.fillConvexPoly(mask, np.rint(corners * 16).astype(np.int32), 255, shift=4)
    covered = image.copy()
    covered[mask > 0] = colour
    return covered, mark_covered(visibility, points, (mask > 0).astype(np.float32))


def _image_corners(image_size: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    """(4, 2) corners of the published code's rectangle, in image pixels."""
    extent = np.array(image_size)
    centre = rng.integers(1, extent + 1) - 1
    half = rng.integers(1, np.maximum(2, extent // 2 + 1))
    low = np.maximum(centre - half, 0)
    high = np.minimum(centre + half, extent - 1)
    return np.array([low, (high[0], low[1]), high, (low[0], high[1])], dtype=np.float64)


def add_occluder(
    image: ImageArray,
    points: NDArray[np.float64],
    visibility: NDArray[np.int8],
    rng: np.random.Generator,
) -> tuple[ImageArray, NDArray[np.int8]]:
    """Draw a hand, hair or a thing over the face."""
    texture, mask = draw_occluder(image, rng)
    return lay_over(image, texture, mask), mark_covered(visibility, points, mask)
