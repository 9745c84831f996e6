"""Faces cut out for the network, and box refinement: faces that a detector's box does not fit are
cropped again, by their landmarks.

A detector's box is rough where a face is turned away: its points lie off the far cheek, its
rectangle takes in the hair. The landmarks of the first prediction make a better box. Faces are
cropped again where the landmarks fill another box than the detector's. Boxes that somebody gives
are taken as they are.

Nothing is read again: what is cut out for a detected face is a little wider than what the network
is shown (`MARGIN`), and holds the second crop nearly always; beyond it is black, as beyond the
image.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from luvli.arrays import Bools, Floats
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image import affine
from luvli.image.box import MIN_SIDE, Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray
from luvli.network.backend import Windows
from luvli.network.model_info import ModelInfo

MARGIN = 1 / 8
"""what is cut out around the crop, on each side, as a share of the crop's side"""
MIN_IOU = 0.76
"""intersection over union of the detector's box and the landmarks' own below which they disagree.
Chosen on the held-out faces that are for choosing (docs/research/2026-11-detection.md)."""
MAX_CHANGE = 2.0
"""times that the sizes of the two boxes may differ; beyond that the first prediction is no face"""


class CroppedFaces(NamedTuple):
    """The faces of one image or of several, ready for the network."""

    boxes: list[Box]
    crops: list[Crop]
    pixels: list[ImageArray]
    """each (S, S, 3); of detected faces somewhat more than the crop"""
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


# -- box refinement --------------------------------------------------------------------------


def margin(info: ModelInfo) -> int:
    """Crop pixels to cut out around a crop; 0 for models whose boxes are not refined.

    The published code crops once, and without a visibility nobody knows which landmarks make the
    better box.
    """
    if info.crop_convention != "pixel-centre" or not info.config.visibility_trained:
        return 0
    return round(MARGIN * info.config.input_size)


def inner(pixels: ImageArray, size: int) -> ImageArray:
    """The middle (size, size, 3) of what was cut out: what the network is shown first."""
    edge = (len(pixels) - size) // 2
    return pixels[edge : edge + size, edge : edge + size]


def refined_boxes(boxes: Floats, points: Floats, visibility: Floats) -> tuple[Floats, Bools]:
    """(n, 4) the boxes of the visible landmarks (n, k, 2), and (n,) for which faces cropping again
    by them is worth its time; `boxes` (n, 4) are the detector's."""
    hidden = visibility <= 0.5
    low = np.where(hidden[..., None], np.inf, points).min(axis=1)
    high = np.where(hidden[..., None], -np.inf, points).max(axis=1)
    refined = np.concatenate([low, high], axis=1)
    sides, own = boxes[:, 2:] - boxes[:, :2], high - low
    possible = (own > MIN_SIDE).all(axis=1)  # not one landmark, or all on one line: no face
    area, own_area = sides.prod(axis=1), own.prod(axis=1)
    shared = np.minimum(boxes[:, 2:], high) - np.maximum(boxes[:, :2], low)
    overlap = np.maximum(shared, 0).prod(axis=1)
    change = own_area / area
    alike = (change > 1 / MAX_CHANGE**2) & (change < MAX_CHANGE**2)
    apart = overlap < MIN_IOU * (area + own_area - overlap)
    return refined, possible & alike & apart


def crop_again(
    faces: Faces, cropped: CroppedFaces, info: ModelInfo
) -> tuple[list[int], CroppedFaces]:
    """Which faces, in image pixels, a second crop is worth its time for, and these crops."""
    wide = np.array([len(pixels) > info.config.input_size for pixels in cropped.pixels])
    if not wide.any():  # boxes that somebody gave are taken as they are
        return [], CroppedFaces([], [], [], [])
    boxes, rough = refined_boxes(faces.boxes, faces.points, faces.visibility)
    which = np.flatnonzero(rough & wide).tolist()
    crops = [info.crop_for(Box(*boxes[i].tolist())) for i in which]
    views = [
        crop_within(cropped.pixels[i], cropped.crops[i], crop)
        for i, crop in zip(which, crops, strict=True)
    ]
    detected, sizes = [cropped.boxes[i] for i in which], [cropped.sizes[i] for i in which]
    return which, CroppedFaces(detected, crops, views, sizes)


def crop_within(pixels: ImageArray, first: Crop, second: Crop) -> ImageArray:
    """The pixels of the second crop, from those cut out around the first."""
    wide = first.wider((len(pixels) - first.size) // 2)
    between = affine.compose(second.affine, affine.invert(wide.affine))
    return Crop(between, second.size, second.rotation).warp(pixels)
