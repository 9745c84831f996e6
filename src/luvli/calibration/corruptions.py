"""Corruptions: images on which alignment is hard or impossible, made from labelled faces.

Wrong boxes, a neighbour's face in the box, turned and upside-down heads, drawings, masks, hands,
blur, noise, animals and images without a face. Where a face remains, its labels move along, so
that success is measured and never assumed: an alignment of a masked face may succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.augment.occluders import add_mask, draw_hand, draw_occluder
from luvli.data.record import Visibility
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray

Rng = np.random.Generator

Corruption = Literal[
    "wrong box",
    "neighbour",
    "turned",
    "upside down",
    "drawing",
    "mask",
    "hand",
    "blur",
    "noise",
    "animal",
    "no face",
]
CORRUPTIONS: tuple[Corruption, ...] = get_args(Corruption)

NON_FACES: tuple[Corruption, ...] = ("animal", "no face")
"""kinds without any face: every alignment is a failure"""

WINDOW = 2.6
"""side of the window around a face that is corrupted / longer side of its box"""
SIDE = 224
"""pixels of that window"""


@dataclass(frozen=True)
class FaceScene:
    """An image, the box that alignment is given, and the labelled faces in the image."""

    image: ImageArray
    box: Box
    """the box to align in; its score is the detector's, 1 where there was none"""
    faces: tuple[Floats, ...]
    """(k, 2) labels of each face, NaN where there is no location; () without a face"""
    corruption: str = "none"


def cut_scene(image: ImageArray, box: Box, points: Floats, side: int = SIDE) -> FaceScene:
    """The window around one face, `side` pixels wide, as a scene of its own."""
    crop = Crop.from_box(box, side, WINDOW)
    corners = crop.to_crop([(box.x0, box.y0), (box.x1, box.y1)])
    x0, y0, x1, y1 = corners.ravel().tolist()
    moved = Box(x0, y0, x1, y1, box.score, detected=box.detected)
    return FaceScene(crop.warp(image), moved, (crop.to_crop(points),))


def corrupt(
    scene: FaceScene, kind: Corruption, rng: Rng, others: Sequence[FaceScene] = ()
) -> FaceScene:
    """The same scene with one corruption.

    `others` are scenes of other people, for the kinds that need a second face or a
    surrounding without one.
    """
    return replace(_FUNCTIONS[kind](scene, rng, others), corruption=kind)


