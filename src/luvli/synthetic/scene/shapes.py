"""Small meshes to build objects from: sheets, tubes and balls."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from luvli.synthetic.arrays import Ints, Real, Singles
from luvli.synthetic.raster.materials import Material
from luvli.synthetic.raster.triangles import grid_triangles


@dataclass(frozen=True, eq=False)
class Mesh:
    """An object: vertices (n, 3), triangles (t, 3), colours (n, 3) in linear RGB."""

    vertices: Singles
    triangles: Ints
    colour: Singles
    gloss: float = 0.1
    part: Material = Material.PLAIN
    texture: Singles | None = None
    """(n, 2) place in the noise tile, for cloth"""


def join_meshes(meshes: list[Mesh]) -> Mesh:
    """Several meshes of one kind as one."""
    start = np.cumsum([0] + [len(mesh.vertices) for mesh in meshes])
    return replace(
        meshes[0],
        vertices=np.concatenate([mesh.vertices for mesh in meshes]),
        triangles=np.concatenate([m.triangles + s for m, s in zip(meshes, start, strict=False)]),
        colour=np.concatenate([mesh.colour for mesh in meshes]),
    )


def sheet(points: Real, colour: ArrayLike, closed: bool = False, gloss: float = 0.1) -> Mesh:
    """A grid of points (r, c, 3) as a surface; `closed` joins the last column to the first."""
    rows, columns = points.shape[:2]
    flat = np.asarray(points, np.float32).reshape(-1, 3)
    colours = np.broadcast_to(np.asarray(colour, np.float32), points.shape).reshape(-1, 3)
    return Mesh(flat, grid_triangles(rows, columns, closed), colours, gloss)


def tube(
    path: Real, radius: ArrayLike, colour: ArrayLike, sides: int = 8, gloss: float = 0.1
) -> Mesh:
    """A round bar along `path` (p, 3) with the radius at each point; its ends are rounded."""
    path = np.asarray(path, np.float64)
    radius = np.broadcast_to(np.asarray(radius, np.float64), len(path))
    start, stop = path[1] - path[0], path[-1] - path[-2]
    start, stop = start / np.linalg.norm(start), stop / np.linalg.norm(stop)
    caps = np.array([[1.0], [0.7]])
    first, last = path[0] - start * radius[0] * caps, path[-1] + stop * radius[-1] * caps[::-1]
    path = np.concatenate([first, path, last])
    ends = np.array([0.02, 0.7])
    radius = np.concatenate([radius[0] * ends, radius, radius[-1] * ends[::-1]])
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.cross(along, (0.31, 0.86, 0.41))
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    other = np.cross(along, across)
    angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)[:, None]
    ring = across[:, None] * np.cos(angle) + other[:, None] * np.sin(angle)
    return sheet(path[:, None] + radius[:, None, None] * ring, colour, closed=True, gloss=gloss)


def ball(centre: Real, axes: ArrayLike, colour: ArrayLike, gloss: float = 0.1) -> Mesh:
    """An ellipsoid with half-axes `axes` (3,) along x, y, z."""
    latitude = np.linspace(0.02, np.pi - 0.02, 10)[:, None]
    longitude = np.linspace(0, 2 * np.pi, 16, endpoint=False)[None]
    x, z = np.sin(latitude) * np.sin(longitude), np.sin(latitude) * np.cos(longitude)
    unit = np.stack([x, np.cos(latitude) + 0 * longitude, z], axis=-1)
    return sheet(np.asarray(centre) + unit * np.asarray(axes), colour, closed=True, gloss=gloss)


def random_colour(rng: np.random.Generator) -> Singles:
    """A linear RGB colour: black and white often, strong hues seldom."""
    level = rng.choice([0.02, 0.06, 0.15, 0.35, 0.7]) * np.exp(rng.normal(0, 0.25))
    tint = np.exp(rng.normal(0, 0.7 * (1 - 0.5 * rng.random()), 3))
    return np.asarray(np.clip(level * tint / tint.mean(), 0.005, 0.9), np.float32)
