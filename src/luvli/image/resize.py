"""Resizing images: the one way, fast and without patterns that were not there."""

from __future__ import annotations

import numpy as np

from luvli.image.read import ImageArray

HUGE = 32_000_000
"""pixels of an image whose halved copy is not made"""


def resized(image: ImageArray, width: int, height: int) -> ImageArray:
    """The image with `width` x `height` pixels; its edges stay its edges.

    It is halved, two pixels to one, until less than a halving remains, and brought to its size
    by linear interpolation. So every pixel counts, as in a mean over areas, which is what
    OpenCV's INTER_AREA computes, in a fraction of its time.
    """
    import cv2

    across, down = image.shape[1], image.shape[0]
    if across * down > HUGE and across > 8 * width and down > 8 * height:
        # two halvings in one: a halved copy of an image this large is itself a large one
        across, down = (across + 3) // 4, (down + 3) // 4
        image = np.asarray(
            cv2.resize(image, (across, down), interpolation=cv2.INTER_AREA), dtype=np.uint8
        )
    while across > 2 * width or down > 2 * height:
        across = max(width, (across + 1) // 2) if across > 2 * width else across
        down = max(height, (down + 1) // 2) if down > 2 * height else down
        image = np.asarray(cv2.resize(image, (across, down)), dtype=np.uint8)
    if (across, down) == (width, height):
        return image
    return np.asarray(cv2.resize(image, (width, height)), dtype=np.uint8)
