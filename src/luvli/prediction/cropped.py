"""`CroppedFaces`: the faces of one image or of several, cut out for the network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from luvli.errors import InputError
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray
from luvli.network.backend import Windows
from luvli.network.model_info import ModelInfo


class CroppedFaces(NamedTuple):
    """The faces of one image or of several, ready for the network."""

    boxes: list[Box]
    crops: list[Crop]
    pixels: list[ImageArray]
    """each (S, S, 3); of detected faces somewhat more than the crop (`luvli.prediction.refine`)"""
    sizes: list[tuple[int, int]]
    """width and height of each face's image"""
    left_out: int = 0
    """detected faces that were not cropped, because they are too many"""

    @property
    def windows(self) -> Windows:
        """Where the crops lie in their images, for the model."""
        return Windows(
            np.array([crop.affine for crop in self.crops]).reshape(-1, 2, 3),
            np.array([tuple(box) for box in self.boxes]).reshape(-1, 4),
            np.array([box.score for box in self.boxes]),
        )

    @classmethod
    def join(cls, parts: Sequence[CroppedFaces]) -> CroppedFaces:
        """The faces of several images, one after the other."""
        return cls(
            [box for part in parts for box in part.boxes],
            [crop for part in parts for crop in part.crops],
            [pixels for part in parts for pixels in part.pixels],
            [size for part in parts for size in part.sizes],
        )

    @classmethod
    def of_crops(cls, images: Iterable[ImageArray], info: ModelInfo) -> CroppedFaces:
        """Square images (S, S, 3) of any size that are face crops already, as the model was
        trained with."""
        cropped = cls([], [], [], [])
        size = info.config.input_size
        for image in images:
            height, width = image.shape[:2]
            if height != width:
                raise InputError(f"a face crop must be square, got {width} x {height} pixels.")
            middle, half = (width - 1) / 2, width / info.enlarge / 2
            crop = Crop.from_square((middle, middle), width, size)
            cropped.boxes.append(Box(middle - half, middle - half, middle + half, middle + half))
            cropped.crops.append(crop)
            cropped.pixels.append(image if width == size else crop.warp(image))
            cropped.sizes.append((width, height))
        return cropped
