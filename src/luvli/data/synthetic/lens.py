"""From linear light to a photograph: exposure, tone, blur, noise, compression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import require


def develop(light: Any, face: Any, effects: bool, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Linear RGB (h, w, 3) to uint8 sRGB.

    The exposure makes the face (`face`, boolean (h, w)) neither black nor white, more or less
    as a camera's automatics would; dark skin stays darker than light skin. With `effects`,
    blur, noise, low resolution and JPEG follow, each with the frequency of press photographs.
    """
    cv2 = require("cv2", "train")
    picture = light
    level = float(picture[face].mean()) if face.any() else float(picture.mean())
    picture = picture * np.float32((rng.uniform(0.20, 0.34) / max(level, 1e-3)) ** 0.62)
    if effects:
        warmth = rng.normal(0, 0.07)
        picture = picture * np.array([1 + warmth, 1, 1 - warmth], np.float32)
        picture = _blur(cv2, picture, rng)
    # a shoulder instead of a cut: highlights fade to white
    picture = np.where(picture > 0.7, 1 - 0.3 * np.exp(-(picture - 0.7) / 0.3), picture)
    encoded = np.clip(picture, 0, 1) ** np.float32(1 / 2.2)
    if effects:
        contrast = rng.uniform(0.85, 1.2)
        encoded = (encoded - 0.5) * np.float32(contrast) + np.float32(0.5 + rng.normal(0, 0.025))
        grey = encoded.mean(axis=2, keepdims=True)
        colourful = 0.0 if rng.random() < 0.05 else rng.uniform(0.7, 1.2)
        encoded = grey + (encoded - grey) * np.float32(colourful)
        if rng.random() < 0.6:
            encoded = encoded + _grain(cv2, encoded.shape, rng)
    pixels = np.clip(encoded * 255 + 0.5, 0, 255).astype(np.uint8)
    if effects and rng.random() < 0.6:
        quality = int(np.clip(rng.normal(75, 18), 25, 98))
        ok, packed = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
        pixels = cv2.imdecode(packed, cv2.IMREAD_COLOR)[..., ::-1]
    return np.ascontiguousarray(pixels)


def _grain(cv2: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    strength = np.float32(rng.gamma(1.5, 0.009))
    colour = rng.standard_normal(shape, dtype=np.float32)
    if rng.random() < 0.5:  # demosaicing and denoising make grain coarse
        colour = 2 * cv2.GaussianBlur(colour, (0, 0), 0.8)
    return strength * colour


def _blur(cv2: Any, picture: Any, rng: np.random.Generator) -> Any:
    size = picture.shape[0]
    picture = np.ascontiguousarray(picture, np.float32)
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
        return cv2.filter2D(picture, -1, kernel / kernel.sum())
    if choice < 0.35:  # out of focus
        return cv2.GaussianBlur(picture, (0, 0), rng.uniform(0.3, 2.2) * size / 256)
    if choice < 0.55:  # few pixels
        small = int(size * rng.uniform(0.25, 0.8))
        picture = cv2.resize(picture, (small, small), interpolation=cv2.INTER_AREA)
        way = cv2.INTER_CUBIC if rng.random() < 0.5 else cv2.INTER_LINEAR
        return np.clip(cv2.resize(picture, (size, size), interpolation=way), 0, None)
    return picture
