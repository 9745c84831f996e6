"""Corruptions: images on which alignment is hard or impossible, made from labelled faces.

Where a face remains, its labels move along, so that success is measured and never assumed: an
alignment of a masked face may succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.data.augment.occluders import add_mask, draw_hand, draw_occluder
from luvli.data.record import Visibility
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray

Rng = np.random.Generator

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
    x0, y0, x1, y1 = crop.to_crop([(box.x0, box.y0), (box.x1, box.y1)]).ravel().tolist()
    moved = Box(x0, y0, x1, y1, box.score, detected=box.detected)
    return FaceScene(crop.warp(image), moved, (crop.to_crop(points),))


def corrupt(scene: FaceScene, kind: str, rng: Rng, others: Sequence[FaceScene] = ()) -> FaceScene:
    """The same scene with one of the `CORRUPTIONS`; `others` are scenes of other people, for the
    kind that needs a second face."""
    if kind == "neighbour" and others:
        made = _neighbour(scene, others[int(rng.integers(len(others)))], rng)
    else:
        made = _FUNCTIONS[kind](scene, rng)
    return replace(made, corruption=kind)


def _wrong_box(scene: FaceScene, rng: Rng) -> FaceScene:
    """Shifted by a quarter to three quarters of its side, or of a wrong size."""
    size = _size(scene.box)
    if rng.random() < 0.6:
        angle = rng.uniform(0, 2 * np.pi)
        shift = rng.uniform(0.2, 0.75) * size * (np.cos(angle), np.sin(angle))
        factor = rng.uniform(0.85, 1.2)
    else:
        shift = rng.normal(0, 0.05, 2) * size
        factor = float(rng.choice([rng.uniform(0.4, 0.72), rng.uniform(1.4, 2.1)]))
    return replace(scene, box=_box(np.array(scene.box.centre) + shift, factor * size))


def _neighbour(scene: FaceScene, other: FaceScene, rng: Rng) -> FaceScene:
    """A second face close by, and the box somewhere between the two."""
    side = len(scene.image)
    x, y = scene.box.centre
    away = int(rng.choice([-1, 1]) * rng.uniform(0.75, 1.1) * scene.box.width)
    shift = int(x + away - other.box.centre[0])
    columns = np.arange(side)
    theirs = columns > x + away / 2 if away > 0 else columns < x + away / 2
    there = (columns >= shift) & (columns < side + shift)
    image = np.where(theirs[:, None], 0, scene.image)
    image[:, theirs & there] = other.image[:, columns[theirs & there] - shift]
    centre = np.array([x + rng.uniform(0.25, 0.75) * away, y])
    faces = (*scene.faces, *(points + np.array([shift, 0.0]) for points in other.faces))
    return replace(scene, image=_to_image(image), box=_box(centre, _size(scene.box)), faces=faces)


def _turned(scene: FaceScene, rng: Rng) -> FaceScene:
    return _rotate(scene, float(rng.choice([-1, 1]) * rng.uniform(50, 130)))


def _upside_down(scene: FaceScene, rng: Rng) -> FaceScene:
    return _rotate(scene, 180.0 + float(rng.uniform(-40, 40)))


def _rotate(scene: FaceScene, degrees: float) -> FaceScene:
    side = len(scene.image)
    crop = Crop.from_square(((side - 1) / 2, (side - 1) / 2), side, side, degrees)
    faces = tuple(crop.to_crop(points) for points in scene.faces)
    return FaceScene(crop.warp(scene.image), Box.around(np.concatenate(faces)), faces)


def _drawing(scene: FaceScene, rng: Rng) -> FaceScene:
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


def _mask(scene: FaceScene, rng: Rng) -> FaceScene:
    """A mask that follows the face, a piece of cloth, or a bar over the eyes."""
    import cv2

    labels = scene.faces[0]
    if rng.random() < 0.5 and len(labels) == 68:
        classes = np.where(np.isfinite(labels).all(axis=1), Visibility.UNOCCLUDED, 0)
        masked, _ = add_mask(scene.image, labels, classes.astype(np.int8), rng)
        return replace(scene, image=masked)
    box, colour = scene.box, rng.uniform(20, 240, 3)
    if rng.random() < 0.7:
        top = rng.uniform(0.38, 0.55)
        corners = [(0, top + 0.05), (0.5, top), (1, top + 0.05),
                   (0.88, 1), (0.5, 1.08), (0.12, 1)]  # fmt: skip
    else:
        low, colour = rng.uniform(0.3, 0.42), colour * 0.15
        corners = [(-0.05, 0.02), (1.05, 0.02), (1.05, low), (-0.05, low)]
    outline = np.array(corners) * (box.width, box.height) + (box.x0, box.y0)
    shape = np.zeros(scene.image.shape[:2], np.uint8)
    cv2.fillPoly(shape, [np.rint(outline).astype(np.int32)], 255)
    soft = cv2.GaussianBlur(shape, (0, 0), 1.2)[:, :, None] / 255
    rows = np.arange(len(shape))[:, None, None]
    folds = 1 + 0.12 * np.sin(rows / rng.uniform(2, 6))
    return replace(scene, image=_to_image(scene.image * (1 - soft) + colour * folds * soft))


def _hand(scene: FaceScene, rng: Rng) -> FaceScene:
    """One to four hands and things before the face."""
    crop = Crop.from_box(scene.box, SIDE, 1.2)
    window = crop.warp(scene.image)
    inside = Crop(crop.inverse, len(scene.image))
    image = scene.image.astype(np.float64)
    for number in range(int(rng.integers(1, 5))):
        texture, alpha = (draw_hand if number == 0 else draw_occluder)(window, rng)
        cover = inside.warp(np.repeat(_to_image(alpha[:, :, None] * 255), 3, axis=2)) / 255
        image = image * (1 - cover) + inside.warp(texture) * cover
    return replace(scene, image=_to_image(image))


def _blur(scene: FaceScene, rng: Rng) -> FaceScene:
    """Out of focus or moved, by 3 to 14 percent of the box."""
    import cv2

    spread = float(rng.uniform(0.03, 0.14)) * scene.box.size
    if rng.random() < 0.6:
        return replace(scene, image=_to_image(cv2.GaussianBlur(scene.image, (0, 0), spread)))
    half, angle = int(2 * spread), rng.uniform(0, np.pi)
    kernel = np.zeros((2 * half + 1, 2 * half + 1), np.uint8)
    way = np.rint(half * np.array([np.cos(angle), np.sin(angle)])).astype(int)
    start, end = (half - way).tolist(), (half + way).tolist()
    cv2.line(kernel, start, end, 1)
    return replace(scene, image=_to_image(cv2.filter2D(scene.image, -1, kernel / kernel.sum())))


def _noise(scene: FaceScene, rng: Rng) -> FaceScene:
    """Sensor noise, darkness with noise, or few large pixels."""
    import cv2

    image = scene.image.astype(np.float64)
    way = rng.integers(3)
    if way == 0:
        return replace(
            scene, image=_to_image(image + rng.normal(0, rng.uniform(25, 110), image.shape))
        )
    if way == 1:
        dark = rng.uniform(0.03, 0.12)
        noise = rng.normal(0, rng.uniform(3, 8), image.shape)
        return replace(scene, image=_to_image(image + noise / dark))
    few = max(4, int(len(image) / WINDOW / rng.uniform(6, 14)))
    small = cv2.resize(scene.image, (few, few), interpolation=cv2.INTER_AREA)
    back = int(rng.choice([cv2.INTER_NEAREST, cv2.INTER_LINEAR]))
    return replace(scene, image=_to_image(cv2.resize(small, image.shape[:2], interpolation=back)))


def _animal(scene: FaceScene, rng: Rng) -> FaceScene:
    """A cat, where scikit-image is installed; a face drawn with a few lines otherwise."""
    cat = _cat()
    if cat is None:
        return _without_face(_drawn_face(len(scene.image), rng))
    x, y = np.array([230.0, 145.0]) + rng.normal(0, 10, 2)
    window = rng.uniform(0.85, 1.25) * 165 * WINDOW
    crop = Crop.from_square((x, y), window, len(scene.image), float(rng.normal(0, 15)))
    image = crop.warp(cat)
    if rng.random() < 0.5:
        image = image[:, ::-1]
    return _without_face(rng.uniform(0.6, 1.35, 3) * image)


@cache
def _cat() -> ImageArray | None:
    try:
        data: Any = import_module("skimage.data")
    except ImportError:
        return None
    return np.asarray(data.chelsea(), np.uint8)


def _no_face(scene: FaceScene, rng: Rng) -> FaceScene:
    """Surroundings of a face, plain shades, textures, or a face drawn with a few lines."""
    import cv2

    side = len(scene.image)
    way = rng.integers(4)
    if way == 0:
        return _without_face(_drawn_face(side, rng))
    if way == 1:  # the image's border, spread over the whole: nothing of the face is left
        x0, y0, x1, y1 = (int(np.clip(edge, 0, side)) for edge in scene.box)
        reach = int(0.25 * scene.box.height)
        hole = np.zeros((side, side), np.uint8)
        hole[max(0, y0 - reach) : y1 + reach // 2, max(0, x0 - reach // 2) : x1 + reach // 2] = 255
        return _without_face(cv2.inpaint(scene.image, hole, 3, cv2.INPAINT_TELEA))
    if way == 2:
        corner = scene.image[: side // 5, : side // 5]
        return _without_face(cv2.resize(corner, (side, side), interpolation=cv2.INTER_LINEAR))
    cells = int(rng.integers(2, 24))
    coarse = rng.uniform(0, 255, (cells, cells, 3)).astype(np.float32)
    return _without_face(cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC))


def _drawn_face(side: int, rng: Rng) -> ImageArray:
    """A circle with two eyes and a mouth: no face that has landmarks."""
    import cv2

    canvas = np.full((side, side, 3), rng.uniform(120, 255, 3)).astype(np.uint8)
    c, r = side // 2, int(side / WINDOW * 0.55)
    colour = tuple(int(value) for value in rng.uniform(0, 255, 3))
    ink = tuple(int(value) for value in rng.uniform(0, 70, 3))
    head = (r, int(r * rng.uniform(0.9, 1.2)))
    cv2.ellipse(canvas, (c, c), head, 0, 0, 360, colour, -1)
    cv2.ellipse(canvas, (c, c), head, 0, 0, 360, ink, 2)
    eye, high = int(r * rng.uniform(0.3, 0.45)), int(r * rng.uniform(0.2, 0.35))
    for sign in (-1, 1):
        cv2.circle(canvas, (c + sign * eye, c - high), int(r * rng.uniform(0.06, 0.16)), ink, -1)
    mouth = (int(r * 0.45), int(r * rng.uniform(0.1, 0.4)))
    start = 0 if rng.random() < 0.7 else 180
    cv2.ellipse(canvas, (c, c + int(0.3 * r)), mouth, 0, start, start + 180, ink, 3)
    return canvas


def _without_face(image: ArrayLike) -> FaceScene:
    """An image that shows no face, asked about in its middle."""
    pixels = _to_image(image)
    side = len(pixels)
    return FaceScene(pixels, _box(np.full(2, (side - 1) / 2), np.full(2, side / WINDOW)), ())


def _size(box: Box) -> Floats:
    return np.array([box.width, box.height])


def _box(centre: Floats, size: Floats) -> Box:
    """A box that nobody detected: its score is 1."""
    return Box(*(centre - size / 2), *(centre + size / 2))


def _to_image(values: ArrayLike) -> ImageArray:
    return np.clip(np.asarray(values, dtype=np.float64), 0, 255).astype(np.uint8)


_FUNCTIONS: dict[str, Callable[[FaceScene, Rng], FaceScene]] = {
    "wrong box": _wrong_box,
    "neighbour": _wrong_box,  # where there is nobody else
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
CORRUPTIONS = tuple(_FUNCTIONS)
