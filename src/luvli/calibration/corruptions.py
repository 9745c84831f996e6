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

import cv2
import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.data.augment.occluders import add_mask, draw_hand, draw_occluder
from luvli.data.augment.photometric import motion_kernel
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
    elif kind in _OTHER_SCENES:
        made = _OTHER_SCENES[kind](scene, rng)
    elif kind in _OTHER_PIXELS:
        made = replace(scene, image=_to_image(_OTHER_PIXELS[kind](scene, rng)))
    else:
        image = _to_image(_NO_FACES[kind](scene.image, rng))
        middle = np.full(2, (len(image) - 1) / 2)
        made = FaceScene(image, _box(middle, np.full(2, len(image) / WINDOW)), ())
    return replace(made, corruption=kind)


# -- another box or place: scene -> scene -----------------------------------------------------


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
    box = _box(np.array([x + rng.uniform(0.25, 0.75) * away, y]), _size(scene.box))
    faces = (*scene.faces, *(points + np.array([shift, 0.0]) for points in other.faces))
    return replace(scene, image=_to_image(image), box=box, faces=faces)


def _turned(scene: FaceScene, rng: Rng) -> FaceScene:
    return _rotate(scene, float(rng.choice([-1, 1]) * rng.uniform(50, 130)))


def _upside_down(scene: FaceScene, rng: Rng) -> FaceScene:
    return _rotate(scene, 180.0 + float(rng.uniform(-40, 40)))


def _rotate(scene: FaceScene, degrees: float) -> FaceScene:
    side = len(scene.image)
    crop = Crop.from_square(((side - 1) / 2, (side - 1) / 2), side, side, degrees)
    faces = tuple(crop.to_crop(points) for points in scene.faces)
    return FaceScene(crop.warp(scene.image), Box.around(np.concatenate(faces)), faces)


# -- other pixels: scene -> (H, W, 3), 0..255 -------------------------------------------------


def _drawing(scene: FaceScene, rng: Rng) -> Floats:
    """Flat colours with dark outlines, or outlines alone."""
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
    return np.where(lines[:, :, None] > 0, flat, flat * rng.uniform(0.0, 0.4))


def _mask(scene: FaceScene, rng: Rng) -> Floats | ImageArray:
    """A mask that follows the face, a piece of cloth, or a bar over the eyes."""
    labels = scene.faces[0]
    if rng.random() < 0.5 and len(labels) == 68:
        classes = np.where(np.isfinite(labels).all(axis=1), Visibility.UNOCCLUDED, 0)
        return add_mask(scene.image, labels, classes.astype(np.int8), rng)[0]
    box, colour = scene.box, rng.uniform(20, 240, 3)
    if rng.random() < 0.7:
        top = rng.uniform(0.38, 0.55)
        corners = [(0, top + 0.05), (0.5, top), (1, top + 0.05),
                   (0.88, 1), (0.5, 1.08), (0.12, 1)]  # fmt: skip
    else:
        low, colour = rng.uniform(0.3, 0.42), colour * 0.15
        corners = [(-0.05, 0.02), (1.05, 0.02), (1.05, low), (-0.05, low)]
    outline = np.array(corners) * _size(box) + (box.x0, box.y0)
    shape = np.zeros(scene.image.shape[:2], np.uint8)
    cv2.fillPoly(shape, [np.rint(outline).astype(np.int32)], 255)
    soft = cv2.GaussianBlur(shape, (0, 0), 1.2)[:, :, None] / 255
    rows = np.arange(len(shape))[:, None, None]
    folds = 1 + 0.12 * np.sin(rows / rng.uniform(2, 6))
    return np.asarray(scene.image * (1 - soft) + colour * folds * soft)


def _hand(scene: FaceScene, rng: Rng) -> Floats:
    """One to four hands and things before the face."""
    crop = Crop.from_box(scene.box, SIDE, 1.2)
    window = crop.warp(scene.image)
    inside = Crop(crop.inverse, len(scene.image))
    image = scene.image.astype(np.float64)
    for number in range(int(rng.integers(1, 5))):
        texture, alpha = (draw_hand if number == 0 else draw_occluder)(window, rng)
        cover = inside.warp(np.repeat(_to_image(alpha[:, :, None] * 255), 3, axis=2)) / 255
        image = image * (1 - cover) + inside.warp(texture) * cover
    return image


def _blur(scene: FaceScene, rng: Rng) -> ImageArray:
    """Out of focus or moved, by 3 to 14 percent of the box."""
    spread = float(rng.uniform(0.03, 0.14)) * scene.box.size
    if rng.random() < 0.6:
        return np.asarray(cv2.GaussianBlur(scene.image, (0, 0), spread), np.uint8)
    kernel = motion_kernel(4 * spread, rng.uniform(0, np.pi))
    return np.asarray(cv2.filter2D(scene.image, -1, kernel), np.uint8)


