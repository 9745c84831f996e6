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
_HAIR_COLOURS = ((25, 18, 14), (60, 40, 25), (110, 75, 45), (170, 135, 85), (150, 150, 150))
_MASK_FRONT = (30, 33, 51, 57, 8)
"""landmarks a mask covers in every pose, from the tip of the nose to the chin"""
_MIN_JAW = 5
"""located jaw landmarks that are needed to know where a mask ends"""
_SHIFT = 4
"""OpenCV draws at 1/16 of a pixel"""


def mark_covered(visibility: Classes, points: Floats, cover: Cover) -> Classes:
    """Classes (k,) after something was laid over the image; outside it nothing changes."""
    height, width = cover.shape
    unoccluded = visibility == Visibility.UNOCCLUDED
    place = np.rint(np.where(unoccluded[:, None], points, -1)).astype(int)
    covered = unoccluded & (place >= 0).all(axis=1) & (place < (width, height)).all(axis=1)
    covered[covered] = cover[place[covered, 1], place[covered, 0]] > 0.5
    return np.where(covered, np.int8(Visibility.EXTERNALLY_OCCLUDED), visibility)


def _laid_over(drawn: Drawn, image: ImageArray, points: Floats, visibility: Classes) -> Occluded:
    """A texture over the image, mixed by its cover, and the classes after that."""
    texture, cover = drawn
    mixed = image + (texture.astype(np.float32) - image) * cover[:, :, None]
    return np.rint(mixed).astype(np.uint8), mark_covered(visibility, points, cover)


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
    cv2.fillConvexPoly(cover, _fixed(corners), 255, shift=_SHIFT)
    covered = image.copy()
    covered[cover > 0] = colour
    return covered, mark_covered(visibility, points, (cover > 0).astype(np.float32))


def _corners(low: NDArray[np.generic], high: NDArray[np.generic]) -> Floats:
    return np.array([low, (high[0], low[1]), high, (low[0], high[1])], dtype=np.float64)


def add_occluder(
    image: ImageArray, points: Floats, visibility: Classes, rng: np.random.Generator
) -> Occluded:
    """Draw a hand, hair or a thing over the face."""
    return _laid_over(draw_occluder(image, rng), image, points, visibility)


def draw_occluder(image: ImageArray, rng: np.random.Generator) -> Drawn:
    """One of the kinds, at random, sized for this crop and lit as it is."""
    return (draw_hand, draw_hair, draw_thing)[int(rng.integers(3))](image, rng)


