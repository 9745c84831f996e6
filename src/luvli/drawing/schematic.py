"""The drawn face of a markup, with numbers or with marked landmarks."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from luvli.arrays import Floats
from luvli.image.read import ImageArray
from luvli.markup import Markup

_LINE = (150, 160, 175)
_DOT = (40, 90, 200)
_TEXT = (20, 20, 20)
_SHIFT = 4  # OpenCV draws at 1/16 of a pixel


def draw_schematic(
    markup: Markup,
    size: int = 1200,
    numbers: bool = True,
    hidden: Collection[int] = (),
) -> ImageArray:
    """The schematic of a markup on white, (size, size, 3).

    `numbers` writes each landmark's index beside it. Landmarks in `hidden` are black
    circles, as the paper draws self-occluded ones (figure 2); with `numbers` off the
    others are not dotted, so that the circles stand out.
    """
    import cv2

    image = np.full((size, size, 3), 255, np.uint8)
    unit = size / 1200
    thick = max(1, round(2 * unit))
    low, high = markup.schematic.min(axis=0), markup.schematic.max(axis=0)
    places = (markup.schematic - (low + high) / 2) * (0.88 * size / (high - low).max()) + size / 2
    fixed = np.rint(places * 2**_SHIFT).astype(int).tolist()
    for a, b in markup.edges:
        cv2.line(image, fixed[a], fixed[b], _LINE, thick, cv2.LINE_AA, _SHIFT)
    for j, place in enumerate(fixed):
        if j in hidden or numbers:
            radius = max(3.0, 13 * unit) if j in hidden else max(1.5, 5 * unit)
            colour = (0, 0, 0) if j in hidden else _DOT
            cv2.circle(image, place, round(radius * 2**_SHIFT), colour, -1, cv2.LINE_AA, _SHIFT)
    if numbers:
        font, scale, weight = cv2.FONT_HERSHEY_SIMPLEX, 0.55 * unit, max(1, round(unit))
        for j, (x, y) in enumerate(_beside(places, 22 * unit)):
            (width, height), _ = cv2.getTextSize(str(j), font, scale, thick)
            corner = round(x - width / 2), round(y + height / 2)
            cv2.putText(image, str(j), corner, font, scale, _TEXT, weight, cv2.LINE_AA)
    return image


def _beside(places: Floats, distance: float) -> Floats:
    """(k, 2) where the numbers go: each leaves its dot along the direction in which the other dots
    are fewest, so numbers on an outline stand outside it and do not run into each other."""
    apart = places[:, None] - places[None]
    push = (apart / (np.linalg.norm(apart, axis=2, keepdims=True) + 1e-9) ** 3).sum(axis=1)
    push += 1e-7 * (places - places.mean(axis=0))
    length = np.linalg.norm(push, axis=1, keepdims=True) + 1e-12
    return np.asarray(places + distance * push / length)
