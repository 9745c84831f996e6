"""Finding faces: YuNet, and how often and how large it is shown the image.

YuNet draws a rectangle around the whole head and five points. The rest of the project
wants the tight landmark box (`luvli.image.box`), so a fixed linear map, fitted on the LFPW
training faces, turns one into the other. `benchmarks/detection.py` fits it and measures
what error remains; docs/detection.md has the figures.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.errors import check_choice
from luvli.files import packaged_toml
from luvli.image import affine
from luvli.image.box import Box
from luvli.image.read import ImageArray, ImageSource, read_image
from luvli.image.resize import resized
from luvli.image.yunet import WEIGHTS, Rows, YuNetNetwork, without_doubles

SMALL, LARGE = 320, 960
"""Longest side, in pixels, of what YuNet is shown: the image brought to the small size, which
finds faces that fill it, and, from 480 pixels on and where it is needed, brought down to at
most the large size, which finds small faces."""
TILE_OVERLAP = 160
"""pixels that two neighbouring tiles of a large image share, with `small_faces`"""

MIN_SCORE = 0.6
"""what counts as a face unless the user says otherwise"""
_MIN_REPORTED = 0.3
"""what the detector reports at all"""
_HINT_SCORE, _SMALL_HINT_SCORE, _SMALL_HEAD = 0.1, 0.04, 50.0
"""A candidate of the first score in the first pass, away from every face, asks for the second
pass; of the second score, if it is a head of at most so many pixels in the first pass: small faces
are hardly seen there (docs/research/2026-11-detection.md counts what is found so)."""
_CROWD, _WINDOW = 2, 3.0
"""Where there are no more faces and candidates than `_CROWD`, the candidates are looked at in
windows of at least `SMALL` pixels and of 3 times the head's size. In a crowd more faces are likely
than the first pass shows: there the second pass is at the whole image."""

_BORDERED, _BORDER, _GAMMA = 480, 0.3, 0.4
_TURNS, _TURNED_SCALE = (20.0, -20.0), 0.85
"""The last passes, where no face was found: at an image of 480 pixels with a border of 0.3 times
its side around it, at one whose values were raised to the power of 0.4, at its mirror image, and
at the image turned by 20 degrees either way and shrunk to 0.85."""

DetectorName = Literal["yunet", "yunet-open"]
"""the built-in detectors: one network, with one of two maps from its boxes to ours"""


class Detector(Protocol):
    """Anything that finds faces: an image in, tight landmark boxes out.

    `name` is the image's path, for detectors that look boxes up; "" when it has none.
    """

    def __call__(self, image: ImageArray, name: str = "") -> list[Box]: ...


def detect_faces(
    image: ImageSource,
    min_score: float = MIN_SCORE,
    detector: Detector | None = None,
    small_faces: bool = False,
) -> list[Box]:
    """Tight landmark boxes of the faces in an image, best score first; [] when there is none.

    `image` is anything that `read_image` reads, of any size. `detector` replaces YuNet, for
    which `small_faces` asks to look closely at every large image (see `YuNet`).
    """
    name = str(image) if isinstance(image, str | os.PathLike) else ""
    boxes = (detector or YuNet(small_faces))(read_image(image), name)
    return sorted((box for box in boxes if box.score >= min_score), key=lambda box: -box.score)


def get_detector(name: str, small_faces: bool = False) -> Detector:
    """A detector by name: `yunet`, or `yunet-open`, the same with a box map that saw free data
    alone.

    Boxes that are known already come from `luvli.image.known_boxes.BoxesFromFile(path)`.
    """
    check_choice("face detector", name, get_args(DetectorName))
    return YuNet(small_faces, name)  # type: ignore[arg-type]


class _View(NamedTuple):
    """A picture to show the network."""

    image: ImageArray
    side: int
    """what its longest side is brought to, in pixels"""
    back: Floats = np.eye(2, 3)
    """(2, 3) its pixels -> those of the image that it is made of"""


class YuNet:
    """The default detector. Safe to call from several threads at once.

    The first pass is at the image brought to 320 pixels. Images above 480 get a second one, at up
    to 960: of the whole image if the first has found no face, and of the surroundings of what may
    be another face. With `small_faces` it is always of the whole image, and images above 960
    pixels are also searched in overlapping tiles of full resolution. Where no face is found at
    all, last passes follow: with a border around the image, at a brightened one, at its mirror
    image and at turned ones. Whatever the image's size, what is allocated stays below some 100 MB.
    """

    def __init__(self, small_faces: bool = False, name: DetectorName = "yunet") -> None:
        self.small_faces = small_faces
        self.edges = box_map(name)
        self._network = _one_network()

    def __call__(self, image: ImageArray, name: str = "", thorough: bool = True) -> list[Box]:
        return [tight_box(row, self.edges) for row in self.detect_raw(image, thorough)]

    def detect_raw(self, image: ImageArray, thorough: bool = True) -> Rows:
        """What YuNet finds, (n, 15) in image pixels, doubles left out, best score first; not
        `thorough`: without the last passes."""
        longest = max(image.shape[:2])
        # Large images are shrunk once, and every pass but that in tiles starts from there.
        start, back = (image, np.eye(2, 3)) if longest <= LARGE else _resized(image, LARGE)
        first = self._candidates(_View(start, SMALL), _SMALL_HINT_SCORE)
        rows = without_doubles(first[first[:, 14] >= _MIN_REPORTED])
        if max(start.shape[:2]) > 1.5 * SMALL:
            rows = self._with(rows, map(self._candidates, self._second_pass(start, first)))
        if thorough and not (rows[:, 14] >= MIN_SCORE).any():
            rows = self._with(rows, map(self._candidates, _last_passes(start)))
        rows = moved_rows(rows, back)
        if self.small_faces and longest > LARGE:
            rows = self._with(rows, self._in_tiles(image))
        return rows

    @staticmethod
    def _with(rows: Rows, more: Iterable[Rows]) -> Rows:
        return without_doubles(np.concatenate([rows, *more]))

    def _candidates(self, view: _View, min_score: float = _MIN_REPORTED) -> Rows:
        """What the network finds in a view, in pixels of the image."""
        shown, way = _resized(view.image, view.side)
        return moved_rows(self._network(shown, min_score), affine.compose(view.back, way))

    def _second_pass(self, image: ImageArray, first: Rows) -> Iterator[_View]:
        """Where the first pass asks for it: the whole image, or windows around the few candidates
        that may be faces."""
        side = max(image.shape[:2])
        sure = first[:, 14] >= MIN_SCORE
        hints = without_doubles(first[_hints(first, side / SMALL)])
        crowd = len(hints) + len(without_doubles(first[sure])) > _CROWD
        if self.small_faces or not sure.any() or crowd:
            yield _View(image, side)
            return
        for row in hints:
            x0, y0, x1, y1 = _window(row, image)
            part = image[y0:y1, x0:x1]
            yield _View(part, min(SMALL, max(part.shape[:2])), _shift(x0, y0))

    def _in_tiles(self, image: ImageArray) -> Iterator[Rows]:
        """Candidates in overlapping tiles of `LARGE` pixels. A face counts in the tile whose core
        holds its centre: there it is not cut, unless it is larger than the overlap."""
        height, width = image.shape[:2]
        for top, (low_y, high_y) in _tiles(height):
            for left, (low_x, high_x) in _tiles(width):
                tile = np.ascontiguousarray(image[top : top + LARGE, left : left + LARGE])
                rows = self._candidates(_View(tile, max(tile.shape[:2]), _shift(left, top)))
                x, y = (rows[:, :2] + rows[:, 2:4] / 2).T
                yield rows[(x >= low_x) & (x < high_x) & (y >= low_y) & (y < high_y)]


def _last_passes(image: ImageArray) -> Iterator[_View]:
    """A face that is cut by the image's edge is found when there is something around it; then
    faces in the shade, and those that only a mirrored or turned image shows."""
    import cv2

    inner, back = _resized(image, round(_BORDERED / (1 + 2 * _BORDER)))
    edge = round(_BORDER * max(inner.shape[:2]))
    padded = np.pad(inner, ((edge, edge), (edge, edge), (0, 0)), mode="edge")
    yield _View(padded, max(padded.shape[:2]), affine.compose(back, _shift(-edge, -edge)))
    brighter = np.rint(255 * (np.arange(256) / 255) ** _GAMMA).astype(np.uint8)
    shown, back = _resized(image, SMALL)
    yield _View(brighter[shown], SMALL, back)
    height, width = image.shape[:2]
    for way in other_views(width, height):
        seen = cv2.warpAffine(image, way, (width, height), borderMode=cv2.BORDER_REPLICATE)
        yield _View(np.asarray(seen, np.uint8), SMALL, affine.invert(way))


def moved_rows(rows: Rows, way: Floats) -> Rows:
    """YuNet's output in an image whose pixels were moved by an affine (2, 3); in a mirror, eyes
    and corners of the mouth change their names."""
    centre = affine.apply(way, rows[:, :2] + rows[:, 2:4] / 2)
    size = rows[:, 2:4] * np.linalg.norm(way[:, :2], axis=0)
    points = affine.apply(way, rows[:, 4:14].reshape(-1, 5, 2))
    if affine.is_mirrored(way):
        points = points[:, [1, 0, 2, 4, 3]]
    return np.column_stack([centre - size / 2, size, points.reshape(-1, 10), rows[:, 14]])


def other_views(width: int, height: int) -> Iterator[Floats]:
    """Affine maps: to the mirror image, and to the image turned about its middle."""
    yield affine.mirror(width)
    middle = np.array([(width - 1) / 2, (height - 1) / 2])
    for degrees in _TURNS:
        cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        turn = _TURNED_SCALE * np.array([[cosine, -sine], [sine, cosine]])
        yield np.column_stack([turn, middle - turn @ middle])


def _resized(image: ImageArray, side: int) -> tuple[ImageArray, Floats]:
    """The image with a longest side of `side` pixels, and the affine (2, 3) from it back."""
    height, width = image.shape[:2]
    scale = side / max(height, width)
    small = resized(image, max(1, round(width * scale)), max(1, round(height * scale)))
    ratio = width / small.shape[1], height / small.shape[0]
    return small, affine.zoom(ratio, about=(-0.5, -0.5))


def _shift(x: float, y: float) -> Floats:
    return np.array([[1.0, 0.0, x], [0.0, 1.0, y]])


def _tiles(length: int) -> Iterator[tuple[int, tuple[float, float]]]:
    """Along one side: where each tile begins, and the core (low, high) that only it answers for.

    >>> [start for start, _ in _tiles(1800)]
    [0, 420, 840]
    """
    count = 1 if length <= LARGE else -(-(length - TILE_OVERLAP) // (LARGE - TILE_OVERLAP))
    starts = [round(i * (length - LARGE) / max(count - 1, 1)) for i in range(count)]
    borders = [(a + b + LARGE) / 2 for a, b in pairwise(starts)]
    return zip(starts, pairwise([-np.inf, *borders, np.inf]), strict=True)


def _window(row: Floats, image: ImageArray) -> tuple[int, int, int, int]:
    """The window x0, y0, x1, y1 of the image around a candidate, moved inside as far as it can."""
    side = round(max(SMALL, _WINDOW * max(row[2], row[3])))
    spans = []
    for centre, length in zip(row[:2] + row[2:4] / 2, image.shape[1::-1], strict=True):
        start = min(max(0, round(centre - side / 2)), max(0, length - side))
        spans.append((start, min(length, start + side)))
    (x0, x1), (y0, y1) = spans
    return x0, y0, x1, y1


def _hints(rows: Rows, pixel: float = 1.0) -> NDArray[np.bool_]:
    """(n,) which candidates lie beside the sure faces and may be faces. `pixel` is the side of a
    pixel of the first pass."""
    sure = rows[:, 14] >= MIN_SCORE
    small = rows[:, 2] * rows[:, 3] <= (_SMALL_HEAD * pixel) ** 2
    hint = ~sure & (small | (rows[:, 14] >= _HINT_SCORE))
    hints, faces = rows[hint, None], rows[None, sure]
    low = np.maximum(hints[..., :2], faces[..., :2])
    high = np.minimum(hints[..., :2] + hints[..., 2:4], faces[..., :2] + faces[..., 2:4])
    shared = np.prod(np.maximum(high - low, 0), axis=2)
    smaller = np.minimum(np.prod(hints[..., 2:4], axis=2), np.prod(faces[..., 2:4], axis=2))
    hint[hint] = (shared < 0.5 * smaller).all(axis=1)
    return hint


def tight_box(row: Floats, edges: Floats | None = None) -> Box:
    """YuNet's (15,) output as a tight landmark box: each edge is linear in `box_features`."""
    edges = box_map("yunet") if edges is None else edges
    features, centre, size = box_features(row)
    x0, y0, x1, y1 = np.tile(centre, 2) + size * (edges @ features)
    least = 0.05 * size  # never an empty box, whatever the points
    return Box(x0, y0, max(x1, x0 + least), max(y1, y0 + least), float(row[14]), detected=True)


