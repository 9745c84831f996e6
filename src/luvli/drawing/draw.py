"""`luvli.draw`: faces on whatever an image is held in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from luvli.drawing.faces import COVERAGE, draw_faces, readable_enlargement
from luvli.faces import FaceLandmarks
from luvli.image.read import ImageArray, read_image
from luvli.image.source import AnyImage, Color, plain_source


def draw(
    image: AnyImage,
    faces: FaceLandmarks | Iterable[FaceLandmarks],
    coverage: float = COVERAGE,
    mahalanobis: float | None = None,
    enlarge: float | Literal["readable"] = 1.0,
    color: Color = "rgb",
) -> ImageArray:
    """Faces on a copy of an image: points yellow, error ellipses blue, fading where a landmark
    is hidden, hollow where something covers it.

    Ellipses hold the share `coverage` if the model is right; with `mahalanobis` they lie at that
    distance instead (the paper draws 1). `enlarge="readable"` enlarges small images. Arrays in
    `color` "bgr" come back so, ready for `cv2.imshow`; everything else comes back as RGB
    (H, W, 3) uint8.

    >>> face = FaceLandmarks(points=[[10.0, 10.0]], covariance=[4 * np.eye(2)],
    ...                      visibility=[1.0], box=[0, 0, 20, 20], markup="mine1")
    >>> draw(np.zeros((21, 21, 3), np.uint8), face).shape
    (21, 21, 3)
    """
    chosen = [faces] if isinstance(faces, FaceLandmarks) else list(faces)
    pixels = read_image(plain_source(image, color))
    factor = float(readable_enlargement(pixels, chosen)) if enlarge == "readable" else enlarge
    likelihood = chosen[0].likelihood if chosen else "laplace"
    drawn = draw_faces(pixels, chosen, coverage, mahalanobis, likelihood, factor)
    return np.ascontiguousarray(drawn[:, :, ::-1]) if color == "bgr" else drawn
