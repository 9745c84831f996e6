"""What stands behind a face: gradients, blurred shapes, textures, or the user's photographs."""

from __future__ import annotations

import cv2
import numpy as np

from luvli.errors import InputError
from luvli.synthetic.arrays import Doubles, Singles
from luvli.synthetic.photographs import photographed_faces
from luvli.synthetic.raster.noise import TILE, noise_tile


def backdrop(size: int, folder: str | None, rng: np.random.Generator) -> Singles:
    """(size, size, 3) linear RGB."""
    if folder is not None and rng.random() < 0.85:
        return _from_photograph(size, folder, rng)
    return _drawn(size, rng)


def _drawn(size: int, rng: np.random.Generator) -> Singles:
    level = rng.choice([0.02, 0.08, 0.2, 0.5, 0.9], p=[0.15, 0.2, 0.25, 0.2, 0.2])
    small = 64

    def colour(spread: float = 0.45) -> Doubles:
        brightness = level * np.exp(rng.normal(0, spread))
        tint = np.clip(brightness * np.exp(rng.normal(0, 0.3, 3)), 0, 1.2)
        return np.asarray(tint, np.float64)

    across = np.linspace(-0.5, 0.5, small, dtype=np.float32)
    turn = rng.uniform(0, 2 * np.pi)
    ramp = np.cos(turn) * across[None] + np.sin(turn) * across[:, None] + 0.5
    first, second = colour(), colour()
    canvas = (first + ramp[..., None] * (second - first)).astype(np.float32)
    busy = rng.choice([0, 3, 10, 26], p=[0.25, 0.25, 0.3, 0.2])
    for _ in range(busy):
        centre = tuple(int(v) for v in rng.integers(-8, small + 8, 2))
        reach = tuple(int(v) for v in rng.gamma(2, 5, 2) + 1)
        tint = tuple(float(v) for v in colour(0.9))
        if rng.random() < 0.5:
            cv2.ellipse(canvas, centre, reach, float(rng.uniform(0, 180)), 0, 360, tint, -1)
        else:
            box = cv2.boxPoints(
                (
                    centre,
                    (2.0 * reach[0], 2.0 * reach[1]),
                    rng.choice([0.0, 0.0, float(rng.uniform(0, 90))]),
                )
            )
            cv2.fillPoly(canvas, [np.round(box * 8).astype(np.int32)], tint, cv2.LINE_AA, 3)
    canvas = cv2.GaussianBlur(canvas, (0, 0), float(rng.gamma(1.5, 1.2) + 0.4))
    image = cv2.resize(canvas, (size, size), interpolation=cv2.INTER_CUBIC)
    if rng.random() < 0.25:
        layer = noise_tile()[..., rng.integers(0, 2)]
        layer = np.roll(layer, rng.integers(0, TILE, 2), (0, 1))
        grown = cv2.resize(layer, (max(size, TILE), max(size, TILE)))[:size, :size]
        image *= np.exp(rng.uniform(0.02, 0.16) * grown)[..., None]
    return np.asarray(np.clip(image, 0, None), np.float32)


def _from_photograph(size: int, source: str, rng: np.random.Generator) -> Singles:
    """A random patch of a random photograph, without its face, sometimes out of focus."""
    faces = photographed_faces(source)
    face = faces[rng.integers(len(faces))]
    file, box = face.image, face.box
    image = cv2.imread(str(file), cv2.IMREAD_COLOR)
    if image is None:
        raise InputError(f"{file} does not decode: take it out of the folder of backgrounds.")
    beside = _beside_face(image, box, rng)
    if beside is None:
        return _drawn(size, rng)
    image = beside
    height, width = image.shape[:2]
    side = int(min(height, width) * rng.uniform(0.3, 1.0))
    y, x = rng.integers(0, height - side + 1), rng.integers(0, width - side + 1)
    patch = cv2.resize(
        image[y : y + side, x : x + side], (size, size), interpolation=cv2.INTER_AREA
    )
    if rng.random() < 0.5:
        patch = patch[:, ::-1]
    if rng.random() < 0.6:
        patch = cv2.GaussianBlur(patch, (0, 0), rng.uniform(0.5, 8) * size / 256)
    linear = (patch[..., ::-1].astype(np.float32) / 255) ** 2.2
    return np.ascontiguousarray(linear)


def _beside_face(
    image: cv2.typing.MatLike, box: Doubles | None, rng: np.random.Generator
) -> cv2.typing.MatLike | None:
    """What lies to the left, to the right or above a face, by the box of its landmarks.

    The whole image where no box is known; None where hardly anything is left beside the face.
    """
    if box is None:
        return image
    height, width = image.shape[:2]
    (x0, y0, x1, _), grow = box, 0.35 * np.ptp(box.reshape(2, 2), axis=0).max()
    left, right, above = int(x0 - grow), int(x1 + grow), int(y0 - 2 * grow)
    strips = [image[:, : max(left, 0)], image[:, right:], image[: max(above, 0)]]
    wide = [strip for strip in strips if min(strip.shape[:2]) > 0.12 * max(height, width)]
    if not wide:
        return None
    strip = wide[rng.integers(len(wide))]
    # a narrow strip and its mirror images are a wall that goes on
    while strip.shape[1] < 0.6 * strip.shape[0]:
        strip = np.concatenate([strip, strip[:, ::-1]], axis=1)
    while strip.shape[0] < 0.6 * strip.shape[1]:
        strip = np.concatenate([strip, strip[::-1]], axis=0)
    return strip
