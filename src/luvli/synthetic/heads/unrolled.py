"""The skin of a head laid out flat: what is where on its texture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luvli.synthetic.arrays import Bools, Ints, Singles
from luvli.synthetic.heads.regions import HEIGHT, WIDTH
from luvli.synthetic.raster.shade import SEAM
from luvli.synthetic.raster.zbuffer import draw_triangles, vertex_normals


class UnrolledSkin(NamedTuple):
    """The outermost skin at each texel of a neutral head."""

    place: Singles
    """(h, w, 3) centimetres"""
    normal: Singles
    """(h, w, 3)"""
    present: Bools
    """(h, w)"""


def unroll_surface(neutral: Singles, triangles: Ints, texture: Singles) -> UnrolledSkin:
    """Lay out the skin `triangles` of a head whose vertices have the texels `texture` (n, 2)."""
    normals = np.zeros_like(neutral)
    vertex_normals(neutral, triangles, normals)
    flat = np.empty_like(neutral)
    flat[:, :2] = texture
    flat[:, 2] = 1 + np.hypot(neutral[:, 0], neutral[:, 2])
    wide = np.ptp(flat[triangles, 0], axis=1) < SEAM
    triangles = np.ascontiguousarray(triangles[wide])
    near = np.zeros((HEIGHT, WIDTH), np.float32)
    owner = np.full((HEIGHT, WIDTH), -1, np.int32)
    draw_triangles(flat, triangles, 0, True, near, owner)
    seen = owner >= 0
    y, x = np.nonzero(seen)
    a, b, c = (flat[triangles[owner[y, x], k], :2].astype(np.float64) for k in range(3))
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])
    u = ((x - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (y - a[:, 1])) / area
    v = ((b[:, 0] - a[:, 0]) * (y - a[:, 1]) - (x - a[:, 0]) * (b[:, 1] - a[:, 1])) / area
    weights = np.stack([1 - u - v, u, v], axis=1)
    result = []
    for values in (neutral, normals):
        layer = np.zeros((HEIGHT, WIDTH, 3), np.float32)
        layer[y, x] = np.einsum("mk,mkd->md", weights, values[triangles[owner[y, x]]])
        result.append(layer)
    return UnrolledSkin(result[0], result[1], seen)
