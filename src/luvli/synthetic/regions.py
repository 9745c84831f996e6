"""Where on a head skin is lip, brow, beard or scalp: found from its landmarks alone.

The skin is unrolled onto a cylinder around the vertical axis of the head, a texture of
`HEIGHT` x `WIDTH` texels (about 0.7 mm each at the front). The seam runs down the back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import require

WIDTH, HEIGHT = 768, 512
SPAN = 36.0
"""centimetres from the top to the bottom of the texture"""
LIPS, BLUSH, BEARD, BROWS, SOCKETS, SCALP, LIDS, SHINE = range(8)
"""the channels of `Regions.maps`"""
SCALP_STEP = 20.0
"""the scalp channel holds 128 + SCALP_STEP * (centimetres inside the hairline)"""

Floats = NDArray[np.float32]

# Hairline: height above the brows in units of the distance from brows to chin, by the angle
# from the front in degrees: forehead, temple, sideburn, above and behind the ear, nape.
_HAIRLINE = np.array(
    [
        *((0, 0.40), (30, 0.42), (42, 0.37), (50, 0.22), (55, 0.06), (58, -0.08), (60, -0.27)),
        *((69, -0.30), (73, -0.06), (98, -0.04), (107, -0.5), (130, -0.85), (180, -0.95)),
    ]
)


@dataclass(frozen=True, eq=False)
class Regions:
    """The unrolled skin of one head."""

    texture: Floats
    """(n, 2) texel coordinates of the vertices, x and y"""
    maps: NDArray[np.uint8]
    """(HEIGHT, WIDTH, 8) strength of each region, 0 to 255; see the channel names"""
    top: float
    """height in centimetres of the first texel row"""


@dataclass(frozen=True, eq=False)
class HairRoots:
    """m places on the mesh: corners of a triangle and weights that sum to 1."""

    corners: NDArray[np.int32]
    """(m, 3) vertices"""
    weights: Floats
    """(m, 3)"""
    strength: Floats
    """(m,) how much inside its region; for the scalp, centimetres inside the hairline"""
    place: Floats
    """(m, 3) where the root is on the neutral head"""

    def at(self, values: Any, chosen: Any) -> Any:
        """Interpolate `values` (n, d) of the vertices at the chosen roots: (len(chosen), d)."""
        corners, weights = self.corners[chosen], self.weights[chosen]
        return np.einsum("mk,mkd->md", weights, values[corners])


def unroll(points: Any, top: float) -> Any:
    """(..., 3) centimetres to (..., 2) texels."""
    angle = np.arctan2(points[..., 0], points[..., 2])
    u = (angle / (2 * np.pi) + 0.5) * WIDTH
    v = (top - points[..., 1]) / SPAN * HEIGHT
    return np.stack([u, v], axis=-1).astype(np.float32)


def find_regions(neutral: Floats, landmarks: NDArray[np.int32]) -> Regions:
    """Texture coordinates and region maps of a head."""
    cv2 = require("cv2", "train")
    top = float(neutral[:, 1].max()) + 1.0
    points = neutral[landmarks].astype(np.float64)
    flat = unroll(points, top)
    texel = HEIGHT / SPAN
    maps = np.zeros((HEIGHT, WIDTH, 8), np.uint8)

    def paint(channel: int, shapes: Any, blur: float, value: int = 255) -> None:
        layer = np.zeros((HEIGHT, WIDTH), np.uint8)
        polygons = [np.round(shape * 16).astype(np.int32) for shape in shapes]
        for polygon in polygons:
            cv2.fillPoly(layer, [polygon], value, cv2.LINE_AA, 4)
        layer = cv2.GaussianBlur(layer, (0, 0), blur * texel)
        maps[..., channel] = np.maximum(maps[..., channel], layer)

    def spot(channel: int, centre: Any, radius: tuple[float, float], value: int) -> None:
        x, y = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
        square = ((x - centre[0]) / (radius[0] * texel)) ** 2
        square += ((y - centre[1]) / (radius[1] * texel)) ** 2
        layer = (value * np.exp(-square / 2)).astype(np.uint8)
        maps[..., channel] = np.maximum(maps[..., channel], layer)

    paint(LIPS, [flat[48:60]], 0.09)
    for side in (flat[17:22], flat[22:27][::-1]):
        thick = np.interp(np.arange(5), [0, 1.5, 4], [0.10, 0.26, 0.30]) * texel
        upper = side - np.c_[np.zeros(5), 0.75 * thick]
        lower = side + np.c_[np.zeros(5), 1.15 * thick]
        paint(BROWS, [np.concatenate([upper, lower[::-1]])], 0.10)
    for outer, corner in ((2, 48), (14, 54)):
        cheek = 0.5 * flat[outer] + 0.5 * flat[corner] - (0, 2.0 * texel)
        spot(BLUSH, cheek, (1.6, 1.5), 200)
    spot(BLUSH, flat[30], (0.9, 0.8), 170)
    spot(BLUSH, flat[8], (1.2, 0.8), 90)
    for eye in (flat[36:42], flat[42:48]):
        middle = eye.mean(axis=0)
        spot(SOCKETS, middle + np.array([0, 0.5 * texel]), (1.5, 0.8), 180)
        spot(SOCKETS, middle - np.array([0, 0.6 * texel]), (1.3, 0.5), 150)
    for upper in (flat[36:40], flat[42:46]):
        rim = np.zeros((HEIGHT, WIDTH), np.uint8)
        line = np.round(upper * 16).astype(np.int32)
        cv2.polylines(rim, [line], False, 255, 4, cv2.LINE_AA, 4)
        maps[..., LIDS] = np.maximum(maps[..., LIDS], cv2.GaussianBlur(rim, (0, 0), 1.2))
    spot(SHINE, flat[30] - (0, 1.5 * texel), (0.8, 2.0), 230)
    spot(SHINE, (flat[21] + flat[22]) / 2 - (0, 2.2 * texel), (3.2, 1.6), 200)
    for outer, corner in ((1, 39), (15, 42)):
        spot(SHINE, 0.5 * flat[outer] + 0.5 * flat[corner] + (0, 1.0 * texel), (1.3, 0.8), 150)
    _paint_beard(paint, maps, flat, texel)
    maps[..., SCALP] = _scalp_map(cv2, points, top)
    return Regions(unroll(neutral, top), maps, top)


def _paint_beard(paint: Any, maps: Any, flat: Any, texel: float) -> None:
    """Moustache, chin, cheeks up to a line from the sideburns to the corners of the mouth."""

    def between(a: int, b: int, t: float, drop: float = 0.0) -> Any:
        return (1 - t) * flat[a] + t * flat[b] + (0, drop * texel)

    outline = [*flat[1:16], between(15, 54, 0.3, 1.4), between(15, 54, 0.8), between(54, 35, 0.55)]
    outline += [between(33, 51, 0.45), between(48, 31, 0.55), between(1, 48, 0.8)]
    outline += [between(1, 48, 0.3, 1.4)]
    below = [*flat[2:15], flat[14] + (0, 3.0 * texel), flat[8] + (0, 3.2 * texel)]
    below += [flat[2] + (0, 3.0 * texel)]
    paint(2, [np.array(outline), np.array(below)], 0.35)
    gap = maps[..., LIPS].astype(np.int32)
    maps[..., 2] = np.clip(maps[..., 2].astype(np.int32) - 2 * gap, 0, 255)


def _scalp_map(cv2: Any, points: Any, top: float) -> NDArray[np.uint8]:
    brow = points[17:27, 1].mean()
    size = brow - points[8, 1]
    angle = np.abs((np.arange(WIDTH) / WIDTH - 0.5) * 360)
    line = brow + size * np.interp(angle, _HAIRLINE[:, 0], _HAIRLINE[:, 1])
    height = top - np.arange(HEIGHT) / HEIGHT * SPAN
    hairy = (height[:, None] > line[None]).astype(np.uint8)
    hairy = np.tile(hairy, 3)  # so that distances do not end at the seam
    inside = cv2.distanceTransform(hairy, cv2.DIST_L2, 5)
    inside -= cv2.distanceTransform(1 - hairy, cv2.DIST_L2, 5)
    centimetres = inside[:, WIDTH : 2 * WIDTH] * SPAN / HEIGHT
    return np.asarray(np.clip(128 + SCALP_STEP * centimetres, 0, 255), np.uint8)


def scatter_roots(
    neutral: Floats,
    triangles: NDArray[np.int32],
    landmarks: NDArray[np.int32],
    regions: Regions,
) -> Mapping[str, HairRoots]:
    """Many fixed places for hair in each region, evenly spread over the surface."""
    rng = np.random.default_rng(68)  # a property of the head, not of a face
    corners = neutral[triangles]
    area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    texel = np.clip(regions.texture[triangles].mean(axis=1), 0, (WIDTH - 1, HEIGHT - 1))
    value = regions.maps[texel[:, 1].astype(int), texel[:, 0].astype(int)].astype(np.float32)
    inside = (value[:, SCALP] - 128) / SCALP_STEP
    jaw, chin = neutral[landmarks[2]], neutral[landmarks[8]]
    ear = (np.abs(corners[:, :, 0]).max(axis=1) > abs(jaw[0]) + 0.9) & (inside < 1.2)
    above_neck = corners[:, :, 1].min(axis=1) > chin[1] - 4

    def scatter(density: Any, count: int, channel: int, measure: Any, least: float) -> HairRoots:
        chance = area * density
        if chance.sum() == 0:
            count = 0
            chance = np.ones_like(chance)
        index = rng.choice(len(triangles), 3 * count, p=chance / chance.sum())
        split = np.sort(rng.random((len(index), 2)), axis=1)
        weights = np.c_[split[:, 0], split[:, 1] - split[:, 0], 1 - split[:, 1]].astype(np.float32)
        chosen = triangles[index]
        place = np.einsum("mk,mkd->md", weights, neutral[chosen]).astype(np.float32)
        # large triangles reach out of the region: what counts is the place itself
        at = np.clip(unroll(place, regions.top), 0, (WIDTH - 1, HEIGHT - 1)).astype(int)
        strength = measure(regions.maps[at[:, 1], at[:, 0], channel].astype(np.float32))
        good = np.flatnonzero(strength > least)[:count]
        return HairRoots(chosen[good], weights[good], strength[good], place[good])

    scalp = ((inside > -2.5) & ~ear).astype(np.float32)
    brows = _spread(value[:, BROWS], corners, neutral[landmarks[17:27]])
    beard = np.where((value[:, BEARD] > 40) & above_neck & ~ear, value[:, BEARD], 0)
    return {
        "scalp": scatter(scalp, 12000, SCALP, lambda v: (v - 128) / SCALP_STEP, -1.2),
        "brows": scatter(brows, 1200, BROWS, lambda v: v / 255, 0.35),
        "beard": scatter(beard, 6000, BEARD, lambda v: v / 255, 0.15),
        "lashes": _lash_roots(neutral, landmarks),
    }


def _spread(value: Any, corners: Any, points: Any) -> Any:
    """Chance of triangles: their own value, or a little when they lie near one of `points`."""
    middle = corners.mean(axis=1)
    near = np.linalg.norm(middle[:, None] - points[None], axis=2).min(axis=1) < 1.2
    return np.where(near, np.maximum(value, 60), 0)


def _lash_roots(neutral: Floats, landmarks: NDArray[np.int32]) -> HairRoots:
    """Along the upper lids, and fewer along the lower ones: on lines between landmarks."""
    pairs = [(36, 37), (37, 38), (38, 39), (42, 43), (43, 44), (44, 45)] * 12
    pairs += [(40, 41), (41, 36), (46, 47), (45, 46)] * 4
    ends = landmarks[np.array(pairs)]
    t = (np.arange(len(pairs)) * 0.618034 % 1).astype(np.float32)
    weights = np.stack([1 - t, t, np.zeros_like(t)], axis=1)
    corners = np.c_[ends, ends[:, 1]].astype(np.int32)
    upper = np.arange(len(pairs)) < 72
    place = np.einsum("mk,mkd->md", weights, neutral[corners]).astype(np.float32)
    return HairRoots(corners, weights, np.where(upper, 1.0, 0.3).astype(np.float32), place)
