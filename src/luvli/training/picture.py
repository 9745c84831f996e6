"""Validation faces with predicted points, ellipses and visibility, on one sheet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from luvli.image.read import Picture
from luvli.likelihood import covariance as cov
from luvli.training.validate import Answers

TILE = 192
COLUMNS = 6
FACES = 12
_SHIFT = 4  # OpenCV draws at sixteenths of a pixel


def contact_sheet(sets: Sequence[Answers], faces: int = FACES) -> Picture:
    """The first faces of each set in equal parts, `COLUMNS` in a row.

    As in the paper: labels green, predictions yellow, ellipses blue at Mahalanobis distance
    1, and what is probably invisible fades away.
    """
    each = max(1, faces // len(sets))
    tiles = [
        draw_tile(answers, i) for answers in sets for i in range(min(each, len(answers.images)))
    ]
    columns = min(COLUMNS, len(tiles))
    rows = -(-len(tiles) // columns)
    sheet = np.zeros((rows * TILE, columns * TILE, 3), np.uint8)
    for place, tile in enumerate(tiles):
        y, x = divmod(place, columns)
        sheet[y * TILE : (y + 1) * TILE, x * TILE : (x + 1) * TILE] = tile
    return sheet


def draw_tile(answers: Answers, index: int) -> Picture:
    """One face, enlarged to `TILE` pixels."""
    import cv2

    image = answers.images[index]
    scale = TILE / image.shape[0]
    tile = np.asarray(cv2.resize(image, (TILE, TILE), interpolation=cv2.INTER_LINEAR), np.uint8)
    truth = (answers.truth[index] + 0.5) * scale - 0.5
    points = (answers.points[index] + 0.5) * scale - 0.5
    covariance = answers.covariance[index] * scale**2
    axes = np.sqrt(cov.eigenvalues(covariance))
    angle = 0.5 * np.degrees(
        np.arctan2(2 * covariance[:, 0, 1], covariance[:, 0, 0] - covariance[:, 1, 1])
    )
    for j in range(len(points)):
        if np.isfinite(truth[j]).all():
            _dot(tile, truth[j], (0, 220, 0), 1.0)
        seen = float(answers.visibility[index, j])
        if seen > 0.5:
            layer = tile.copy()
            if axes[j, 0] < TILE:
                half = np.rint(axes[j] * 2**_SHIFT).astype(int).tolist()
                centre = _fixed(points[j])
                cv2.ellipse(
                    layer,
                    centre,
                    half,
                    float(angle[j]),
                    0,
                    360,
                    (40, 80, 255),
                    1,
                    cv2.LINE_AA,
                    _SHIFT,
                )
            _dot(layer, points[j], (255, 230, 0), 1.2)
            cv2.addWeighted(layer, seen, tile, 1 - seen, 0, tile)
    return tile


def _dot(image: Picture, place: np.ndarray, colour: tuple[int, int, int], radius: float) -> None:
    import cv2

    cv2.circle(image, _fixed(place), round(radius * 2**_SHIFT), colour, -1, cv2.LINE_AA, _SHIFT)


def _fixed(place: np.ndarray) -> tuple[int, int]:
    x, y = np.clip(np.rint(place * 2**_SHIFT), -(2**20), 2**20).astype(int).tolist()
    return x, y