def _wrong_box(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    """Shifted by a quarter to three quarters of its side, or of a wrong size."""
    box = scene.box
    size = np.array([box.width, box.height])
    if rng.random() < 0.6:
        angle = rng.uniform(0, 2 * np.pi)
        shift = rng.uniform(0.2, 0.75) * size * (np.cos(angle), np.sin(angle))
        factor = rng.uniform(0.85, 1.2)
    else:
        shift = rng.normal(0, 0.05, 2) * size
        factor = float(rng.choice([rng.uniform(0.4, 0.72), rng.uniform(1.4, 2.1)]))
    return replace(scene, box=_box(np.array(box.centre) + shift, factor * size))


def _neighbour(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    """A second face close by, and the box somewhere between the two."""
    if not others:
        return _wrong_box(scene, rng, others)
    other = others[int(rng.integers(len(others)))]
    side = len(scene.image)
    away = int(rng.choice([-1, 1]) * rng.uniform(0.75, 1.1) * scene.box.width)
    seam = int(scene.box.centre[0] + away / 2)
    image = scene.image.copy()
    shift = int(scene.box.centre[0] + away - other.box.centre[0])
    moved = np.zeros_like(image)
    low, high = max(0, shift), min(side, side + shift)
    moved[:, low:high] = other.image[:, low - shift : high - shift]
    part = slice(seam, side) if away > 0 else slice(0, max(seam, 1))
    image[:, part] = moved[:, part]
    x, y = scene.box.centre
    place = np.array([x + rng.uniform(0.25, 0.75) * away, y])
    size = np.array([scene.box.width, scene.box.height])
    aside = np.array([shift, 0.0])
    faces = (*scene.faces, *(points + aside for points in other.faces))
    return replace(scene, image=image, box=_box(place, size), faces=faces)


def _turned(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    return _rotate(scene, float(rng.choice([-1, 1]) * rng.uniform(50, 130)))


def _upside_down(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    return _rotate(scene, 180.0 + float(rng.uniform(-40, 40)))


def _rotate(scene: FaceScene, degrees: float) -> FaceScene:
    side = len(scene.image)
    middle = (side - 1) / 2
    crop = Crop.from_square((middle, middle), side, side, degrees)
    faces = tuple(crop.to_crop(points) for points in scene.faces)
    box = Box.around(np.concatenate(faces)) if faces else scene.box
    return replace(scene, image=crop.warp(scene.image), box=box, faces=faces)


def _drawing(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    """Flat colours with dark outlines, or outlines alone."""
    import cv2

    image = scene.image
    for _ in range(int(rng.integers(2, 6))):
        image = np.asarray(cv2.bilateralFilter(image, 9, 60, 7), np.uint8)
    grey = cv2.medianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), 5)
    block = int(rng.choice([9, 13, 17]))
    lines = cv2.adaptiveThreshold(
        grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, block, 4
    )
    levels = int(rng.integers(2, 7))
    flat = np.rint(image / 255 * levels) / levels * 255
    if rng.random() < 0.35:
        flat = np.full_like(flat, 255.0)
    drawn = np.where(lines[:, :, None] > 0, flat, flat * rng.uniform(0.0, 0.4))
    return replace(scene, image=_to_image(drawn))


def _mask(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    """A mask that follows the face, a piece of cloth, or a bar over the eyes."""
    import cv2

    labels = scene.faces[0] if scene.faces else np.empty((0, 2))
    if rng.random() < 0.5 and len(labels) == 68:
        classes = np.where(np.isfinite(labels).all(axis=1), Visibility.UNOCCLUDED, 0)
        masked, _ = add_mask(scene.image, labels, classes.astype(np.int8), rng)
        return replace(scene, image=masked)

    box, image = scene.box, scene.image.astype(np.float64)
    colour = rng.uniform(20, 240, 3)
    shape = np.zeros(image.shape[:2], np.uint8)
    if rng.random() < 0.7:
        top = box.y0 + rng.uniform(0.38, 0.55) * box.height
        corners = [
            (box.x0, top + 0.05 * box.height),
            (box.centre[0], top),
            (box.x1, top + 0.05 * box.height),
            (box.x1 - 0.12 * box.width, box.y1),
            (box.centre[0], box.y1 + 0.08 * box.height),
            (box.x0 + 0.12 * box.width, box.y1),
        ]
    else:
        top, low = box.y0 + 0.02 * box.height, box.y0 + rng.uniform(0.3, 0.42) * box.height
        left, right = box.x0 - 0.05 * box.width, box.x1 + 0.05 * box.width
        corners, colour = [(left, top), (right, top), (right, low), (left, low)], colour * 0.15
    cv2.fillPoly(shape, [np.rint(corners).astype(np.int32)], 255)
    soft = cv2.GaussianBlur(shape, (0, 0), 1.2)[:, :, None] / 255
    folds = 1 + 0.12 * np.sin(np.arange(len(image)) / rng.uniform(2, 6))[:, None, None]
    return replace(scene, image=_to_image(image * (1 - soft) + colour * folds * soft))


def _hand(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    """One to four hands and things before the face."""
    crop = Crop.from_box(scene.box, SIDE, 1.2)
    window = crop.warp(scene.image)
    inside = Crop(crop.inverse, len(scene.image))
    image = scene.image.astype(np.float64)
    for number in range(int(rng.integers(1, 5))):
        texture, alpha = (draw_hand if number == 0 else draw_occluder)(window, rng)
        back = inside.warp(texture).astype(np.float64)
        cover = inside.warp(np.repeat(_to_image(alpha[:, :, None] * 255), 3, axis=2)) / 255
        image = image * (1 - cover) + back * cover
    return replace(scene, image=_to_image(image))


def _blur(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    """Out of focus or moved, by 3 to 14 percent of the box."""
    import cv2

    spread = float(rng.uniform(0.03, 0.14)) * scene.box.size
    if rng.random() < 0.6:
        return replace(scene, image=_to_image(cv2.GaussianBlur(scene.image, (0, 0), spread)))
    length = 2 * int(2 * spread) + 1
    kernel = np.zeros((length, length))
    angle = rng.uniform(0, np.pi)
    for step in np.linspace(-1, 1, 4 * length):
        offset = step * (length // 2)
        row, column = round(offset * np.sin(angle)), round(offset * np.cos(angle))
        kernel[length // 2 + row, length // 2 + column] = 1
    return replace(scene, image=_to_image(cv2.filter2D(scene.image, -1, kernel / kernel.sum())))


def _noise(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    """Sensor noise, darkness with noise, or few large pixels."""
    import cv2

    image = scene.image.astype(np.float64)
    way = rng.integers(3)
    if way == 0:
        image += rng.normal(0, rng.uniform(25, 110), image.shape)
    elif way == 1:
        dark = rng.uniform(0.03, 0.12)
        image = (image * dark + rng.normal(0, rng.uniform(3, 8), image.shape)) / dark
    else:
        few = max(4, int(len(image) / WINDOW / rng.uniform(6, 14)))
        small = cv2.resize(scene.image, (few, few), interpolation=cv2.INTER_AREA)
        back = rng.choice([cv2.INTER_NEAREST, cv2.INTER_LINEAR])
        return replace(
            scene, image=_to_image(cv2.resize(small, image.shape[:2], interpolation=int(back)))
        )
    return replace(scene, image=_to_image(image))


def _animal(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    """A cat, where scikit-image is installed; drawn eyes and mouth on fur otherwise."""
    cat = _cat()
    side = len(scene.image)
    if cat is None:
        return _drawn_face(scene, rng)
    centre = np.array([230.0, 145.0]) + rng.normal(0, 10, 2)
    window = rng.uniform(0.85, 1.25) * 165 * WINDOW
    crop = Crop.from_square((centre[0], centre[1]), window, side, float(rng.normal(0, 15)))
    image = crop.warp(cat)
    if rng.random() < 0.5:
        image = np.ascontiguousarray(image[:, ::-1])
    light = rng.uniform(0.6, 1.35, 3) * image
    middle = np.full(2, (side - 1) / 2)
    return FaceScene(_to_image(light), _box(middle, np.full(2, side / WINDOW)), ())


@cache
def _cat() -> ImageArray | None:
    try:
        data: Any = import_module("skimage.data")
    except ImportError:
        return None
    return np.asarray(data.chelsea(), np.uint8)


def _no_face(scene: FaceScene, rng: Rng, others: Sequence[FaceScene]) -> FaceScene:
    """Surroundings of a face, plain shades, textures, or a face drawn with a few lines."""
    import cv2

    side = len(scene.image)
    way = rng.integers(4)
    middle = np.full(2, (side - 1) / 2)
    size = np.full(2, side / WINDOW)
    if way == 0:
        return _drawn_face(scene, rng)
    if way == 1:
        # the image's border, spread over the whole: nothing of the face is left
        ring = scene.image.copy()
        x0, y0, x1, y1 = (int(np.clip(edge, 0, side)) for edge in scene.box)
        reach = int(0.25 * scene.box.height)
        hole = np.zeros((side, side), np.uint8)
        hole[max(0, y0 - reach) : y1 + reach // 2, max(0, x0 - reach // 2) : x1 + reach // 2] = 255
        image = cv2.inpaint(ring, hole, 3, cv2.INPAINT_TELEA)
        return FaceScene(_to_image(image), _box(middle, size), ())
    if way == 2:
        corner = scene.image[: side // 5, : side // 5]
        image = cv2.resize(corner, (side, side), interpolation=cv2.INTER_LINEAR)
        return FaceScene(_to_image(image), _box(middle, size), ())
    cells = int(rng.integers(2, 24))
    coarse = rng.uniform(0, 255, (cells, cells, 3)).astype(np.float32)
    image = cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC)
    return FaceScene(_to_image(image), _box(middle, size), ())


def _drawn_face(scene: FaceScene, rng: Rng) -> FaceScene:
    """A circle with two eyes and a mouth: no face that has landmarks."""
    import cv2

    side = len(scene.image)
    canvas = np.full((side, side, 3), rng.uniform(120, 255, 3)).astype(np.uint8)
    c, r = side // 2, int(side / WINDOW * 0.55)
    colour = tuple(int(value) for value in rng.uniform(0, 255, 3))
    ink = tuple(int(value) for value in rng.uniform(0, 70, 3))
    cv2.ellipse(canvas, (c, c), (r, int(r * rng.uniform(0.9, 1.2))), 0, 0, 360, colour, -1)
    cv2.ellipse(canvas, (c, c), (r, int(r * rng.uniform(0.9, 1.2))), 0, 0, 360, ink, 2)
    eye, high = int(r * rng.uniform(0.3, 0.45)), int(r * rng.uniform(0.2, 0.35))
    for sign in (-1, 1):
        cv2.circle(canvas, (c + sign * eye, c - high), int(r * rng.uniform(0.06, 0.16)), ink, -1)
    mouth = (int(r * 0.45), int(r * rng.uniform(0.1, 0.4)))
    start = 0 if rng.random() < 0.7 else 180
    cv2.ellipse(canvas, (c, c + int(0.3 * r)), mouth, 0, start, start + 180, ink, 3)
    return FaceScene(canvas, _box(np.full(2, (side - 1) / 2), np.full(2, side / WINDOW)), ())


def _box(centre: Floats, size: Floats) -> Box:
    """A box that nobody detected: its score is 1."""
    return Box(*(centre - size / 2), *(centre + size / 2))


def _to_image(values: NDArray[np.generic] | object) -> ImageArray:
    return np.asarray(np.clip(np.asarray(values, dtype=np.float64), 0, 255), np.uint8)


_FUNCTIONS: dict[Corruption, Callable[[FaceScene, Rng, Sequence[FaceScene]], FaceScene]] = {
    "wrong box": _wrong_box,
    "neighbour": _neighbour,
    "turned": _turned,
    "upside down": _upside_down,
    "drawing": _drawing,
    "mask": _mask,
    "hand": _hand,
    "blur": _blur,
    "noise": _noise,
    "animal": _animal,
    "no face": _no_face,
}
