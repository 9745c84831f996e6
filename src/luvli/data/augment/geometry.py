"""Where the crop is cut: one affine from image to crop pixels holds scale, turn and mirror."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.data.augment.config import Augmentation, Range
from luvli.image import affine as affines
from luvli.image.box import Box
from luvli.image.crop import Convention, Crop


class Geometry(NamedTuple):
    """One drawn change of the crop."""

    scale: float = 1.0
    rotation: float = 0.0
    """degrees, counter-clockwise as seen"""
    mirrored: bool = False
    shift: tuple[float, float] = (0.0, 0.0)
    """of the box, in units of its longer side"""
    growth: float = 1.0
    """of the box"""


def draw_geometry(config: Augmentation, rng: np.random.Generator) -> Geometry:
    """Draw scale, rotation, mirror and box error."""
    jitter = config.box_jitter
    cut = rng.standard_normal(3).clip(-jitter.limit, jitter.limit)
    return Geometry(
        scale=_draw(config.scale, config, rng),
        rotation=_draw(config.rotation, config, rng),
        mirrored=bool(rng.random() < config.flip),
        shift=(jitter.centre * cut[0], jitter.centre * cut[1]),
        growth=float(np.exp(jitter.size * cut[2])),
    )


def _draw(values: Range, config: Augmentation, rng: np.random.Generator) -> float:
    low, high = values
    if config.distribution == "uniform":
        return float(rng.uniform(low, high))
    middle, half = (low + high) / 2, (high - low) / 2
    return float(np.clip(rng.normal(middle, half / 2), low, high))


def place_crop(
    box: Box, size: int, enlarge: float, geometry: Geometry, convention: Convention = "pixel-centre"
) -> Floats:
    """(2, 3) affine from image to crop pixels, mirror included."""
    moved = box.moved(geometry.shift, geometry.scale * geometry.growth)
    affine = Crop.from_box(moved, size, enlarge, geometry.rotation, convention).affine
    if not geometry.mirrored:
        return affine
    width = size if convention == "pixel-centre" else size + 1  # whose middle is size / 2
    return affines.compose(affines.mirror(width), affine)


def keep_inside(affine: Floats, points: Floats, size: int) -> Floats:
    """Enlarge the crop about its centre until all `points` (n, 2, image pixels) are inside."""
    middle = (size - 1) / 2
    if not len(points):
        return affine
    away = np.abs(affines.apply(affine, points) - middle).max()
    if not away > middle:
        return affine
    return affines.compose(affines.zoom(middle / away, (middle, middle)), affine)
