"""The drawn face of a markup, with numbers or with marked landmarks."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

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
    places = _fit(markup.schematic, size)
    unit = size / 1200
    thick = max(1, round(2 * unit))
    for a, b in markup.edges:
        cv2.line(image, _at(places[a]), _at(places[b]), _LINE, thick, cv2.LINE_AA, _SHIFT)
    for j, place in enumerate(places):
        if j in hidden:
            radius = round(max(3.0, 13 * unit) * 2**_SHIFT)
            cv2.circle(image, _at(place), radius, (0, 0, 0), -1, cv2.LINE_AA, _SHIFT)
        elif numbers:
            radius = round(max(1.5, 5 * unit) * 2**_SHIFT)
            cv2.circle(image, _at(place), radius, _DOT, -1, cv2.LINE_AA, _SHIFT)
    if numbers:
        for j, (x, y) in enumerate(_label_places(places, unit)):
            text = str(j)
            scale = 0.55 * unit
            (width, height), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, thick)
            corner = round(x - width / 2), round(y + height / 2)
            cv2.putText(
                image,
                text,
                corner,
                cv2.FONT_HERSHEY_SIMPLEX,
                scale,
                _TEXT,
                max(1, round(unit)),
                cv2.LINE_AA,
            )
    return image


def _fit(schematic: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The drawing scaled to fill the square but for a margin."""
    low, high = schematic.min(axis=0), schematic.max(axis=0)
    scale = 0.88 * size / (high - low).max()
    fitted: NDArray[np.float64] = (schematic - (low + high) / 2) * scale + size / 2
    return fitted


def _label_places(places: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Where the numbers go: each pushed away from its nearest neighbours.

    A label leaves its dot along the direction in which the other dots are fewest, so
    numbers on an outline stand outside it and do not run into each other.
    """
    apart = places[:, None] - places[None]
    distance = np.linalg.norm(apart, axis=2) + 1e-9
    push = (apart / distance[..., None] ** 3).sum(axis=1)
    push += 1e-7 * (places - places.mean(axis=0))
    push /= np.linalg.norm(push, axis=1, keepdims=True) + 1e-12
    moved: NDArray[np.float64] = places + push * 22 * unit
    return moved


def _at(place: NDArray[np.float64]) -> tuple[int, int]:
    x, y = np.rint(place * 2**_SHIFT).astype(int)
    return int(x), int(y)
