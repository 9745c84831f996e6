"""Contact sheets: images of one size in rows, with captions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from luvli.errors import InputError
from luvli.image.read import ImageArray

Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)


def contact_sheet(
    cells: Sequence[ImageArray], columns: int, gap: int = 0, background: Colour = WHITE
) -> ImageArray:
    """Images (h, w, 3) of one size, row by row, `gap` pixels between and around them.

    >>> contact_sheet([np.zeros((4, 5, 3), np.uint8)] * 3, columns=2, gap=1).shape
    (11, 13, 3)
    """
    if not cells:
        raise InputError("there are no faces to show.")
    height, width = cells[0].shape[:2]
    columns = min(columns, len(cells))
    rows = -(-len(cells) // columns)
    sheet = np.full(
        (rows * (height + gap) + gap, columns * (width + gap) + gap, 3), background, np.uint8
    )
    for number, cell in enumerate(cells):
        row, column = divmod(number, columns)
        top, left = gap + row * (height + gap), gap + column * (width + gap)
        sheet[top : top + height, left : left + width] = cell
    return sheet


def captioned(
    cell: ImageArray, text: str, height: int = 16, colour: Colour = (60, 60, 60)
) -> ImageArray:
    """The image with a line of text under it; the beginning of a long text is cut."""
    import cv2

    strip = np.full((height, cell.shape[1], 3), WHITE, np.uint8)
    size = 0.34 * height / 16
    letters = max(8, int(cell.shape[1] / (18 * size)))
    shown = text if len(text) <= letters else "..." + text[3 - letters :]
    place = 2, round(0.7 * height)
    cv2.putText(strip, shown, place, cv2.FONT_HERSHEY_SIMPLEX, size, colour, 1, cv2.LINE_AA)
    return np.concatenate([cell, strip])
