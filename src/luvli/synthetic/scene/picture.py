"""What stands behind a face, and what a camera makes of the light.

Backgrounds are gradients, blurred shapes and textures, or the user's photographs. The camera adds
exposure, tone, blur, noise and compression.
"""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from luvli.data.augment.photometric import blur, compress, lower_resolution
from luvli.image.read import ImageArray, read_image
from luvli.synthetic.arrays import Bools, Bytes, Doubles, Singles
from luvli.synthetic.photographs import face_box, photographed_faces
from luvli.synthetic.raster.materials import TILE, noise_tile


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
            tilt = rng.choice([0.0, 0.0, float(rng.uniform(0, 90))])
            box = cv2.boxPoints((centre, (2.0 * reach[0], 2.0 * reach[1]), tilt))
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
    image = beside_face(read_image(face.image or ""), face_box(face), rng)
    if image is None:
        return _drawn(size, rng)
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
    return np.ascontiguousarray((patch.astype(np.float32) / 255) ** 2.2)


def beside_face(
    image: ImageArray, box: Doubles | None, rng: np.random.Generator
) -> ImageArray | None:
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


def develop(light: Singles, face: Bools, effects: bool, rng: np.random.Generator) -> Bytes:
    """Linear RGB (h, w, 3) to uint8 sRGB.

    The exposure makes the face (`face`, at every fourth pixel) neither black nor white, more or
    less as a camera's automatics would; dark skin stays darker than light skin. With `effects`,
    colour cast, blur, noise, low resolution and JPEG follow, each with the frequency of press
    photographs.
    """
    sample, where = light[::4, ::4], face
    level = float(sample[where].mean()) if where.any() else float(sample.mean())
    image = light * np.float32((rng.uniform(0.20, 0.34) / max(level, 1e-3)) ** 0.62)
    if not effects:
        return _pixels(_encoded(image))
    warmth = rng.normal(0, 0.07)
    encoded = _encoded(image * np.array([1 + warmth, 1, 1 - warmth], np.float32))
    contrast = rng.uniform(0.92, 1.35)
    offset = 0.5 - 0.5 * contrast + rng.normal(0, 0.025)
    colourful = 0.0 if rng.random() < 0.05 else rng.uniform(0.7, 1.2)
    mixing = contrast * (colourful * np.eye(3) + (1 - colourful) / 3)
    pixels = _pixels(cv2.transform(encoded, np.c_[mixing, np.full(3, offset)]))
    choice = rng.random()
    if choice < 0.35:
        pixels = blur(pixels, rng.uniform(0.001, 0.009), rng)
    elif choice < 0.55:
        pixels = lower_resolution(pixels, 1 / rng.uniform(0.25, 0.8))
    if rng.random() < 0.6:
        pixels = _pixels(pixels / np.float32(255) + _grain(len(pixels), rng))
    if rng.random() < 0.45:
        pixels = compress(pixels, int(np.clip(rng.normal(75, 18), 25, 98)))
    return pixels


def _encoded(light: Singles) -> Singles:
    return _tone_curve()[np.clip(light * 1024, 0, 4095).astype(np.uint16)]


def _pixels(encoded: cv2.typing.MatLike) -> Bytes:
    return np.asarray(np.clip(encoded * 255 + 0.5, 0, 255), np.uint8)


@cache
def _tone_curve() -> Singles:
    """sRGB value of linear light 0 to 4, with a shoulder: highlights fade to white."""
    light = (np.arange(4096) + 0.5) / 1024
    light = np.where(light > 0.7, 1 - 0.3 * np.exp(-(light - 0.7) / 0.3), light)
    return (light ** (1 / 2.2)).astype(np.float32)


@cache
def _grain_sheet(coarse: bool) -> Singles:
    """Noise to cut grain from: drawing 200,000 new numbers for each face costs more."""
    sheet = np.random.default_rng(1).standard_normal((768, 768, 3), dtype=np.float32)
    if coarse:  # demosaicing and denoising make grain coarse
        sheet = 2 * np.asarray(cv2.GaussianBlur(sheet, (0, 0), 0.8), np.float32)
    return sheet


def _grain(size: int, rng: np.random.Generator) -> Singles:
    strength = np.float32(rng.gamma(1.5, 0.009))
    sheet = _grain_sheet(bool(rng.random() < 0.5))
    if size > 384:
        sheet = np.tile(sheet, (size // 384 + 1, size // 384 + 1, 1))
    y, x = rng.integers(0, sheet.shape[0] - size, 2)
    return strength * sheet[y : y + size, x : x + size]
