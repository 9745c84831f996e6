"""Exact rays: which surface the camera meets first in the direction of a point."""

from __future__ import annotations

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Doubles, Ints, Singles


@njit(cache=True, nogil=True)
def surface_depth(points: Doubles, screen: Singles, triangles: Ints, found: Doubles) -> None:
    """The nearest surface on the ray through each of `points` (k, 2), exactly.

    Not a z-buffer look-up: every triangle is tested, either side up, in double precision, so
    the answer does not depend on the resolution. `found` (k,) receives inverse depths, 0 where
    the ray meets nothing.
    """
    k = points.shape[0]
    left, top = points[:, 0].min() - 1.0, points[:, 1].min() - 1.0
    cells = 64
    scale = cells / (max(points[:, 0].max() - left, points[:, 1].max() - top) + 1.0)
    # how many points lie above and to the left of each cell: tells empty boxes at once
    table = np.zeros((cells + 1, cells + 1), np.int32)
    for j in range(k):
        table[int((points[j, 1] - top) * scale) + 1, int((points[j, 0] - left) * scale) + 1] += 1
    for row in range(1, cells + 1):
        for column in range(1, cells + 1):
            table[row, column] += (
                table[row - 1, column] + table[row, column - 1] - table[row - 1, column - 1]
            )
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        xa, ya = np.float64(screen[a, 0]), np.float64(screen[a, 1])
        xb, yb = np.float64(screen[b, 0]), np.float64(screen[b, 1])
        xc, yc = np.float64(screen[c, 0]), np.float64(screen[c, 1])
        low_x, high_x = min(xa, xb, xc), max(xa, xb, xc)
        low_y, high_y = min(ya, yb, yc), max(ya, yb, yc)
        c0 = min(max(int((low_x - left) * scale), 0), cells)
        c1 = min(max(int((high_x - left) * scale) + 1, 0), cells)
        r0 = min(max(int((low_y - top) * scale), 0), cells)
        r1 = min(max(int((high_y - top) * scale) + 1, 0), cells)
        if table[r1, c1] - table[r0, c1] - table[r1, c0] + table[r0, c0] == 0:
            continue
        area = (xc - xa) * (yb - ya) - (xb - xa) * (yc - ya)
        if area == 0:
            continue
        for j in range(k):
            x, y = points[j, 0], points[j, 1]
            if x < low_x or x > high_x or y < low_y or y > high_y:
                continue
            u = ((xc - xa) * (y - ya) - (x - xa) * (yc - ya)) / area
            v = ((x - xa) * (yb - ya) - (xb - xa) * (y - ya)) / area
            if u >= 0 and v >= 0 and u + v <= 1:
                near = screen[a, 2] + u * (screen[b, 2] - screen[a, 2])
                near += v * (screen[c, 2] - screen[a, 2])
                found[j] = max(found[j], near)
