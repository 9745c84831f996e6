"""A second look at faces that a detector's box does not fit.

A detector's box is rough where a face is turned away: its points lie off the far cheek, its
rectangle takes in the hair. The landmarks found in such a box tell a better one, and cut out by
that, the face is looked at once more. Which faces those are is told by the first look alone: those
that hide a good part of their landmarks, and those whose landmarks fill another box than the
detector's. Boxes that somebody gives are taken as they are.

For the second look nothing is read again: what is cut out for a detected face is a little wider
than what the network is shown (`MARGIN`), and holds the second window nearly always; beyond it is
black, as beyond the image.
"""

from __future__ import annotations

import math

from luvli.arrays import Floats
from luvli.image import affine
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray
from luvli.network.model_info import ModelInfo

MARGIN = 1 / 8
"""what is cut out around the crop, on each side, as a share of the crop's"""
HIDDEN = 0.1
"""share of landmarks from which a face counts as turned away"""
MISFIT = 0.78
"""intersection over union of the detector's box and the landmarks' own below which they disagree.
Chosen with HIDDEN on the held-out faces that are for choosing (docs/detection.md)."""

LIKELY = 2.0
"""times that the sizes of the two boxes may differ; beyond that the first look found no face"""


def margin(info: ModelInfo) -> int:
    """Crop pixels to cut out around a crop; 0 for models that are shown nothing twice.

    The published code's own way of cropping looks once, and without a visibility nobody knows
    which landmarks to trust for a box.
    """
    if info.crop_convention != "pixel-centre" or not info.config.visibility_trained:
        return 0
    return round(MARGIN * info.config.input_size)


def first_view(pixels: ImageArray, size: int) -> ImageArray:
    """The middle (size, size, 3) of what was cut out: what the network is shown first."""
    edge = (len(pixels) - size) // 2
    return pixels[edge : edge + size, edge : edge + size] if edge else pixels


def better_box(box: Box, points: Floats, visibility: Floats) -> Box | None:
    """The box of the visible landmarks (k, 2), where a second look is worth its time."""
    # As lists: after a run of the network fetching NumPy's code takes longer.
    x, y, shown = points[:, 0].tolist(), points[:, 1].tolist(), visibility.tolist()
    hidden = [] if min(shown) > 0.5 else [j for j, v in enumerate(shown) if not v > 0.5]
    for j in reversed(hidden):
        del x[j], y[j]
    if len(x) < 2 or not math.isfinite(sum(x) + sum(y)):
        return None
    edges = min(x), min(y), max(x), max(y)
    if edges[0] == edges[2] or edges[1] == edges[3]:
        return None
    better = Box._trusted(*edges, box.score)
    if not 1 / LIKELY < better.size / box.size < LIKELY:
        return None
    turned_away = len(hidden) > HIDDEN * len(visibility)
    return better if turned_away or box.iou(better) < MISFIT else None


def cut_again(pixels: ImageArray, first: Crop, second: Crop) -> ImageArray:
    """The pixels of the second window, from those cut out around the first."""
    shown = first.wider((len(pixels) - first.size) // 2)
    way = affine.compose(second.affine, affine.invert(shown.affine))
    return Crop(way, second.size, second.rotation).warp(pixels)
