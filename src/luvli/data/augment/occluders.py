"""Things drawn in front of the face: rectangles, hands, hair, objects and masks of cloth.

A landmark they cover becomes externally occluded. Its visibility v stays 1, as in the paper: it is
still somewhere, and a person could say where. Crops are square, (S, S, 3) uint8; a cover is (S, S)
float32, 0..1; points (k, 2) are crop pixels.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.augment.config import Rectangle
from luvli.data.record import Visibility
from luvli.image import affine as affines
from luvli.image.read import ImageArray

Cover = NDArray[np.float32]
Classes = NDArray[np.int8]
Drawn = tuple[ImageArray, Cover]
Occluded = tuple[ImageArray, Classes]

_MASK_COLOURS = ((150, 195, 215), (225, 230, 235), (40, 42, 48), (185, 205, 190), (200, 160, 175))
"""light blue, white, black, light green, pink"""
_MASK_FRONT = (30, 33, 51, 57, 8)
"""landmarks a mask covers in every pose, from the tip of the nose to the chin"""
_MIN_JAW = 5
"""located jaw landmarks that are needed to know where a mask ends"""


def mark_covered(visibility: Classes, points: Floats, cover: Cover) -> Classes:
    """Classes (k,) after something was laid over the image; outside it nothing changes."""
    height, width = cover.shape
    unoccluded = visibility == Visibility.UNOCCLUDED
    place = np.rint(np.where(unoccluded[:, None], points, -1)).astype(int)
    covered = unoccluded & (place >= 0).all(axis=1) & (place < (width, height)).all(axis=1)
    covered[covered] = cover[place[covered, 1], place[covered, 0]] > 0.5
    return np.where(covered, np.int8(Visibility.EXTERNALLY_OCCLUDED), visibility)


def lay_over(image: ImageArray, texture: ImageArray, cover: Cover) -> ImageArray:
    """`texture` over `image`, mixed by `cover`."""
    mixed = image + (texture.astype(np.float32) - image) * cover[:, :, None]
    return np.rint(mixed).astype(np.uint8)


def add_rectangle(
    image: ImageArray,
    points: Floats,
    visibility: Classes,
    config: Rectangle,
    affine: Floats,
    image_size: tuple[int, int],
    rng: np.random.Generator,
) -> Occluded:
    """Fill a rectangle. `affine` (image -> crop) and `image_size` (width, height) place the
    published code's rectangle, which belongs to the whole image and is black."""
    size = image.shape[0]
    if config.where == "image":
        extent = np.array(image_size)
        middle = rng.integers(1, extent + 1) - 1
        reach = rng.integers(1, np.maximum(2, extent // 2 + 1))
        low, high = np.maximum(middle - reach, 0), np.minimum(middle + reach, extent - 1)
        corners = affines.apply(affine, _corners(low, high))
        colour = [0, 0, 0]
    else:
        half = rng.uniform(*config.side, size=2) * size / 2
        centre = rng.uniform(0, size - 1, size=2)
        corners = _corners(centre - half, centre + half)
        colour = rng.integers(0, 256, size=3).tolist()
    cover = np.zeros(image.shape[:2], np.uint8)
    cv2.fillConvexPoly(cover, np.rint(corners * 16).astype(np.int32), 255, shift=4)
    covered = image.copy()
    covered[cover > 0] = colour
    return covered, mark_covered(visibility, points, (cover > 0).astype(np.float32))


def _corners(low: NDArray[np.generic], high: NDArray[np.generic]) -> Floats:
    return np.array([low, (high[0], low[1]), high, (low[0], high[1])], dtype=np.float64)


def add_occluder(
    image: ImageArray, points: Floats, visibility: Classes, rng: np.random.Generator
) -> Occluded:
    """Draw a hand, hair or a thing over the face."""
    texture, cover = draw_occluder(image, rng)
    return lay_over(image, texture, cover), mark_covered(visibility, points, cover)


def draw_occluder(image: ImageArray, rng: np.random.Generator) -> Drawn:
    """One of the kinds, at random, sized for this crop and lit as it is."""
    draw = (draw_hand, draw_hair, draw_thing)[int(rng.integers(3))]
    texture, cover = draw(image, rng)
    light = np.clip(image.mean() / 110.0, 0.4, 1.4)  # as bright as the rest of the scene
    return _as_colourful(_to_image(texture * light), image), cover


def draw_hand(image: ImageArray, rng: np.random.Generator) -> Drawn:
    """A palm with two to four fingers, in the skin colour of the middle of the crop."""
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
    for spread in np.linspace(-0.5, 0.5, int(rng.integers(2, 5))):
        start = centre + palm * 0.6 * np.array([-np.sin(inward), np.cos(inward)]) * spread * 2
        tip_angle = inward + spread * rng.uniform(0.3, 0.7)
        towards = np.array([np.cos(tip_angle), np.sin(tip_angle)])
        tip = start + palm * rng.uniform(1.6, 2.4) * towards
        finger = np.zeros_like(outline)
        cv2.line(finger, _pixel(start), _pixel(tip), 255, thickness)
        outline |= finger
        shade = np.maximum(shade, _roundness(finger, thickness / 2))
    middle = image[size // 3 : 2 * size // 3, size // 3 : 2 * size // 3].reshape(-1, 3)
    skin = np.median(middle, axis=0) * rng.uniform(0.8, 1.15)
    light = 110.0 / max(float(image.mean()), 30.0)  # undone by the caller's lighting
    texture = skin * light * (0.6 + 0.45 * shade[:, :, None]) * _unevenness(size, 0.05, rng)
    return _to_image(texture), _soft(outline)


def draw_hair(image: ImageArray, rng: np.random.Generator) -> Drawn:
    """Strands that hang from the top or a side, as of a fringe."""
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
    return _to_image(np.asarray(cv2.GaussianBlur(texture, (0, 0), 0.7))), _soft(outline)


def draw_thing(image: ImageArray, rng: np.random.Generator) -> Drawn:
    """A cup, a telephone, a microphone: a plain or striped shape that comes in from an edge."""
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
    return _to_image(colour * shade * ramp * _unevenness(size, 0.08, rng)), _soft(outline)


def add_mask(
    image: ImageArray, points: Floats, visibility: Classes, rng: np.random.Generator
) -> Occluded:
    """Draw a mask of cloth over a face of 68 points, if enough of the jaw is located.

    Its edge runs along the jaw, a little outside, and over the bridge of the nose; so it turns with
    the face.
    """
    located = visibility > Visibility.SELF_OCCLUDED
    jaw = [i for i in range(1, 16) if located[i]]
    top = rng.uniform(0.1, 1.0)  # from the middle of the bridge to the tip of the nose
    if len(jaw) < _MIN_JAW or not located[[27, *_MASK_FRONT]].all():
        return image, visibility
    bridge = points[28 if located[28] else 27]
    nose = bridge + top * (points[30] - bridge) * 0.8
    height = rng.uniform(0.15, 0.5)  # where the upper edge meets the cheek, along the jaw
    cheeks = [i for i in jaw if min(i, 16 - i) >= 1 + 3 * height]
    outline = np.concatenate([points[cheeks], [nose], points[list(_MASK_FRONT)]])
    middle = outline.mean(axis=0)
    outline = middle + (outline - middle) * rng.uniform(1.0, 1.1)
    hull = cv2.convexHull(outline.astype(np.float32))[:, 0]
    mask = np.zeros(image.shape[:2], np.uint8)
    cv2.fillConvexPoly(mask, np.rint(hull * 16).astype(np.int32), 255, cv2.LINE_AA, 4)
    right, left = [i for i in cheeks if i < 8], [i for i in cheeks if i > 8]
    for ear, corner in ((0, min(right, default=None)), (16, max(left, default=None))):
        if corner is not None and located[ear]:  # a strap from the mask's corner to the ear
            line = np.rint(points[[corner, ear]] * 16).astype(np.int32)
            cv2.polylines(mask, [line], False, 255, max(1, len(image) // 90), cv2.LINE_AA, 4)
    cover = np.asarray(cv2.GaussianBlur(mask, (0, 0), 0.6) / 255.0, np.float32)
    texture = _cloth(image, nose, points[8], rng)
    return lay_over(image, texture, cover), mark_covered(visibility, points, cover)


def _cloth(image: ImageArray, nose: Floats, chin: Floats, rng: np.random.Generator) -> ImageArray:
    """(S, S, 3) plain, pleated or patterned cloth, as bright as the image."""
    size = image.shape[0]
    base = np.array(_MASK_COLOURS[int(rng.integers(len(_MASK_COLOURS)))], np.float32)
    if rng.random() < 0.3:
        base = rng.uniform(20, 230, size=3).astype(np.float32)
    rows, columns = np.mgrid[:size, :size].astype(np.float32)
    length = float(np.linalg.norm(chin - nose))
    down, width = (chin - nose) / max(length, 1.0), max(length, 4.0)
    along = (columns - nose[0]) * down[0] + (rows - nose[1]) * down[1]
    across = (columns - nose[0]) * -down[1] + (rows - nose[1]) * down[0]
    shade = 1.05 - 0.35 * (across / width) ** 2  # rounded: darker towards the cheeks
    kind = rng.random()
    if kind < 0.5:  # pleats
        shade -= 0.12 * (np.mod(along, width / rng.uniform(3, 6)) < width / 25)
    elif kind < 0.65:
        shade += 0.25 * np.sign(np.sin(across * rng.uniform(10, 40) / width))
    light = float(np.clip(image.mean() / 120.0, 0.35, 1.3))
    shading = np.clip(shade, 0.45, 1.4)[:, :, None] * _unevenness(size, 0.06, rng, patches=7)
    return _as_colourful(_to_image(base * light * shading), image)


def _as_colourful(texture: ImageArray, image: ImageArray) -> ImageArray:
    """`texture`, grey where the image is a colourless photograph."""
    if np.ptp(image[:: max(1, len(image) // 16)], axis=2).mean() >= 6:
        return texture
    return np.repeat(texture.mean(axis=2, keepdims=True).astype(np.uint8), 3, axis=2)


def _roundness(outline: NDArray[np.uint8], radius: float) -> Cover:
    """0 at the edge of a shape, 1 from `radius` pixels inside: shading as of a rounded body."""
    depth = cv2.distanceTransform(outline, cv2.DIST_L2, 3)
    return np.asarray(np.sqrt(np.clip(depth / radius, 0, 1)), np.float32)


def _unevenness(size: int, amount: float, rng: np.random.Generator, patches: int = 6) -> Cover:
    """(size, size, 1) smooth factors around 1."""
    coarse = rng.normal(1.0, amount, size=(patches, patches)).astype(np.float32)
    smooth = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)
    return np.asarray(smooth, np.float32)[:, :, None]


def _soft(outline: NDArray[np.uint8]) -> Cover:
    """Edges one pixel wide instead of steps."""
    return np.asarray(cv2.GaussianBlur(outline, (3, 3), 0.8) / 255.0, np.float32)


def _pixel(place: Floats) -> tuple[int, int]:
    x, y = np.rint(place).astype(int).tolist()
    return x, y


def _to_image(values: NDArray[np.floating]) -> ImageArray:
    return np.asarray(np.clip(values, 0, 255), np.uint8)
