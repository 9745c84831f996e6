"""`Photograph`: an image that is decoded only as finely as somebody looks at it."""

from __future__ import annotations

import os

import numpy as np

from luvli.image import affine
from luvli.image.array import from_array
from luvli.image.crop import Crop
from luvli.image.read import ImageArray, ImageSource, Opener, Reduced, read_reduced

_COARSEST = 8
"""JPEG files can be decoded with one pixel for 8 x 8."""


class Photograph:
    """An image from a path, from the bytes of a file, or from an array.

    A JPEG of 24 megapixels is searched for faces with a sixteenth of its pixels or less, and if
    the faces in it are large, no more are ever decoded. Arrays of uint8 RGB are not copied.
    Other formats are read whole. Coordinates are always those of the whole image.
    """

    def __init__(self, source: ImageSource, opener: Opener | None = None, name: str = "") -> None:
        """`opener` as in `read_reduced`; `name` for detectors that look boxes up, a path's own by
        default."""
        self.name = name or (str(source) if isinstance(source, str | os.PathLike) else "")
        self._source = source
        self._opener = opener
        self._finest: Reduced | None = None
        if isinstance(source, np.ndarray):
            pixels = np.ascontiguousarray(from_array(source))
            size = pixels.shape[1], pixels.shape[0]
            self._finest = Reduced(pixels, np.eye(2, 3), 1, size)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the whole image, once some of it has been decoded."""
        return (self._finest or self.overview(1)).size

    def whole(self) -> ImageArray:
        """All its pixels, (H, W, 3) RGB. The array may be the user's own: do not write to it."""
        return self.at(1).image

    def overview(self, least: int) -> Reduced:
        """The image with the fewest pixels that leave at least `least` on its longest side."""
        return self.at(_COARSEST, least)

    def warp(self, crop: Crop) -> ImageArray:
        """The pixels of a crop, (size, size, 3), from an image at least as fine as they are."""
        if crop.convention != "pixel-centre" or (self._finest and self._finest.factor == 1):
            return crop.warp(self.whole())
        reduced = self.at(max(1, int(1 / crop.scale)))
        if reduced.factor == 1:
            return crop.warp(reduced.image)
        moved = affine.compose(crop.affine, affine.invert(reduced.affine))
        return Crop(moved, crop.size, crop.rotation).warp(reduced.image)

    def at(self, factor: int, least: int = 0) -> Reduced:
        """What has been decoded already if that is fine enough; otherwise decoded now."""
        if self._finest is None or self._finest.factor > max(factor, 1):
            self._finest = None  # its memory first
            assert not isinstance(self._source, np.ndarray)
            self._finest = read_reduced(self._source, factor, least, self._opener)
        return self._finest
