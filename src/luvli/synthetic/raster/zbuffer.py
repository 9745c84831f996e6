"""The z-buffer: triangles and hair strands into sample buffers.

An image of `size` pixels is drawn on a grid of `SAMPLES * size` sample points. Buffers hold
the inverse depth of the nearest surface (0: nothing) and its owner: the number of a triangle,
`NOTHING`, or `FACE_HAIR` or `SCALP_HAIR` (then the colour stands in a buffer of its own).
Inverse depth is linear on the screen under perspective: no division is needed until a sample is
shaded.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Ints, Singles

SAMPLES = 2
"""sample points along each side of a pixel"""
NOTHING = -1
FACE_HAIR = -2
"""a hair of the face itself: brow, lash or beard"""
SCALP_HAIR = -3
"""a hair of the scalp, which can hide a landmark"""
_SLACK = np.float32(1e-4)
"""barycentric tolerance: closes the seams that rounding leaves between neighbours"""


@njit(cache=True, nogil=True, fastmath=True)
def draw_triangles(
    screen: Singles, triangles: Ints, first: int, two_sided: bool, nearness: Singles, owner: Ints
) -> None:
    """Draw triangles into `nearness` and `owner` (both (h, w)), in place.

    `screen` (n, 3) is x, y in sample units and the inverse depth of each vertex. Triangle t is
    written as owner `first + t`. Counter-clockwise triangles (seen with y up) face the camera;
    the others are skipped unless `two_sided`.
    """
    height, width = nearness.shape
    zero, one = np.float32(0), np.float32(1)
    last_x, last_y = np.float32(width - 1), np.float32(height - 1)
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        xa, ya = screen[a, 0], screen[a, 1]
        xb, yb = screen[b, 0], screen[b, 1]
        xc, yc = screen[c, 0], screen[c, 1]
        area = (xc - xa) * (yb - ya) - (xb - xa) * (yc - ya)
        if area <= 0:
            if not two_sided or area == 0:
                continue
            b, c = c, b
            xb, yb, xc, yc = xc, yc, xb, yb
            area = -area
        left = int(max(np.ceil(min(xa, min(xb, xc))), zero))
        right = int(min(np.floor(max(xa, max(xb, xc))), last_x))
        top = int(max(np.ceil(min(ya, min(yb, yc))), zero))
        bottom = int(min(np.floor(max(ya, max(yb, yc))), last_y))
        if left > right or top > bottom:
            continue
        inverse = one / area
        wa = screen[a, 2]
        slope_b, slope_c = screen[b, 2] - wa, screen[c, 2] - wa
        # barycentric coordinates are linear: one step for each column, one for each row
        column_b, column_c = (ya - yc) * inverse, (yb - ya) * inverse
        row_b, row_c = (xc - xa) * inverse, (xa - xb) * inverse
        dx, dy = np.float32(left) - xa, np.float32(top) - ya
        start_b, start_c = row_b * dy + column_b * dx, row_c * dy + column_c * dx
        for y in range(top, bottom + 1):
            u, v = start_b, start_c
            for x in range(left, right + 1):
                if u >= -_SLACK and v >= -_SLACK and u + v <= one + _SLACK:
                    near = wa + u * slope_b + v * slope_c
                    if near > nearness[y, x]:
                        nearness[y, x] = near
                        owner[y, x] = first + t
                u += column_b
                v += column_c
            start_b += row_b
            start_c += row_c


@njit(cache=True, nogil=True, fastmath=True)
def draw_strands(
    screen: Singles,
    colour: Singles,
    width: Singles,
    label: int,
    nearness: Singles,
    owner: Ints,
    painted: Singles,
) -> None:
    """Draw polylines: `screen` (n, m, 3) as for triangles, `colour` (n, m, 3), `width` (n,).

    A strand is `width` samples wide at its root and half of that at its tip. It is written as
    owner `label`; its colours go to `painted` (h, w, 3).
    """
    height, breadth = nearness.shape
    for s in range(screen.shape[0]):
        points = screen.shape[1]
        for p in range(points - 1):
            xa, ya, wa = screen[s, p, 0], screen[s, p, 1], screen[s, p, 2]
            xb, yb, wb = screen[s, p + 1, 0], screen[s, p + 1, 1], screen[s, p + 1, 2]
            if max(xa, xb) < -2 or max(ya, yb) < -2:
                continue
            if min(xa, xb) > breadth + 2 or min(ya, yb) > height + 2:
                continue
            steep = abs(yb - ya) > abs(xb - xa)
            count = int(max(abs(xb - xa), abs(yb - ya))) + 1
            share = np.float32(1) / np.float32(count)
            step_x, step_y, step_w = (xb - xa) * share, (yb - ya) * share, (wb - wa) * share
            taper = np.float32(1) - np.float32(0.5) * np.float32(p) / np.float32(points)
            wide = max(1, int(width[s] * taper + np.float32(0.5)))
            # half a sample more, so that cutting the fraction off rounds
            shift = np.float32(0.5) - np.float32(0.5) * np.float32(wide - 1)
            x0 = xa + (shift if steep else np.float32(0.5))
            y0 = ya + (np.float32(0.5) if steep else shift)
            near = wa
            for i in range(count):
                if x0 >= 0 and y0 >= 0:
                    x, y = int(x0), int(y0)
                    for _ in range(wide):
                        if x < breadth and y < height and near > nearness[y, x]:
                            nearness[y, x] = near
                            owner[y, x] = label
                            t = np.float32(i) * share
                            for channel in range(3):
                                ca = colour[s, p, channel]
                                painted[y, x, channel] = ca + t * (colour[s, p + 1, channel] - ca)
                        if steep:
                            x += 1
                        else:
                            y += 1
                x0 += step_x
                y0 += step_y
                near += step_w


@njit(cache=True, nogil=True, fastmath=True)
def vertex_normals(vertices: Singles, triangles: Ints, normals: Singles) -> None:
    """Unit normals (n, 3) of a mesh, each the area-weighted mean of its triangles'."""
    normals[:] = 0
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        ux, uy, uz = (
            vertices[b, 0] - vertices[a, 0],
            vertices[b, 1] - vertices[a, 1],
            vertices[b, 2] - vertices[a, 2],
        )
        vx, vy, vz = (
            vertices[c, 0] - vertices[a, 0],
            vertices[c, 1] - vertices[a, 1],
            vertices[c, 2] - vertices[a, 2],
        )
        x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
        for k in (a, b, c):
            normals[k, 0] += x
            normals[k, 1] += y
            normals[k, 2] += z
    for k in range(normals.shape[0]):
        length = np.sqrt(normals[k, 0] ** 2 + normals[k, 1] ** 2 + normals[k, 2] ** 2)
        if length > 0:
            for channel in range(3):
                normals[k, channel] /= length
