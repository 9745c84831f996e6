"""Which of the detected boxes is this face: one rule for training, evaluation and tracking."""

from __future__ import annotations

from collections.abc import Sequence

from luvli.image.box import Box

SAME_FACE = 0.2
"""Least intersection over union of two boxes that are the same face."""


def best_match(face: Box, boxes: Sequence[Box]) -> Box | None:
    """The box that overlaps the face's own most, if that is enough to be the same face.

    >>> best_match(Box(0, 0, 10, 10), [Box(50, 0, 60, 10), Box(1, 0, 11, 10)])
    Box(x0=1.0, y0=0.0, x1=11.0, y1=10.0, score=1.0)
    >>> best_match(Box(0, 0, 10, 10), [Box(0, 0, 100, 100)]) is None
    True
    """
    best = max(boxes, key=face.iou, default=None)
    return best if best is not None and face.iou(best) >= SAME_FACE else None