def draw_hand(image: ImageArray, rng: np.random.Generator) -> Drawn:
    """A palm with two to four fingers, in the skin colour of the middle of the crop."""
    size = image.shape[0]
    outline = np.zeros((size, size), np.uint8)
    centre = _beside_middle(size, 0.2, 0.45, rng)
    inward = np.arctan2(*(size / 2 - centre)[::-1]) + rng.normal(0, 0.4)
    palm = size * rng.uniform(0.1, 0.16)
    axes = np.floor([palm * 1.1, palm])
    cv2.ellipse(outline, _pixel(centre), _pixel(axes), float(np.degrees(inward)), 0, 360, 255, -1)
    shade = _roundness(outline, palm / 2)
    thickness = max(3, int(palm * 0.55))
    for spread in np.linspace(-0.5, 0.5, int(rng.integers(2, 5))):
        start = centre + palm * 1.2 * spread * np.array([-np.sin(inward), np.cos(inward)])
        angle = inward + spread * rng.uniform(0.3, 0.7)
        tip = start + palm * rng.uniform(1.6, 2.4) * np.array([np.cos(angle), np.sin(angle)])
        finger = np.zeros_like(outline)
        cv2.line(finger, _pixel(start), _pixel(tip), 255, thickness)
        outline |= finger
        shade = np.maximum(shade, _roundness(finger, thickness / 2))
    middle = image[size // 3 : 2 * size // 3, size // 3 : 2 * size // 3].reshape(-1, 3)
    skin = np.median(middle, axis=0) * rng.uniform(0.8, 1.15)
    texture = skin * (0.6 + 0.45 * shade[:, :, None]) * _unevenness(size, 0.05, rng)
    return _to_image(texture), _soft(outline)


def draw_hair(image: ImageArray, rng: np.random.Generator) -> Drawn:
    """Strands that hang from the top or a side, as of a fringe."""
    size = image.shape[0]
    outline = np.zeros((size, size), np.uint8)
    base = np.array(_HAIR_COLOURS[int(rng.integers(len(_HAIR_COLOURS)))]) * rng.uniform(0.8, 1.2)
    texture = np.full((size, size, 3), base, np.float32)  # so that soft edges are not dark
    root = np.array([rng.uniform(0.1, 0.9) * size, rng.uniform(-0.05, 0.2) * size])
    fall, bend = rng.normal(np.pi / 2, 0.5), rng.normal(0, 0.5)
    length, width = rng.uniform(0.35, 0.7) * size, rng.uniform(0.1, 0.3) * size
    steps = np.linspace(0, 1, 8)
    for _ in range(int(rng.integers(90, 180))):
        start = root + rng.normal(0, 1, 2) * (width, width * 0.15)
        angle = fall + rng.normal(0, 0.12) + bend * steps
        reach = length * rng.uniform(0.6, 1.1) * steps
        curve = start + np.stack([np.cos(angle), np.sin(angle)], axis=1) * reach[:, None]
        thickness = int(rng.integers(1, max(1, size // 80) + 1))
        colour = tuple(float(value) for value in base * rng.uniform(0.75, 1.25))
        for canvas, ink in ((texture, colour), (outline, 255)):
            cv2.polylines(canvas, [_fixed(curve)], False, ink, thickness, cv2.LINE_AA, _SHIFT)
    return _lit(cv2.GaussianBlur(texture, (0, 0), 0.7), image), _soft(outline)


def draw_thing(image: ImageArray, rng: np.random.Generator) -> Drawn:
    """A cup, a telephone, a microphone: a plain shape that comes in from an edge."""
    size = image.shape[0]
    outline = np.zeros((size, size), np.uint8)
    centre = _beside_middle(size, 0.25, 0.5, rng)
    axes, turn = size * rng.uniform(0.08, 0.28, size=2), float(rng.uniform(0, 180))
    if rng.random() < 0.5:
        cv2.ellipse(outline, _pixel(centre), _pixel(axes), turn, 0, 360, 255, -1)
    else:
        corners = cv2.boxPoints((tuple(centre), tuple(2 * axes), turn))
        cv2.fillConvexPoly(outline, np.rint(corners).astype(np.int32), 255)
    ramp = np.linspace(rng.uniform(0.6, 1.0), rng.uniform(1.0, 1.4), size)[None, :, None]
    texture = rng.uniform(10, 235, size=3) * ramp * _unevenness(size, 0.08, rng)
    return _lit(texture, image), _soft(outline)


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
    mask = np.zeros(image.shape[:2], np.uint8)
    hull = cv2.convexHull(outline.astype(np.float32))[:, 0]
    cv2.fillConvexPoly(mask, _fixed(hull), 255, cv2.LINE_AA, _SHIFT)
    right, left = [i for i in cheeks if i < 8], [i for i in cheeks if i > 8]
    for ear, corner in ((0, min(right, default=None)), (16, max(left, default=None))):
        if corner is not None and located[ear]:  # a strap from the mask's corner to the ear
            line, thickness = _fixed(points[[corner, ear]]), max(1, len(image) // 90)
            cv2.polylines(mask, [line], False, 255, thickness, cv2.LINE_AA, _SHIFT)
    return _laid_over((_cloth(image, nose, points[8], rng), _soft(mask)), image, points, visibility)


def _cloth(image: ImageArray, nose: Floats, chin: Floats, rng: np.random.Generator) -> ImageArray:
    """(S, S, 3) plain or pleated cloth, as bright as the image."""
    size = image.shape[0]
    colour = np.array(_MASK_COLOURS[int(rng.integers(len(_MASK_COLOURS)))]) * rng.uniform(0.6, 1.1)
    length = max(float(np.linalg.norm(chin - nose)), 4.0)
    down = (chin - nose) / length
    rows, columns = np.mgrid[:size, :size].astype(np.float32)
    along = (columns - nose[0]) * down[0] + (rows - nose[1]) * down[1]
    across = (columns - nose[0]) * -down[1] + (rows - nose[1]) * down[0]
    shade = 1.05 - 0.35 * (across / length) ** 2  # rounded: darker towards the cheeks
    if rng.random() < 0.5:  # pleats
        shade -= 0.12 * (np.mod(along, length / rng.uniform(3, 6)) < length / 25)
    shading = np.clip(shade, 0.45, 1.4)[:, :, None] * _unevenness(size, 0.06, rng)
    return _lit(colour * shading, image)


def _lit(texture: NDArray[np.generic], image: ImageArray) -> ImageArray:
    """`texture`, as bright as the rest of the scene, and grey where that is a colourless one."""
    light = np.clip(image.mean() / 115.0, 0.4, 1.4)
    if np.ptp(image[:: max(1, len(image) // 16)], axis=2).mean() < 6:
        texture = np.repeat(texture.mean(axis=2, keepdims=True), 3, axis=2)
    return _to_image(texture * light)


def _beside_middle(size: int, low: float, high: float, rng: np.random.Generator) -> Floats:
    """(2,) a place at `low` to `high` sides from the middle of the crop, in any direction."""
    angle = rng.uniform(0, 2 * np.pi)
    direction = np.array([np.cos(angle), np.sin(angle)])
    return np.asarray(size * (0.5 + direction * rng.uniform(low, high)))


def _roundness(outline: NDArray[np.uint8], radius: float) -> Cover:
    """0 at the edge of a shape, 1 from `radius` pixels inside: shading as of a rounded body."""
    depth = cv2.distanceTransform(outline, cv2.DIST_L2, 3)
    return np.asarray(np.sqrt(np.clip(depth / radius, 0, 1)), np.float32)


def _unevenness(size: int, amount: float, rng: np.random.Generator) -> Cover:
    """(size, size, 1) smooth factors around 1."""
    coarse = rng.normal(1.0, amount, size=(6, 6)).astype(np.float32)
    smooth = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)
    return np.asarray(smooth, np.float32)[:, :, None]


def _soft(outline: NDArray[np.uint8]) -> Cover:
    """Edges one pixel wide instead of steps."""
    return np.asarray(cv2.GaussianBlur(outline, (3, 3), 0.8) / 255.0, np.float32)


def _fixed(places: NDArray[np.floating]) -> NDArray[np.int32]:
    """Pixels as OpenCV's whole numbers with `_SHIFT` bits behind the point."""
    return np.asarray(np.rint(places * 2**_SHIFT), np.int32)


def _pixel(place: Floats) -> tuple[int, int]:
    x, y = np.rint(place).astype(int).tolist()
    return x, y


def _to_image(values: NDArray[np.generic]) -> ImageArray:
    return np.asarray(np.clip(values, 0, 255), np.uint8)
