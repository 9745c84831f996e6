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


def stream(seed: int, epoch: int, index: int) -> np.random.Generator:
    """The random numbers of one face in one epoch, the same in whatever worker it is drawn.

    >>> stream(0, 1, 2).random() == stream(0, 1, 2).random()
    True
    >>> stream(0, 1, 2).random() == stream(0, 2, 1).random()
    False
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch, index])))


def draw_geometry(config: Augmentation, rng: np.random.Generator) -> Geometry:
    """Draw scale, rotation, mirror and box error."""
    jitter = config.box_jitter
    cut = rng.standard_normal(3).clip(-jitter.limit, jitter.limit)
    drawn = Geometry(
        scale=_draw(config.scale, config, rng),
        rotation=_draw(config.rotation, config, rng),
        mirrored=bool(rng.random() < config.flip),
        shift=(jitter.centre * cut[0], jitter.centre * cut[1]),
        growth=float(np.exp(jitter.size * cut[2])),
    )
    if config.turned.probability and rng.random() < config.turned.probability:
        drawn = drawn._replace(rotation=_draw(config.turned.rotation, config, rng))
    if config.turned_boxes:
        shift, growth = turned_box_error(drawn.rotation, cut)
        shift = shift[0] + drawn.shift[0], shift[1] + drawn.shift[1]
        drawn = drawn._replace(shift=shift, growth=growth * drawn.growth)
    return drawn


def turned_box_error(rotation: float, normal: Floats) -> tuple[tuple[float, float], float]:
    """What our detector does to the box of a face that is turned by so many degrees.

    -> shift of the box in units of its longer side, along the axes of the upright face, and its
    growth. `normal` (3,) standard normal numbers. Measured with YuNet on 120 faces of 300-W turned
    by 0 to 180 degrees: the box lies (-0.16 sin t, 0.31 ((1 - cos t) / 2)^1.8) from the landmarks'
    middle in the turned image. At 90 degrees its place scatters by 0.10 of its side and its size by
    0.22, where those of an upright face scatter by 0.03 and 0.045; at 180 by 0.07 and 0.145.
    """
    turn = np.radians(rotation)
    cosine, sine = np.cos(turn), np.sin(turn)
    spread = 0.55 * (1 - cosine) / 2 + 0.72 * sine**2  # 1 at 90 degrees
    right = -0.16 * sine + 0.065 * spread * normal[0]
    down = 0.31 * ((1 - cosine) / 2) ** 1.8 + 0.065 * spread * normal[1]
    back = cosine * right - sine * down, sine * right + cosine * down
    return (float(back[0]), float(back[1])), float(np.exp(0.17 * spread * normal[2]))


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
