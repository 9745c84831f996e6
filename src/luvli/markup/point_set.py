"""What a point set is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from luvli.errors import unknown_choice

MarkupName = Literal["ibug68", "wflw98", "cofw29", "aflw19", "menpo39"]

GROUPS = ("jaw", "brows", "nose", "eyes", "mouth")


@dataclass(frozen=True, eq=False)
class Markup:
    """One point set.

    >>> from luvli.markup import get_markup
    >>> get_markup("ibug68").names[8]
    'chin'
    >>> get_markup("ibug68").flip[55:60].tolist()
    [59, 58, 57, 56, 55]
    """

    name: str
    names: tuple[str, ...]
    """one for each landmark"""
    parts: Mapping[str, tuple[int, ...]]
    """the finest pieces, each an open or closed line: jaw, right brow, left brow, ..."""
    closed: frozenset[str]
    """the parts whose last point joins the first"""
    groups: Mapping[str, tuple[int, ...]]
    """a partition into jaw, brows, nose, eyes, mouth (those that the set has)"""
    outer_eye_corners: tuple[int, int]
    """right, left: their distance is the inter-ocular normaliser"""
    eyes: tuple[tuple[int, ...], tuple[int, ...]]
    """right, left: the points whose mean is the pupil centre (inter-pupil normaliser)"""
    schematic: NDArray[np.float64]
    """(k, 2) a drawn face, x and y about -1..1, y down: for images, not for measuring"""

    @property
    def size(self) -> int:
        """Number of landmarks k."""
        return len(self.names)

    def find(self, name: str) -> tuple[int, ...]:
        """The landmarks of a part, a group or one landmark, by its name; "_" reads as a space.

        >>> from luvli.markup import get_markup
        >>> get_markup("ibug68").find("left_eye")
        (42, 43, 44, 45, 46, 47)
        """
        wanted = name.replace("_", " ").lower()
        for known in (self.parts, self.groups):
            if wanted in known:
                return known[wanted]
        if wanted in self.names:
            return (self.names.index(wanted),)
        choices = dict.fromkeys([*self.parts, *self.groups])
        raise unknown_choice("part of " + self.name, name, choices)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of landmarks to join when drawing."""
        pairs: list[tuple[int, int]] = []
        for name, part in self.parts.items():
            pairs += pairwise(part)
            if name in self.closed:
                pairs.append((part[-1], part[0]))
        return tuple(pairs)

    @property
    def skeleton(self) -> list[list[int]]:
        """The edges counted from 1, as COCO's categories and supervision's annotators want them.

        >>> from luvli.markup import get_markup
        >>> get_markup("ibug68").skeleton[:2]
        [[1, 2], [2, 3]]
        """
        return [[a + 1, b + 1] for a, b in self.edges]

    @property
    def flip(self) -> NDArray[np.intp]:
        """(k,) landmark j of a mirrored image is landmark flip[j] of the original."""
        index = {name: j for j, name in enumerate(self.names)}
        return np.array([index[mirrored(name)] for name in self.names], dtype=np.intp)


def mirrored(name: str) -> str:
    """The name on the other side of the face.

    >>> mirrored("right eye outer corner")
    'left eye outer corner'
    """
    swap = {"right": "left", "left": "right"}
    return " ".join(swap.get(word, word) for word in name.split())
