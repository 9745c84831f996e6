"""Triangle meshes: normals, the z-buffer, exact rays, and the two kinds of shadow.

An image of `size` pixels is drawn on a grid of `SAMPLES * size` sample points. Buffers hold
the inverse depth of the nearest surface (0: nothing) and its owner: the number of a triangle,
`NOTHING`, or `FACE_HAIR` or `SCALP_HAIR` (then the colour stands in a buffer of its own).
Inverse depth is linear on the screen under perspective: no division is needed until a sample is
shaded.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Doubles, Index, Ints, Real, Singles

SAMPLES = 2
"""sample points along each side of a pixel"""
NOTHING = -1
FACE_HAIR = -2
"""a hair of the face itself: brow or beard"""
SCALP_HAIR = -3
"""a hair of the scalp, which can hide a landmark"""
SEAM = 300
"""texels; a triangle of skin that is wider lies across the seam at the back of the head"""
_SLACK = np.float32(1e-4)
"""barycentric tolerance: closes the seams that rounding leaves between neighbours"""
_LAMPS = 64
_MAP = 224
"""side of a shadow map"""
_WIDE = 46.0
"""centimetres a shadow map covers"""


def grid_triangles(rows: int, columns: int, closed: bool) -> Ints:
    """(t, 3) triangles of a grid of points; `closed` joins the last column to the first."""
    index = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    if closed:
        index = np.concatenate([index, index[:, :1]], axis=1)
    a, b = index[:-1, :-1].ravel(), index[:-1, 1:].ravel()
    c, d = index[1:, 1:].ravel(), index[1:, :-1].ravel()
    return np.concatenate([np.stack([a, d, c], 1), np.stack([a, c, b], 1)])


@njit(cache=True, nogil=True, fastmath=True)
def vertex_normals(vertices: Singles, triangles: Ints) -> Singles:
    """(n, 3) unit normals of a mesh, each the area-weighted mean of its triangles'."""
    normals = np.zeros_like(vertices)
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        ux, uy = vertices[b, 0] - vertices[a, 0], vertices[b, 1] - vertices[a, 1]
        vx, vy = vertices[c, 0] - vertices[a, 0], vertices[c, 1] - vertices[a, 1]
        uz, vz = vertices[b, 2] - vertices[a, 2], vertices[c, 2] - vertices[a, 2]
        for k in (a, b, c):
            normals[k, 0] += uy * vz - uz * vy
            normals[k, 1] += uz * vx - ux * vz
            normals[k, 2] += ux * vy - uy * vx
    for k in range(normals.shape[0]):
        length = np.sqrt(normals[k, 0] ** 2 + normals[k, 1] ** 2 + normals[k, 2] ** 2)
        if length > 0:
            for channel in range(3):
                normals[k, channel] /= length
    return normals


def barycentric(corners: Real, x: Index, y: Index) -> Doubles:
    """(p, 3) shares of the corners (p, 3, 2) of a triangle at each place; they sum to 1."""
    a, b, c = corners.astype(np.float64).transpose(1, 0, 2)
    ab, ac, ap = b - a, c - a, np.stack([x, y], axis=1) - a
    area = ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]
    area = np.where(np.abs(area) < 1e-9, 1e-9, area)
    second = (ap[:, 0] * ac[:, 1] - ap[:, 1] * ac[:, 0]) / area
    third = (ab[:, 0] * ap[:, 1] - ab[:, 1] * ap[:, 0]) / area
    shares = np.clip(np.stack([1 - second - third, second, third], axis=1), 0, 1)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def depth_buffer(
    screen: Singles, triangles: Ints, size: tuple[int, int], two_sided: bool = False
) -> tuple[Singles, Ints]:
    """Inverse depths (h, w) and owners (h, w) of a mesh; see `draw_triangles`."""
    nearness, owner = np.zeros(size, np.float32), np.full(size, NOTHING, np.int32)
    draw_triangles(screen, triangles, 0, two_sided, nearness, owner)
    return nearness, owner


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


