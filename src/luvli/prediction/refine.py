"""Box refinement: faces that a detector's box does not fit are cropped again, by their landmarks.

A detector's box is rough where a face is turned away: its points lie off the far cheek, its
rectangle takes in the hair. The landmarks of the first prediction make a better box. Faces are
cropped again where a good part of the landmarks is hidden, or where the landmarks fill another box
than the detector's. Boxes that somebody gives are taken as they are.

Nothing is read again: what is cut out for a detected face is a little wider than what the network
is shown (`MARGIN`), and holds the second crop nearly always; beyond it is black, as beyond the
image.
"""

from __future__ import annotations

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.image import affine
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray
from luvli.network.model_info import ModelInfo

MARGIN = 1 / 8
"""what is cut out around the crop, on each side, as a share of the crop's side"""
HIDDEN = 0.1
"""share of hidden landmarks from which a face counts as turned away"""
MIN_IOU = 0.78
"""intersection over union of the detector's box and the landmarks' own below which they disagree.
Chosen with HIDDEN on the held-out faces that are for choosing (docs/detection.md)."""
MAX_CHANGE = 2.0
"""times that the sizes of the two boxes may differ; beyond that the first prediction is no face"""


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


def refined_box(box: Box, points: Floats, visibility: Floats) -> Box | None:
    """The box of the visible landmarks (k, 2), where cropping again is worth its time."""
    visible = visibility > 0.5
    if visible.sum() < 2:
        return None
    try:
        refined = Box.around(points[visible], box.score)
    except InputError:  # all on one line: no face
        return None
    if not 1 / MAX_CHANGE < refined.size / box.size < MAX_CHANGE:
        return None
    turned_away = (~visible).sum() > HIDDEN * len(visible)
    return refined if turned_away or box.iou(refined) < MIN_IOU else None


def crop_again(pixels: ImageArray, first: Crop, second: Crop) -> ImageArray:
    """The pixels of the second crop, from those cut out around the first."""
    wide = first.wider((len(pixels) - first.size) // 2)
    between = affine.compose(second.affine, affine.invert(wide.affine))
    return Crop(between, second.size, second.rotation).warp(pixels)
