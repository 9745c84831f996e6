"""Validation faces with predicted points, ellipses and visibility, on one sheet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from luvli.drawing.faces import draw_face
from luvli.faces import FaceLandmarks
from luvli.image.read import Picture
from luvli.training.validate import Answers

TILE = 192
COLUMNS = 6
FACES = 12


def contact_sheet(
    sets: Sequence[Answers], markup: str, visibility_trained: bool, faces: int = FACES
) -> Picture:
    """The first faces of each set in equal parts, `COLUMNS` in a row.

    Labels are green, predictions yellow, ellipses blue; what is probably invisible fades.
    """
    each = max(1, faces // len(sets))
    tiles = [
        draw_tile(answers, i, markup, visibility_trained)
        for answers in sets
        for i in range(min(each, len(answers.images)))
    ]
    columns = min(COLUMNS, len(tiles))
    rows = -(-len(tiles) // columns)
    sheet = np.zeros((rows * TILE, columns * TILE, 3), np.uint8)
    for place, tile in enumerate(tiles):
        y, x = divmod(place, columns)
        sheet[y * TILE : (y + 1) * TILE, x * TILE : (x + 1) * TILE] = tile
    return sheet


def draw_tile(answers: Answers, index: int, markup: str, visibility_trained: bool) -> Picture:
    """One face, enlarged to `TILE` pixels."""
    import cv2

    image = answers.images[index]
    size = image.shape[0]
    scale = TILE / size
    shift = scale / 2 - 0.5  # pixel centres: (x + 1/2) * scale - 1/2
    tile = np.asarray(cv2.resize(image, (TILE, TILE), interpolation=cv2.INTER_LINEAR), np.uint8)
    face = FaceLandmarks(
        points=answers.points[index],
        covariance=answers.covariance[index],
        visibility=answers.visibility[index],
        box=[0, 0, size - 1, size - 1],  # type: ignore[arg-type]
        markup=markup,
        visibility_trained=visibility_trained,
    )
    moved = face.transform([[scale, 0, shift], [0, scale, shift]])
    return draw_face(tile, moved, truth=answers.truth[index] * scale + shift)
