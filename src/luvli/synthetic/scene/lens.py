"""From linear light to a photograph: exposure, tone, blur, noise, compression."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from luvli.synthetic.arrays import Bools, Bytes, Singles


def develop(light: Singles, face: Bools, effects: bool, rng: np.random.Generator) -> Bytes:
    """Linear RGB (h, w, 3) to uint8 sRGB.

    The exposure makes the face (`face`, at every fourth pixel) neither black nor white, more or
    less as a camera's automatics would; dark skin stays darker than light skin. With `effects`,
    blur, noise, low resolution and JPEG follow, each with the frequency of press photographs.
    """
    image = light
    sample, where = image[::4, ::4], face
    level = float(sample[where].mean()) if where.any() else float(sample.mean())
    image = image * np.float32((rng.uniform(0.20, 0.34) / max(level, 1e-3)) ** 0.62)
    if effects:
        warmth = rng.normal(0, 0.07)
        image = image * np.array([1 + warmth, 1, 1 - warmth], np.float32)
        image = _blur(np.ascontiguousarray(image), rng)
    encoded = _tone_curve()[np.clip(image * 1024, 0, 4095).astype(np.uint16)]
    if effects:
        contrast = rng.uniform(0.92, 1.35)
        offset = 0.5 - 0.5 * contrast + rng.normal(0, 0.025)
        colourful = 0.0 if rng.random() < 0.05 else rng.uniform(0.7, 1.2)
        mixing = contrast * (colourful * np.eye(3) + (1 - colourful) / 3)
        encoded = np.asarray(cv2.transform(encoded, np.c_[mixing, np.full(3, offset)]), np.float32)
        if rng.random() < 0.6:
            encoded = encoded + _grain(encoded.shape[0], rng)
    pixels = np.clip(encoded * 255 + 0.5, 0, 255).astype(np.uint8)
    if effects and rng.random() < 0.45:
        quality = int(np.clip(rng.normal(75, 18), 25, 98))
        _, packed = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
        pixels = np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR), np.uint8)[..., ::-1]
    return np.ascontiguousarray(pixels)


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


def _blur(image: Singles, rng: np.random.Generator) -> Singles:
    size = image.shape[0]
    choice = rng.random()
    if choice < 0.10:  # motion
        reach = max(3, int(size * rng.uniform(0.01, 0.035)))
        kernel = np.zeros((reach, reach), np.float32)
        turn = rng.uniform(0, np.pi)
        middle = (reach - 1) / 2
        end = np.array([np.cos(turn), np.sin(turn)]) * middle
        a = tuple(int(v) for v in np.round((middle - end) * 16))
        b = tuple(int(v) for v in np.round((middle + end) * 16))
        cv2.line(kernel, a, b, 1.0, 1, cv2.LINE_AA, 4)
        return np.asarray(cv2.filter2D(image, -1, kernel / kernel.sum()), np.float32)
    if choice < 0.35:  # out of focus
        focus = rng.uniform(0.3, 2.2) * size / 256
        return np.asarray(cv2.GaussianBlur(image, (0, 0), focus), np.float32)
    if choice < 0.55:  # few pixels
        small = int(size * rng.uniform(0.25, 0.8))
        coarse = cv2.resize(image, (small, small), interpolation=cv2.INTER_AREA)
        way = cv2.INTER_CUBIC if rng.random() < 0.5 else cv2.INTER_LINEAR
        large = np.asarray(cv2.resize(coarse, (size, size), interpolation=way), np.float32)
        return np.clip(large, 0, None)
    return image
