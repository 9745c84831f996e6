"""`Crop`: one affine object that carries image, points and covariances, both ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError, check_choice
from luvli.image import affine as affines
from luvli.image.box import Box
from luvli.image.published import published_warp
from luvli.image.read import ImageArray
from luvli.image.resize import resized

Convention = Literal["pixel-centre", "published", "published-0"]
"""How a square of the image becomes `size` x `size` pixels.

`pixel-centre` (ours): the square's edges become the outer edges of the first and last
pixel, so x' = (x - cx) size / side + (size - 1) / 2. `published`: the published code's
x' = (x - cx) size / side + size / 2, with its integer corners and its contrast stretch. It took
the coordinates of files that count pixels from 1 (300-W, AFLW, MERL-RAV) for ones that count from
0, so it cut every image one pixel further right and down, and so does this convention.
`published-0`: the same for networks whose files count from 0 (WFLW).
"""


@dataclass(frozen=True, eq=False)
class Crop:
    """A square window on an image, possibly turned, shown as `size` x `size` pixels.

    >>> crop = Crop.from_box(Box(10, 10, 30, 30), size=64, enlarge=1.2)
    >>> crop.to_crop([[20.0, 20.0]]).tolist()
    [[31.5, 31.5]]
    """

    affine: Floats
    """(2, 3) image pixels -> crop pixels"""
    size: int
    """side of the crop in pixels"""
    rotation: float = 0.0
    """degrees that the image is turned, counter-clockwise as seen"""
    convention: Convention = "pixel-centre"

    def __post_init__(self) -> None:
        affine = affines.as_affine(self.affine)
        affine.setflags(write=False)
        object.__setattr__(self, "affine", affine)

    @classmethod
    def from_box(
        cls,
        box: Box | Sequence[float] | Floats,
        size: int,
        enlarge: float,
        rotation: float = 0.0,
        convention: Convention = "pixel-centre",
    ) -> Crop:
        """The square around a box.

        Centre of the box, side = longer side of the box times `enlarge`, turned by
        `rotation` degrees counter-clockwise as seen. What lies outside the image is black.
        """
        check_choice("crop convention", convention, get_args(Convention))
        if size < 1 or not enlarge > 0:
            raise InputError(f"a crop needs size >= 1 and enlarge > 0, got {size} and {enlarge}.")
        edges = box if isinstance(box, Box) else Box(*map(float, box))
        return cls.from_square(
            edges.centre, enlarge * max(edges.width, edges.height), size, rotation, convention
        )

    @classmethod
    def from_square(
        cls,
        centre: tuple[float, float],
        side: float,
        size: int,
        rotation: float = 0.0,
        convention: Convention = "pixel-centre",
    ) -> Crop:
        """The square with this centre and side, in image pixels."""
        scale, angle = size / side, math.radians(rotation)
        cos, sin = scale * math.cos(angle), scale * math.sin(angle)
        middle = (size - 1) / 2 if convention == "pixel-centre" else size / 2
        x, y = float(centre[0]), float(centre[1])
        right, down = middle - (cos * x + sin * y), middle - (cos * y - sin * x)
        affine = np.array([[cos, sin, right], [-sin, cos, down]])
        return cls(affine, size, rotation, convention)

    def wider(self, margin: int) -> Crop:
        """The same window with so many crop pixels more on every side."""
        affine = self.affine.copy()
        affine[:, 2] += margin
        return Crop(affine, self.size + 2 * margin, self.rotation, self.convention)

    @property
    def inverse(self) -> Floats:
        """(2, 3) crop pixels -> image pixels"""
        return affines.invert(self.affine)

    @property
    def scale(self) -> float:
        """Crop pixels per image pixel (square root of the change of area)."""
        return float(affines.scale(self.affine))

    def to_crop(self, points: ArrayLike) -> Floats:
        """Points (..., 2) from image to crop pixels."""
        return affines.apply(self.affine, points)

    def to_image(self, points: ArrayLike) -> Floats:
        """Points (..., 2) from crop to image pixels."""
        return affines.apply(self.inverse, points)

    def warp(self, image: ImageArray) -> ImageArray:
        """The crop's pixels, (size, size, 3) uint8.

        Where the image is shrunk, each crop pixel averages the pixels that it covers, so that
        fine patterns fade instead of aliasing.
        """
        if self.convention == "pixel-centre":
            return warp_affine(image, self.affine, self.size)
        centre = self.to_image([[self.size / 2, self.size / 2]])[0]
        first_pixel = 1 if self.convention == "published" else 0
        side = self.size / self.scale
        pixels = published_warp(image, centre + first_pixel, side, self.rotation, self.size)
        return pixels[:, ::-1] if affines.is_mirrored(self.affine) else pixels


def warp_affine(image: ImageArray, affine: Floats, size: int) -> ImageArray:
    """Draw `image` through `affine` (image -> crop pixels) on a black (size, size) square."""
    import cv2

    (a, b, _), (c, d, _) = affine.tolist()
    area = abs(a * d - b * c)
    if area <= 0.25:
        image, affine = _halved(image, affine, size, math.sqrt(area))
    return np.asarray(
        cv2.warpAffine(image, affine, (size, size), flags=cv2.INTER_LINEAR), dtype=np.uint8
    )


def _halved(
    image: ImageArray, affine: Floats, size: int, scale: float
) -> tuple[ImageArray, Floats]:
    """Halve the part of the image that the crop shows until it is less than twice as fine.

    The rest is left to the one interpolation that draws the crop, whose four neighbours then
    cover what a crop pixel covers.
    """
    corners = [(-1, -1), (size, -1), (size, size), (-1, size)]
    seen = affines.apply(affines.invert(affine), corners)
    margin = 2 / scale
    height, width = image.shape[:2]
    low = np.floor(seen.min(axis=0) - margin).astype(int).clip(0, (width - 1, height - 1))
    high = np.ceil(seen.max(axis=0) + margin).astype(int).clip(low + 1, (width, height))
    part = image[low[1] : high[1], low[0] : high[0]]
    times = 2 ** math.floor(math.log2(1 / scale))
    shape = -(-(high - low) // times)
    small = resized(part, int(shape[0]), int(shape[1]))
    # Pixel x of the small image sits at (x + 0.5) / ratio - 0.5 + low in the image.
    ratio = (high - low) / shape
    to_image = np.column_stack([np.diag(ratio), low - 0.5 + 0.5 * ratio])
    return small, affines.compose(affine, to_image)
