"""Where on a head skin is lip, brow, beard or scalp: found from its landmarks alone.

The skin is unrolled onto a cylinder around the vertical axis of the head, a texture of
`HEIGHT` x `WIDTH` texels (about 0.7 mm each at the front). The seam runs down the back.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np

from luvli.synthetic.arrays import Bools, Bytes, Doubles, Ints, Real, Singles
from luvli.synthetic.raster.materials import BEARD, BROWS, CHEEKS, LIDS, LIPS, SCALP, SHINE, SOCKETS
from luvli.synthetic.raster.triangles import (
    NOTHING,
    SEAM,
    barycentric,
    depth_buffer,
    vertex_normals,
)

WIDTH, HEIGHT = 768, 512
SPAN = 36.0
"""centimetres from the top to the bottom of the texture"""
TEXEL = HEIGHT / SPAN
"""texels per centimetre"""
SCALP_STEP = 20.0
"""the scalp channel holds 128 + SCALP_STEP * (centimetres inside the hairline)"""

# Hairline: height above the brows in units of the distance from brows to chin, by the angle
# from the front in degrees: forehead, temple, sideburn, above and behind the ear, nape.
_HAIRLINE = np.array(
    [
        *((0, 0.40), (30, 0.42), (42, 0.37), (50, 0.22), (55, 0.06), (58, -0.08), (60, -0.27)),
        *((69, -0.30), (73, -0.06), (98, -0.04), (107, -0.5), (130, -0.85), (180, -0.95)),
    ]
)


class Regions(NamedTuple):
    """The unrolled skin of one head."""

    texture: Singles
    """(n, 2) texel coordinates of the vertices, x and y"""
    maps: Bytes
    """(HEIGHT, WIDTH, 8) strength of each region, 0 to 255; see the channel names"""
    top: float
    """height in centimetres of the first texel row"""


class UnrolledSkin(NamedTuple):
    """The outermost skin at each texel of a neutral head."""

    place: Singles
    """(HEIGHT, WIDTH, 3) centimetres"""
    normal: Singles
    """(HEIGHT, WIDTH, 3)"""
    present: Bools
    """(HEIGHT, WIDTH)"""


def smoothstep(low: float, high: float, value: Real) -> Doubles:
    """0 below `low`, 1 above `high`, smooth between."""
    t = np.clip((value - low) / (high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t), np.float64)


def unroll(points: Real, top: float) -> Singles:
    """(..., 3) centimetres to (..., 2) texels."""
    angle = np.arctan2(points[..., 0], points[..., 2])
    u = (angle / (2 * np.pi) + 0.5) * WIDTH
    v = (top - points[..., 1]) / SPAN * HEIGHT
    return np.stack([u, v], axis=-1).astype(np.float32)


def unroll_surface(neutral: Singles, triangles: Ints, texture: Singles) -> UnrolledSkin:
    """Lay out the skin `triangles` of a head whose vertices have the texels `texture` (n, 2)."""
    normals = vertex_normals(neutral, triangles)
    depth = 1 + np.hypot(neutral[:, 0], neutral[:, 2])
    flat = np.column_stack([texture, depth]).astype(np.float32)
    triangles = np.ascontiguousarray(triangles[np.ptp(flat[triangles, 0], axis=1) < SEAM])
    _, owner = depth_buffer(flat, triangles, (HEIGHT, WIDTH), two_sided=True)
    y, x = np.nonzero(owner != NOTHING)
    corners = triangles[owner[y, x]]
    weights = barycentric(flat[corners, :2], x, y)
    both: Singles = np.zeros((2, HEIGHT, WIDTH, 3), np.float32)
    for layer, values in zip(both, (neutral, normals), strict=True):
        layer[y, x] = np.einsum("mk,mkd->md", weights, values[corners])
    return UnrolledSkin(both[0], both[1], owner != NOTHING)


class _Painter:
    """Paints region maps; places in texels, lengths in centimetres."""

    def __init__(self) -> None:
        self.maps: Bytes = np.zeros((HEIGHT, WIDTH, 8), np.uint8)

    def fill(self, channel: int, blur: float, *shapes: Real) -> None:
        """Polygons with soft edges."""
        layer = np.zeros((HEIGHT, WIDTH), np.uint8)
        for shape in shapes:
            cv2.fillPoly(layer, [np.round(shape * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
        self._add(channel, cv2.GaussianBlur(layer, (0, 0), blur * TEXEL))

    def spot(self, channel: int, centre: Real, radius: tuple[float, float], value: int) -> None:
        """A Gaussian spot."""
        x, y = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
        square = ((x - centre[0]) / (radius[0] * TEXEL)) ** 2
        square += ((y - centre[1]) / (radius[1] * TEXEL)) ** 2
        self._add(channel, (value * np.exp(-square / 2)).astype(np.uint8))

    def line(self, channel: int, places: Real) -> None:
        """A soft line of 5 texels."""
        layer = np.zeros((HEIGHT, WIDTH), np.uint8)
        path = np.round(places * 16).astype(np.int32)
        cv2.polylines(layer, [path], False, 255, 5, cv2.LINE_AA, 4)
        self._add(channel, cv2.GaussianBlur(layer, (0, 0), 1.2))

    def _add(self, channel: int, layer: cv2.typing.MatLike) -> None:
        self.maps[..., channel] = np.maximum(self.maps[..., channel], layer)


def find_regions(neutral: Singles, landmarks: Ints) -> Regions:
    """Texture coordinates and region maps of a head."""
    top = float(neutral[:, 1].max()) + 1.0
    points = neutral[landmarks].astype(np.float64)
    flat = unroll(points, top)
    painter, texel = _Painter(), TEXEL
    painter.fill(LIPS, 0.09, flat[48:60])
    for side in (flat[17:22], flat[22:27][::-1]):
        thick = np.interp(np.arange(5), [0, 1.5, 4], [0.10, 0.26, 0.30]) * texel
        # landmarks lie on the upper edge; hairs lean upwards and end above their roots
        above = side + np.c_[np.zeros(5), 0.25 * thick]
        below = side + np.c_[np.zeros(5), 2.0 * thick]
        painter.fill(BROWS, 0.10, np.concatenate([above, below[::-1]]))
    for outer, corner in ((2, 48), (14, 54)):
        cheek = 0.5 * flat[outer] + 0.5 * flat[corner] - (0, 2.0 * texel)
        painter.spot(CHEEKS, cheek, (1.6, 1.5), 200)
    painter.spot(CHEEKS, flat[30], (0.9, 0.8), 170)
    painter.spot(CHEEKS, flat[8], (1.2, 0.8), 90)
    for eye in (flat[36:42], flat[42:48]):
        middle = eye.mean(axis=0)
        painter.spot(SOCKETS, middle + np.array([0, 0.5 * texel]), (1.5, 0.8), 180)
        painter.spot(SOCKETS, middle - np.array([0, 0.6 * texel]), (1.3, 0.5), 150)
    for upper_lid in (flat[36:40], flat[42:46]):
        painter.line(LIDS, upper_lid)
    painter.spot(SHINE, flat[30] - (0, 1.5 * texel), (0.8, 2.0), 230)
    painter.spot(SHINE, (flat[21] + flat[22]) / 2 - (0, 2.2 * texel), (3.2, 1.6), 200)
    for outer, corner in ((1, 39), (15, 42)):
        between = 0.5 * flat[outer] + 0.5 * flat[corner] + (0, 1.0 * texel)
        painter.spot(SHINE, between, (1.3, 0.8), 150)
    _paint_beard(painter, flat)
    painter.maps[..., SCALP] = _scalp_map(points, top)
    return Regions(unroll(neutral, top), painter.maps, top)


def _paint_beard(painter: _Painter, flat: Singles) -> None:
    """Moustache, chin, cheeks up to a line from the sideburns to the corners of the mouth."""
    maps, texel = painter.maps, TEXEL

    def between(a: int, b: int, t: float, drop: float = 0.0) -> Real:
        return np.asarray((1 - t) * flat[a] + t * flat[b] + (0, drop * texel))

    outline = [*flat[1:16], between(15, 54, 0.3, 1.4), between(15, 54, 0.8), between(54, 35, 0.55)]
    outline += [between(33, 51, 0.45), between(48, 31, 0.55), between(1, 48, 0.8)]
    outline += [between(1, 48, 0.3, 1.4)]
    below = [*flat[2:15], flat[14] + (0, 3.0 * texel), flat[8] + (0, 3.2 * texel)]
    below += [flat[2] + (0, 3.0 * texel)]
    painter.fill(BEARD, 0.35, np.array(outline), np.array(below))
    maps[..., BEARD] = np.clip(maps[..., BEARD] - 2.0 * maps[..., LIPS], 0, 255)


def _scalp_map(points: Doubles, top: float) -> Bytes:
    """(HEIGHT, WIDTH) how far inside the hairline each texel lies, see `SCALP_STEP`."""
    brow = points[17:27, 1].mean()
    size = brow - points[8, 1]
    angle = np.abs((np.arange(WIDTH) / WIDTH - 0.5) * 360)
    line = brow + size * np.interp(angle, _HAIRLINE[:, 0], _HAIRLINE[:, 1])
    height = top - np.arange(HEIGHT) / HEIGHT * SPAN
    hairy = (height[:, None] > line[None]).astype(np.uint8)
    hairy = np.tile(hairy, 3)  # so that distances do not end at the seam
    within = np.asarray(cv2.distanceTransform(hairy, cv2.DIST_L2, 5), np.float32)
    inside = within - cv2.distanceTransform(1 - hairy, cv2.DIST_L2, 5)
    centimetres = inside[:, WIDTH : 2 * WIDTH] * SPAN / HEIGHT
    return np.asarray(np.clip(128 + SCALP_STEP * centimetres, 0, 255), np.uint8)