def _noise(scene: FaceScene, rng: Rng) -> Floats | ImageArray:
    """Sensor noise, darkness with noise, or few large pixels."""
    image, way = scene.image, rng.integers(3)
    if way == 0:
        return image + rng.normal(0, rng.uniform(25, 110), image.shape)
    if way == 1:
        dark = rng.uniform(0.03, 0.12)
        return image + rng.normal(0, rng.uniform(3, 8), image.shape) / dark
    few = max(4, int(len(image) / WINDOW / rng.uniform(6, 14)))
    small = cv2.resize(image, (few, few), interpolation=cv2.INTER_AREA)
    back = int(rng.choice([cv2.INTER_NEAREST, cv2.INTER_LINEAR]))
    return np.asarray(cv2.resize(small, image.shape[:2], interpolation=back), np.uint8)


# -- no face: the image of a scene -> (H, W, 3), 0..255 ---------------------------------------


def _animal(image: ImageArray, rng: Rng) -> Floats | ImageArray:
    """A cat, where scikit-image is installed; a face drawn with a few lines otherwise."""
    cat = _cat()
    if cat is None:
        return _drawn_face(image, rng)
    x, y = np.array([230.0, 145.0]) + rng.normal(0, 10, 2)
    window = rng.uniform(0.85, 1.25) * 165 * WINDOW
    shown = Crop.from_square((x, y), window, len(image), float(rng.normal(0, 15))).warp(cat)
    if rng.random() < 0.5:
        shown = shown[:, ::-1]
    return np.asarray(rng.uniform(0.6, 1.35, 3) * shown)


@cache
def _cat() -> ImageArray | None:
    try:
        data: Any = import_module("skimage.data")
    except ImportError:
        return None
    return np.asarray(data.chelsea(), np.uint8)


def _no_face(image: ImageArray, rng: Rng) -> Floats | ImageArray:
    """One of four kinds of images without a face."""
    ways = (_drawn_face, _surroundings, _corner, _texture)
    return ways[int(rng.integers(4))](image, rng)


def _surroundings(image: ImageArray, rng: Rng) -> ImageArray:
    """The image's border, spread over the whole: nothing of the face is left."""
    side = len(image)
    half = int(0.75 * side / WINDOW)
    hole = np.zeros((side, side), np.uint8)
    hole[max(0, side // 2 - half) : side // 2 + half, side // 2 - half : side // 2 + half] = 255
    return np.asarray(cv2.inpaint(image, hole, 3, cv2.INPAINT_TELEA), np.uint8)


def _corner(image: ImageArray, rng: Rng) -> ImageArray:
    """A fifth of the image, enlarged: plain shades."""
    part = image[: len(image) // 5, : len(image) // 5]
    return np.asarray(cv2.resize(part, image.shape[:2], interpolation=cv2.INTER_LINEAR), np.uint8)


def _texture(image: ImageArray, rng: Rng) -> Floats:
    """Smooth random colours."""
    cells = int(rng.integers(2, 24))
    coarse = rng.uniform(0, 255, (cells, cells, 3))
    return np.asarray(cv2.resize(coarse, image.shape[:2], interpolation=cv2.INTER_CUBIC))


def _drawn_face(image: ImageArray, rng: Rng) -> ImageArray:
    """A circle with two eyes and a mouth: no face that has landmarks."""
    side = len(image)
    canvas = np.full((side, side, 3), rng.uniform(120, 255, 3)).astype(np.uint8)
    c, r = side // 2, int(side / WINDOW * 0.55)
    colour, ink = (rng.uniform(0, top, 3).astype(int).tolist() for top in (255, 70))
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


def _size(box: Box) -> Floats:
    return np.array([box.width, box.height])


def _box(centre: Floats, size: Floats) -> Box:
    """A box that nobody detected: its score is 1."""
    return Box(*(centre - size / 2), *(centre + size / 2))


def _to_image(values: ArrayLike) -> ImageArray:
    return np.clip(np.asarray(values, dtype=np.float64), 0, 255).astype(np.uint8)


_OTHER_SCENES: dict[str, Callable[[FaceScene, Rng], FaceScene]] = {
    "wrong box": _wrong_box,
    "neighbour": _wrong_box,  # where there is nobody else
    "turned": _turned,
    "upside down": _upside_down,
}
_OTHER_PIXELS: dict[str, Callable[[FaceScene, Rng], ArrayLike]] = {
    "drawing": _drawing,
    "mask": _mask,
    "hand": _hand,
    "blur": _blur,
    "noise": _noise,
}
_NO_FACES: dict[str, Callable[[ImageArray, Rng], ArrayLike]] = {
    "animal": _animal,
    "no face": _no_face,
}
CORRUPTIONS = (*_OTHER_SCENES, *_OTHER_PIXELS, *_NO_FACES)
