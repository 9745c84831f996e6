"""The two kinds of shadow: a lamp that is hidden, and sky that is hidden."""

from __future__ import annotations

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Ints, Real, Singles
from luvli.synthetic.raster.zbuffer import draw_triangles, vertex_normals

_MAP = 224
"""side of a shadow map"""
_WIDE = 46.0
"""centimetres a shadow map covers"""


def shadow_map(vertices: Singles, triangles: Ints, direction: Real) -> tuple[Singles, Singles]:
    """Depth seen from a lamp far away: (map (s, s), 3 x 4 transform into map coordinates).

    The third coordinate grows towards the lamp and is positive around the head.
    """
    forward = np.asarray(direction, np.float64)
    helper = np.array([0.0, 1.0, 0.0]) if abs(forward[1]) < 0.9 else np.array([1.0, 0.0, 0.0])
    right = np.cross(helper, forward)
    right /= np.linalg.norm(right)
    up = np.cross(forward, right)
    scale = _MAP / _WIDE
    transform = np.zeros((3, 4), np.float32)
    transform[0, :3], transform[0, 3] = scale * right, _MAP / 2
    transform[1, :3], transform[1, 3] = -scale * up, _MAP / 2
    transform[2, :3], transform[2, 3] = forward, 200.0
    seen = np.ascontiguousarray(vertices @ transform[:, :3].T + transform[:, 3])
    depth = np.zeros((_MAP, _MAP), np.float32)
    owner = np.empty((_MAP, _MAP), np.int32)
    draw_triangles(seen, triangles, 0, False, depth, owner)
    return depth, transform


@njit(cache=True, nogil=True, fastmath=True)
def lit_fraction(
    vertices: Singles,
    normals: Singles,
    depth: Singles,
    transform: Singles,
    bias: float,
    lit: Singles,
) -> None:
    """How much of the lamp each vertex sees, from 5 taps of the shadow map, into `lit` (n,)."""
    size = depth.shape[0]
    for k in range(vertices.shape[0]):
        # start a little off the surface, so that it does not shade itself
        px = vertices[k, 0] + normals[k, 0] * np.float32(bias)
        py = vertices[k, 1] + normals[k, 1] * np.float32(bias)
        pz = vertices[k, 2] + normals[k, 2] * np.float32(bias)
        x = transform[0, 0] * px + transform[0, 1] * py + transform[0, 2] * pz + transform[0, 3]
        y = transform[1, 0] * px + transform[1, 1] * py + transform[1, 2] * pz + transform[1, 3]
        z = transform[2, 0] * px + transform[2, 1] * py + transform[2, 2] * pz + transform[2, 3]
        free = 0
        for tap in range(5):  # the middle and the corners of a small square
            dx = 0.0 if tap == 0 else 1.3 * (2 * (tap % 2) - 1)
            dy = 0.0 if tap == 0 else 1.3 * (2 * (tap // 3) - 1)
            column = int(x + dx + 0.5)
            row = int(y + dy + 0.5)
            inside = column >= 0 and row >= 0 and column < size and row < size
            if not inside or depth[row, column] <= z + bias:
                free += 1
        lit[k] = free / np.float32(5.0)


def ambient_openness(vertices: Singles, triangles: Ints, lamps: int = 64) -> Singles:
    """(n,) the cosine-weighted part of the sky that each vertex sees, 0 to 1.

    Lamps stand on a Fibonacci sphere, each with a shadow map.
    """
    normals = np.zeros_like(vertices)
    vertex_normals(vertices, triangles, normals)
    index = np.arange(lamps) + 0.5
    z = 1 - 2 * index / lamps
    turn = np.pi * (1 + np.sqrt(5)) * index
    ring = np.sqrt(1 - z * z)
    sphere = np.stack([ring * np.cos(turn), z, ring * np.sin(turn)], axis=1)
    seen = np.zeros(len(vertices))
    total = np.zeros(len(vertices))
    lit = np.zeros(len(vertices), np.float32)
    for direction in sphere:
        cosine = np.clip(normals @ direction.astype(np.float32), 0, None)
        depth, transform = shadow_map(vertices, triangles, direction)
        lit_fraction(vertices, normals, depth, transform, 0.25, lit)
        seen += cosine * lit
        total += cosine
    return (seen / np.maximum(total, 1e-6)).astype(np.float32)
