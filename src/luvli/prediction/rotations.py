"""Faces in images that lie on their side or stand on their head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image import affine
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.detect import MIN_SCORE
from luvli.image.read import ImageArray

if TYPE_CHECKING:
    from luvli.prediction.pipeline import Pipeline

TryRotations = Literal["auto"] | bool
"""whether to look for faces in images on their side or upside down: always, never, or where no face
was found that the model trusts"""
TURNS = (0, 1, 3, 2)
"""quarter turns counter-clockwise, the likeliest first"""
TRUSTED = 0.5
"""confidence from which a face is taken for right: with "auto" no other orientation is tried where
a face has so much, and none is taken that gives less"""


def detect_turned(
    pipeline: Pipeline,
    image: ImageArray,
    name: str = "",
    min_score: float = MIN_SCORE,
    turns: Sequence[int] = TURNS,
) -> tuple[list[Box], list[Crop]]:
    """Boxes and crops of the faces, whichever way up the image is.

    The detector looks at the image after each of the quarter `turns`; that with the largest sum of
    scores counts. Crops are upright faces; boxes, and what comes out of the network, are in pixels
    of the image as it is.
    """
    detections = []
    for turn in turns:
        turned = np.ascontiguousarray(np.rot90(image, turn))
        thorough = 0 in turns  # as a second try the quick search is enough
        detections.append((pipeline.detect(turned, name, min_score, thorough), turn))
    boxes, turn = max(detections, key=lambda item: sum(box.score for box in item[0]))
    height, width = image.shape[:2]
    to_turned = turn_affine(turn, width, height)
    crops = [pipeline.info.crop_for(box) for box in boxes]
    if turn == 0:
        return boxes, crops
    back = affine.invert(to_turned)
    return (
        [_moved(box, back) for box in boxes],
        [Crop(affine.compose(crop.affine, to_turned), crop.size, 90.0 * turn) for crop in crops],
    )


def is_doubtful(faces: Faces | InputError) -> bool:
    """Whether there is no face, or none that the model trusts."""
    if isinstance(faces, InputError):
        return False
    return not len(faces) or bool(faces.confidence.max() < TRUSTED)


def turn_affine(turn: int, width: int, height: int) -> Floats:
    """(2, 3) pixels of an image -> those of `np.rot90(image, turn)`.

    >>> turn_affine(1, 30, 20).tolist()  # the last column becomes the first row
    [[0.0, 1.0, 0.0], [-1.0, 0.0, 29.0]]
    """
    affines = {
        0: [[1, 0, 0], [0, 1, 0]],
        1: [[0, 1, 0], [-1, 0, width - 1]],
        2: [[-1, 0, width - 1], [0, -1, height - 1]],
        3: [[0, -1, height - 1], [1, 0, 0]],
    }
    return np.array(affines[turn % 4], dtype=np.float64)


def _moved(box: Box, back: Floats) -> Box:
    x0, y0, x1, y1 = affine.box_around(back, box.array).tolist()
    return Box(x0, y0, x1, y1, box.score)
