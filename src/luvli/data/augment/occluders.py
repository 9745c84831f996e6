"""Drawn hands, hair and things: shapes with soft edges and uneven shading.

Each function gives a texture (S, S, 3) uint8 and a mask (S, S) of 0..1 for a crop of side S.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luvli.image.read import ImageArray

_Drawn = tuple[ImageArray, NDArray[np.float32]]


def draw_occluder(image: ImageArray, rng: np.random.Generator) -> _Drawn:
    """One of the kinds, at random, sized for this crop and lit as it is."""
    draw = (draw_hand, draw_hair, draw_thing)[int(rng.integers(3))]
    texture, mask = draw(image, rng)
    light = np.clip(image.mean() / 110.0, 0.4, 1.4)  # as bright as the rest of the scene
    return as_colourful(to_image(texture * light), image), mask


def as_colourful(texture: ImageArray, image: ImageArray) -> ImageArray:
    """`texture`, grey where the image is a colourless photograph."""
    if np.ptp(image[:: max(1, len(image) // 16)], axis=2).mean() >= 6:
        return texture
    return np.repeat(texture.mean(axis=2, keepdims=True).astype(np.uint8), 3, axis=2)


def draw_hand(image: ImageArray, rng: np.random.Generator) -> _Drawn:
    """A palm with two to four fingers, in the skin colour of the middle of the crop."""
    import cv2

    size = image.shape[0]
    outline = np.zeros((size, size), np.uint8)
    angle = rng.uniform(0, 2 * np.pi)
    centre = size * (0.5 + np.array([np.cos(angle), np.sin(angle)]) * rng.uniform(0.2, 0.45))
    inward = np.arctan2(size / 2 - centre[1], size / 2 - centre[0]) + rng.normal(0, 0.4)
    palm = size * rng.uniform(0.1, 0.16)
    axes = np.floor([palm * 1.1, palm])
    cv2.ellipse(outline, _pixel(centre), _pixel(axes), float(np.degrees(inward)), 0, 360, 255, -1)
    shade = _roundness(outline, palm / 2)
    thickness = max(3, int(palm * 0.55))
    fingers = int(rng.integers(2, 5))
    for spread in np.linspace(-0.5, 0.5, fingers):
        start = centre + palm * 0.6 * np.array([-np.sin(inward), np.cos(inward)]) * spread * 2
        tip_angle = inward + spread * rng.uniform(0.3, 0.7)
        towards = np.array([np.cos(tip_angle), np.sin(tip_angle)])
        tip = start + palm * rng.uniform(1.6, 2.4) * towards
        cv2.line(outline, _pixel(start), _pixel(tip), 255, thickness)
        fingers_shade = np.zeros_like(outline)
        cv2.line(fingers_shade, _pixel(start), _pixel(tip), 255, thickness)
        shade = np.maximum(shade, _roundness(fingers_shade, thickness / 2))
    middle = image[size // 3 : 2 * size // 3, size // 3 : 2 * size // 3].reshape(-1, 3)
    skin = np.median(middle, axis=0) * rng.uniform(0.8, 1.15)
    light = 110.0 / max(float(image.mean()), 30.0)  # undone by the caller's lighting
    texture = skin * light * (0.6 + 0.45 * shade[:, :, None]) * unevenness(size, 0.05, rng)
    return to_image(texture), _soft(outline)


def draw_hair(image: ImageArray, rng: np.random.Generator) -> _Drawn:
    """Strands that hang from the top or a side, as of a fringe."""
    import cv2

    size = image.shape[0]
    outline = np.zeros((size, size), np.uint8)
    colours = np.array([(25, 18, 14), (60, 40, 25), (110, 75, 45), (170, 135, 85), (150, 150, 150)])
    base = colours[int(rng.integers(len(colours)))] * rng.uniform(0.8, 1.2)
    texture = np.full((size, size, 3), base, np.float32)  # so that soft edges are not dark
    root = np.array([rng.uniform(0.1, 0.9) * size, rng.uniform(-0.05, 0.2) * size])
    fall = rng.normal(np.pi / 2, 0.5)
    length = rng.uniform(0.35, 0.7) * size
    width = rng.uniform(0.1, 0.3) * size
    bend = rng.normal(0, 0.5)
    steps = np.linspace(0, 1, 8)
    for _ in range(int(rng.integers(90, 180))):
        start = root + rng.normal(0, 1, 2) * (width, width * 0.15)
        angle = fall + rng.normal(0, 0.12) + bend * steps
        reach = length * rng.uniform(0.6, 1.1) * steps
        curve = start + np.stack([np.cos(angle), np.sin(angle)], axis=1) * reach[:, None]
        line = np.rint(curve * 16).astype(np.int32)[None]
        thickness = int(rng.integers(1, max(1, size // 80) + 1))
        colour = tuple(float(value) for value in base * rng.uniform(0.75, 1.25))
        cv2.polylines(texture, line, False, colour, thickness, cv2.LINE_AA, 4)
        cv2.polylines(outline, line, False, 255, thickness, cv2.LINE_AA, 4)
    blended = np.asarray(cv2.GaussianBlur(texture, (0, 0), 0.7), np.float32)
    return to_image(blended), _soft(outline)


def draw_thing(image: ImageArray, rng: np.random.Generator) -> _Drawn:
    """A cup, a telephone, a microphone: a plain or striped shape that comes in from an edge."""
    import cv2

    size = image.shape[0]
    outline = np.zeros((size, size), np.uint8)
    angle = rng.uniform(0, 2 * np.pi)
    centre = size * (0.5 + np.array([np.cos(angle), np.sin(angle)]) * rng.uniform(0.25, 0.5))
    axes = size * rng.uniform(0.08, 0.28, size=2)
    turn = float(rng.uniform(0, 180))
    if rng.random() < 0.5:
        cv2.ellipse(outline, _pixel(centre), _pixel(axes), turn, 0, 360, 255, -1)
    else:
        corners = cv2.boxPoints((tuple(centre), tuple(2 * axes), turn))
        cv2.fillConvexPoly(outline, np.rint(corners).astype(np.int32), 255)
    colour = rng.uniform(10, 235, size=3)
    shade = np.ones((size, size, 1), np.float32)
    if rng.random() < 0.4:
        across = np.arange(size)[:, None] * np.sin(angle) + np.arange(size) * np.cos(angle)
        shade = (1 + 0.35 * np.sign(np.sin(across * rng.uniform(0.15, 0.6))))[:, :, None]
    ramp = np.linspace(rng.uniform(0.6, 1.0), rng.uniform(1.0, 1.4), size)[None, :, None]
    return to_image(colour * shade * ramp * unevenness(size, 0.08, rng)), _soft(outline)


def _roundness(outline: NDArray[np.uint8], radius: float) -> NDArray[np.float32]:
    """0 at the edge of a shape, 1 from `radius` pixels inside: shading as of a rounded body."""
    import cv2

    depth = cv2.distanceTransform(outline, cv2.DIST_L2, 3)
    return np.asarray(np.sqrt(np.clip(depth / radius, 0, 1)), np.float32)


def unevenness(
    size: int, amount: float, rng: np.random.Generator, patches: int = 6
) -> NDArray[np.float32]:
    """(size, size, 1) smooth factors around 1."""
    import cv2

    coarse = rng.normal(1.0, amount, size=(patches, patches)).astype(np.float32)
    smooth = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)
    return np.asarray(smooth, np.float32)[:, :, None]


def _soft(outline: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Edges one pixel wide instead of steps."""
    import cv2

    blurred = cv2.GaussianBlur(outline, (3, 3), 0.8)
    return np.asarray(blurred / 255.0, np.float32)


def _pixel(place: NDArray[np.float64]) -> tuple[int, int]:
    x, y = np.rint(place).astype(int).tolist()
    return x, y


def to_image(values: NDArray[np.floating]) -> ImageArray:
    return np.asarray(np.clip(values, 0, 255), np.uint8)
