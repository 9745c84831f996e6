"""Random changes of training faces, each reproducible from (seed, epoch, face).

    config = Augmentation.recipe("B").model_copy(update={"flip": 0.5})
    rng = stream(seed=0, epoch=3, index=17)

All geometry is one affine, so an image is resampled once; colours and occluders follow on
the finished crop. No function here knows of covariances: labels are points.
"""

from __future__ import annotations

import numpy as np

from luvli.data.augment.config import Augmentation, BoxJitter, Rectangle, Turned
from luvli.data.augment.geometry import (
    Geometry,
    draw_geometry,
    keep_inside,
    place_crop,
)
from luvli.data.augment.masks import add_mask
from luvli.data.augment.occlude import add_occluder, add_rectangle, mark_covered
from luvli.data.augment.photometric import change_colours, stretch_contrast

__all__ = [
    "Augmentation",
    "BoxJitter",
    "Geometry",
    "Rectangle",
    "Turned",
    "add_mask",
    "add_occluder",
    "add_rectangle",
    "change_colours",
    "draw_geometry",
    "keep_inside",
    "mark_covered",
    "place_crop",
    "stream",
    "stretch_contrast",
]


def stream(seed: int, epoch: int, index: int) -> np.random.Generator:
    """The random numbers of one face in one epoch, the same in whatever worker it is drawn.

    >>> stream(0, 1, 2).random() == stream(0, 1, 2).random()
    True
    >>> stream(0, 1, 2).random() == stream(0, 2, 1).random()
    False
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch, index])))
