"""Lights, and the two kinds of shadow: sky that is hidden, and a lamp that is hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from luvli.synthetic.raster import draw_triangles, vertex_normals

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Lights:
    """Light on a scene, in camera coordinates (x right, y up, z to the camera), linear RGB."""

    direction: Floats
    """(2, 3) unit vectors to the key and the second lamp"""
    colour: Floats
    """(2, 3) their strength"""
    ambient: Floats
    """(4, 3) the sky: constant, and slopes along x, y, z (first-order spherical harmonics)"""


def random_lights(rng: np.random.Generator) -> Lights:
    """A sky with a slope, a key lamp above the horizon, a weaker second lamp."""

    def warm(kelvin_like: float) -> Any:
        tint = np.array([1 + 0.11 * kelvin_like, 1.0, 1 - 0.14 * kelvin_like])
        return tint / tint.mean()

    ambient_level = rng.uniform(0.15, 0.65)
    hue = rng.normal(0, 0.5)
    ambient = np.zeros((4, 3))
    ambient[0] = ambient_level * warm(hue)
    ambient[1] = ambient_level * rng.normal(0, 0.18) * warm(rng.normal(0, 0.6))
    ambient[2] = ambient_level * rng.normal(0.18, 0.15) * warm(rng.normal(0, 0.6))
    ambient[3] = ambient_level * rng.normal(0.10, 0.15) * warm(rng.normal(0, 0.6))
    around = np.radians(np.clip(rng.normal(0, 42), -110, 110))
    above = np.radians(np.clip(rng.normal(30, 18), -25, 80))
    side = np.radians(rng.uniform(70, 150) * rng.choice([-1, 1]))
    lift = np.radians(rng.uniform(-10, 50))
    direction = np.array(
        [
            [np.sin(around) * np.cos(above), np.sin(above), np.cos(around) * np.cos(above)],
            [np.sin(side) * np.cos(lift), np.sin(lift), np.cos(side) * np.cos(lift)],
        ]
    )
    key = rng.uniform(0.3, 1.5) * (1.1 - 0.7 * ambient_level)
    fill = rng.uniform(0, 0.5) * (rng.random() < 0.6)
    colour = np.array([key * warm(rng.normal(0.1, 0.5)), fill * warm(rng.normal(0, 0.8))])
    return Lights(
        direction.astype(np.float32), colour.astype(np.float32), ambient.astype(np.float32)
    )


_MAP = 224
"""side of a shadow map"""
_WIDE = 46.0
"""centimetres a shadow map covers"""


def shadow_map(vertices: Any, triangles: Any, direction: Any) -> tuple[Any, Any]:
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
    vertices: Any, normals: Any, depth: Any, transform: Any, bias: float, lit: Any
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


@njit(cache=True, nogil=True, fastmath=True)
def strand_light(
    points: Any, centre: Any, albedo: Any, lamp: Any, lamp_colour: Any, ambient: Any, colour: Any
) -> None:
    """Light of strands (s, p, 3) into `colour`; see `luvli.synthetic.hair.light_strands`."""
    one, zero = np.float32(1), np.float32(0)
    count = points.shape[1]
    half = np.zeros((2, 3), np.float32)
    for k in range(2):
        length = np.sqrt(lamp[k, 0] ** 2 + lamp[k, 1] ** 2 + (lamp[k, 2] + one) ** 2)
        length += np.float32(1e-6)
        half[k, 0], half[k, 1] = lamp[k, 0] / length, lamp[k, 1] / length
        half[k, 2] = (lamp[k, 2] + one) / length
    for s in range(points.shape[0]):
        for p in range(count):
            q = min(p, count - 2)
            tx = points[s, q + 1, 0] - points[s, q, 0]
            ty = points[s, q + 1, 1] - points[s, q, 1]
            tz = points[s, q + 1, 2] - points[s, q, 2]
            length = np.sqrt(tx * tx + ty * ty + tz * tz) + np.float32(1e-6)
            tx, ty, tz = tx / length, ty / length, tz / length
            ox = points[s, p, 0] - centre[0]
            oy = points[s, p, 1] - centre[1]
            oz = points[s, p, 2] - centre[2]
            length = np.sqrt(ox * ox + oy * oy + oz * oz) + np.float32(1e-6)
            ox, oy, oz = ox / length, oy / length, oz / length
            deep = np.float32(0.35) + np.float32(0.65) * np.float32(p) / np.float32(count - 1)
            for i in range(3):
                sky = ambient[0, i] + ambient[1, i] * ox + ambient[2, i] * oy + ambient[3, i] * oz
                colour[s, p, i] = albedo[i] * max(sky, zero) * deep
            for k in range(2):
                if lamp_colour[k, 1] == 0:
                    continue
                facing = ox * lamp[k, 0] + oy * lamp[k, 1] + oz * lamp[k, 2]
                facing = min(max(np.float32(0.8) * facing + np.float32(0.35), zero), one) * deep
                along = tx * lamp[k, 0] + ty * lamp[k, 1] + tz * lamp[k, 2]
                across = np.sqrt(max(one - along * along, zero))
                shine = tx * half[k, 0] + ty * half[k, 1] + tz * half[k, 2]
                shine = max(one - shine * shine, zero)
                broad = shine**12
                narrow = np.float32(0.05) * broad * broad * broad
                for i in range(3):
                    hair = albedo[i] * (np.float32(0.8) * across + np.float32(0.9) * broad)
                    colour[s, p, i] += lamp_colour[k, i] * facing * (hair + narrow)


def ambient_openness(vertices: Floats, triangles: NDArray[np.int32], lamps: int = 64) -> Floats:
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