def box_features(row: Floats) -> tuple[Floats, Floats, float]:
    """(13,) features of YuNet's output, free of place and size; centre and size in pixels.

    1, width, height of the head's rectangle, then x, y of the five points from its centre,
    lengths in units of the rectangle's size (geometric mean of its sides).
    """
    centre = row[:2] + row[2:4] / 2
    size = float(np.sqrt(row[2] * row[3]))
    points = (row[4:14].reshape(5, 2) - centre) / size
    return np.concatenate([[1.0], row[2:4] / size, points.ravel()]), centre, size


_BOX_MAPS: dict[str, Floats] = {
    name: np.array(edges) for name, edges in packaged_toml(__package__, "box_maps.toml").items()
}


def box_map(detector: DetectorName) -> Floats:
    """(4, 13) what `tight_box` multiplies the features of a detection by."""
    return _BOX_MAPS[detector]


_VERSION = f"{WEIGHTS} looks 5"
"""counts up with every change of where and how the network is shown an image"""
DETECTORS: dict[str, str] = {
    name: f"{_VERSION} {edges.tolist()}" for name, edges in _BOX_MAPS.items()
}
"""tells boxes of a detector from those of another version, for whoever keeps them"""


@cache
def _one_network() -> YuNetNetwork:
    return YuNetNetwork()
