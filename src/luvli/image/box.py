"""The one box convention.

A box is x0, y0, x1, y1 in image pixels with x right, y down and the centre of the first
pixel at (0, 0). Its edges are places, not pixel counts: width is x1 - x0. Unless said
otherwise a box means the *tight landmark box*: the smallest upright rectangle around the
landmarks, from the brows to the chin and from cheek to cheek, without forehead or ears.
Detectors draw other rectangles; `luvli.image.detect` maps theirs to this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.errors import InputError

MIN_SIDE = 1e-9
"""pixels: with shorter sides the scale of a crop is no finite number"""
SAME_FACE = 0.2
"""least intersection over union of two boxes that are the same face"""


@dataclass(frozen=True)
class Box:
    """An upright rectangle and how sure its maker was of it.

    >>> Box(0, 0, 30, 40).size  # geometric mean of the sides, the normaliser of NME_box
    34.64101615137755
    """

    x0: float
    y0: float
    x1: float
    y1: float
    score: float = 1.0
    detected: bool = field(default=False, repr=False, compare=False, kw_only=True)
    """whether a detector made it: then it is rough, and prediction may refine it"""

    def __post_init__(self) -> None:
        for name in ("x0", "y0", "x1", "y1", "score"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if not all(map(math.isfinite, self)) or not math.isfinite(self.width * self.height):
            raise InputError(f"a box needs finite edges, got {tuple(self)}.")
        if not math.isfinite(self.score):
            raise InputError(f"the score of a box must be a finite number, got {self.score}.")
        if not (self.width > MIN_SIDE and self.height > MIN_SIDE):
            raise InputError(f"a box needs x0 < x1 and y0 < y1, got {tuple(self)}.")

    def __iter__(self) -> Iterator[float]:
        """The four edges; the score is not an edge."""
        return iter((self.x0, self.y0, self.x1, self.y1))

    @classmethod
    def around(cls, points: ArrayLike, score: float = 1.0) -> Box:
        """The tight box of points (n, 2); rows with NaN are left out."""
        array = np.asarray(points, dtype=np.float64)
        located = array[np.isfinite(array).all(axis=1)]
        if not len(located):
            raise InputError("no box: none of the points has a location.")
        x0, y0 = located.min(axis=0)
        x1, y1 = located.max(axis=0)
        return cls(x0, y0, x1, y1, score)

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def centre(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    @property
    def size(self) -> float:
        """Geometric mean of width and height, in pixels."""
        return math.sqrt((self.x1 - self.x0) * (self.y1 - self.y0))

    @property
    def array(self) -> NDArray[np.float64]:
        """(4,) x0, y0, x1, y1"""
        return np.array(tuple(self))

    def iou(self, other: Box) -> float:
        """Intersection over union, 0..1."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        if width <= 0 or height <= 0:
            return 0.0
        overlap = width * height
        return overlap / (self.width * self.height + other.width * other.height - overlap)

    def moved(self, shift: tuple[float, float], growth: float = 1.0) -> Box:
        """Its centre moved by `shift`, in units of the longer side, and all sides `growth` times
        as long.

        >>> tuple(Box(0, 0, 10, 20).moved((0.5, 0.0), 2.0))
        (5.0, -10.0, 25.0, 30.0)
        """
        longer = max(self.width, self.height)
        x, y = self.centre[0] + longer * shift[0], self.centre[1] + longer * shift[1]
        half_width, half_height = growth * self.width / 2, growth * self.height / 2
        edges = x - half_width, y - half_height, x + half_width, y + half_height
        return Box(*edges, self.score, detected=self.detected)

    def scaled(self, factor: float) -> Box:
        """The same box in an image resized by `factor` (pixel centres kept in place)."""
        x0, y0, x1, y1 = ((edge + 0.5) * factor - 0.5 for edge in self)
        return Box(x0, y0, x1, y1, self.score, detected=self.detected)


def best_match(face: Box, boxes: Sequence[Box]) -> Box | None:
    """The box that overlaps the face's own most, if that is enough to be the same face: one rule
    for training, evaluation and tracking.

    >>> best_match(Box(0, 0, 10, 10), [Box(50, 0, 60, 10), Box(1, 0, 11, 10)])
    Box(x0=1.0, y0=0.0, x1=11.0, y1=10.0, score=1.0)
    >>> best_match(Box(0, 0, 10, 10), [Box(0, 0, 100, 100)]) is None
    True
    """
    best = max(boxes, key=face.iou, default=None)
    return best if best is not None and face.iou(best) >= SAME_FACE else None