@njit(cache=True, nogil=True)
def surface_depth(points: Doubles, screen: Singles, triangles: Ints) -> Doubles:
    """(k,) inverse depth of the nearest surface on the ray through each of `points` (k, 2).

    Not a z-buffer look-up: every triangle is tested, either side up, in double precision, so
    the answer does not depend on the resolution. 0 where the ray meets nothing.
    """
    found = np.zeros(points.shape[0])
    order = np.argsort(points[:, 0])
    sorted_x = points[order, 0]
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        xa, ya = np.float64(screen[a, 0]), np.float64(screen[a, 1])
        xb, yb = np.float64(screen[b, 0]), np.float64(screen[b, 1])
        xc, yc = np.float64(screen[c, 0]), np.float64(screen[c, 1])
        area = (xc - xa) * (yb - ya) - (xb - xa) * (yc - ya)
        if area == 0:
            continue
        right = max(xa, xb, xc)
        for k in range(np.searchsorted(sorted_x, min(xa, xb, xc)), len(order)):
            if sorted_x[k] > right:
                break
            j = order[k]
            x, y = points[j, 0], points[j, 1]
            u = ((xc - xa) * (y - ya) - (x - xa) * (yc - ya)) / area
            v = ((x - xa) * (yb - ya) - (xb - xa) * (y - ya)) / area
            if u >= 0 and v >= 0 and u + v <= 1:
                near = screen[a, 2] + u * (screen[b, 2] - screen[a, 2])
                near += v * (screen[c, 2] - screen[a, 2])
                found[j] = max(found[j], near)
    return found


def lit_fraction(
    vertices: Singles, normals: Singles, casting: Ints, direction: Real, bias: float
) -> Singles:
    """(n,) how much of a lamp far away in `direction` (3,) each vertex sees, 0 to 1.

    The triangles `casting` (t, 3) throw shadows; surfaces less than `bias` centimetres apart
    do not shade each other.
    """
    forward = np.asarray(direction, np.float64)
    helper = np.array([0.0, 1.0, 0.0]) if abs(forward[1]) < 0.9 else np.array([1.0, 0.0, 0.0])
    right = np.cross(helper, forward)
    right /= np.linalg.norm(right)
    up = np.cross(forward, right)
    scale = _MAP / _WIDE
    # the third coordinate grows towards the lamp and is positive around the head
    turn = np.stack([scale * right, -scale * up, forward], axis=1).astype(np.float32)
    shift = np.array([_MAP / 2, _MAP / 2, 200.0], np.float32)
    depth, _ = depth_buffer(vertices @ turn + shift, casting, (_MAP, _MAP))
    # start a little off the surface, so that it does not shade itself
    seen = (vertices + normals * np.float32(bias)) @ turn + shift
    return _free_share(seen, depth, bias)


@njit(cache=True, nogil=True, fastmath=True)
def _free_share(seen: Singles, depth: Singles, bias: float) -> Singles:
    """(n,) share of 5 taps of the shadow map `depth` that nothing stands before."""
    size = depth.shape[0]
    share = np.empty(seen.shape[0], np.float32)
    for k in range(seen.shape[0]):
        free = 0
        for tap in range(5):  # the middle and the corners of a small square
            dx = 0.0 if tap == 0 else 1.3 * (2 * (tap % 2) - 1)
            dy = 0.0 if tap == 0 else 1.3 * (2 * (tap // 3) - 1)
            column, row = int(seen[k, 0] + dx + 0.5), int(seen[k, 1] + dy + 0.5)
            inside = column >= 0 and row >= 0 and column < size and row < size
            if not inside or depth[row, column] <= seen[k, 2] + bias:
                free += 1
        share[k] = free / np.float32(5.0)
    return share


def ambient_openness(vertices: Singles, triangles: Ints) -> Singles:
    """(n,) the cosine-weighted part of the sky that each vertex sees, 0 to 1.

    Lamps stand on a Fibonacci sphere, each with a shadow map.
    """
    normals = vertex_normals(vertices, triangles)
    index = np.arange(_LAMPS) + 0.5
    z = 1 - 2 * index / _LAMPS
    turn = np.pi * (1 + np.sqrt(5)) * index
    ring = np.sqrt(1 - z * z)
    seen, total = np.zeros(len(vertices)), np.zeros(len(vertices))
    for direction in np.stack([ring * np.cos(turn), z, ring * np.sin(turn)], axis=1):
        cosine = np.clip(normals @ direction.astype(np.float32), 0, None)
        seen += cosine * lit_fraction(vertices, normals, triangles, direction, 0.25)
        total += cosine
    return (seen / np.maximum(total, 1e-6)).astype(np.float32)
