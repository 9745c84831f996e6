"""Boxes on images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from luvli.image.box import Box
from luvli.image.read import ImageArray

_SHIFT = 4  # OpenCV draws at 1/16 of a pixel


def draw_boxes(image: ImageArray, boxes: Sequence[Box]) -> ImageArray:
    """A copy of the image with each box and its score, sized to be read at any resolution."""
    import cv2

    canvas = image.copy()
    unit = max(1.0, min(image.shape[:2]) / 500)
    for box in boxes:
        low, high = (
            tuple(int(v) for v in np.rint(np.array(corner) * 2**_SHIFT))
            for corner in ((box.x0, box.y0), (box.x1, box.y1))
        )
        cv2.rectangle(canvas, low, high, (0, 220, 90), round(2 * unit), cv2.LINE_AA, _SHIFT)
        place = round(box.x0), max(round(14 * unit), round(box.y0 - 5 * unit))
        for colour, thick in (((0, 0, 0), 3), ((255, 255, 255), 1)):
            cv2.putText(
                canvas,
                f"{box.score:.2f}",
                place,
                cv2.FONT_HERSHEY_SIMPLEX,
                0.5 * unit,
                colour,
                max(1, round(thick * unit)),
                cv2.LINE_AA,
            )
    return canvas
