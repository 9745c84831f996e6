"""Where hair grows on a head, and the skull that hair and hats stay outside of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from luvli.synthetic.arrays import Index, Ints, Real, Singles
from luvli.synthetic.heads.regions import HEIGHT, SCALP_STEP, WIDTH, Regions, unroll
from luvli.synthetic.raster.materials import BEARD, BROWS, SCALP


class HairRoots(NamedTuple):
    """m places on the mesh: corners of a triangle and weights that sum to 1."""

    corners: Ints
    """(m, 3) vertices"""
    weights: Singles
    """(m, 3)"""
    strength: Singles
    """(m,) how much inside its region; for the scalp, centimetres inside the hairline"""
    place: Singles
    """(m, 3) where the root is on the neutral head"""

    def at(self, values: Singles, chosen: Index) -> Singles:
        """Interpolate `values` (n, d) of the vertices at the chosen roots: (len(chosen), d)."""
        return _mixed(self.weights[chosen], values[self.corners[chosen]])


def _mixed(weights: Singles, values: Singles) -> Singles:
    return np.asarray(np.einsum("mk,mkd->md", weights, values), np.float32)


def scatter_roots(
    neutral: Singles, triangles: Ints, landmarks: Ints, regions: Regions
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

    def scatter(
        density: Real, count: int, channel: int, measure: Callable[[Singles], Real], least: float
    ) -> HairRoots:
        chance = area * density
        if chance.sum() == 0:
            count, chance = 0, np.ones_like(chance)
        index = rng.choice(len(triangles), 3 * count, p=chance / chance.sum())
        split = np.sort(rng.random((len(index), 2)), axis=1)
        weights = np.c_[split[:, 0], split[:, 1] - split[:, 0], 1 - split[:, 1]].astype(np.float32)
        chosen = triangles[index]
        place = _mixed(weights, neutral[chosen])
        # large triangles reach out of the region: what counts is the place itself
        at = np.clip(unroll(place, regions.top), 0, (WIDTH - 1, HEIGHT - 1)).astype(int)
        strength = measure(regions.maps[at[:, 1], at[:, 0], channel].astype(np.float32))
        good = np.flatnonzero(strength > least)[:count]
        return HairRoots(
            chosen[good], weights[good], strength[good].astype(np.float32), place[good]
        )

    # triangles near a landmark of the brows have a little chance whatever their own value
    middle, brow_points = corners.mean(axis=1), neutral[landmarks[17:27]]
    near = np.linalg.norm(middle[:, None] - brow_points, axis=2).min(axis=1) < 1.2
    scalp = ((inside > -2.5) & ~ear).astype(np.float32)
    brows = np.where(near, np.maximum(value[:, BROWS], 60), 0)
    beard = np.where((value[:, BEARD] > 40) & above_neck & ~ear, value[:, BEARD], 0)
    return {
        "scalp": scatter(scalp, 12000, SCALP, lambda v: (v - 128) / SCALP_STEP, -1.2),
        "brows": scatter(brows, 1200, BROWS, lambda v: v / 255, 0.35),
        "beard": scatter(beard, 6000, BEARD, lambda v: v / 255, 0.15),
    }


RINGS, SECTORS = 24, 48


class Skull(NamedTuple):
    """How far the surface of a head lies from its middle, in every direction."""

    centre: Singles
    """(3,)"""
    radius: Singles
    """(RINGS, SECTORS) centimetres"""


def cell_of(outward: Real) -> Index:
    """Number of the cell of `Skull.radius` that each unit vector (..., 3) points to."""
    ring = ((1 - outward[..., 1]) / 2 * RINGS).astype(int).clip(0, RINGS - 1)
    angle = np.arctan2(outward[..., 0], outward[..., 2])
    sector = ((angle / (2 * np.pi) + 0.5) * SECTORS).astype(int) % SECTORS
    return np.asarray(ring * SECTORS + sector)


def find_skull(neutral: Singles, skin: Ints, landmarks: Ints, vertices: Singles) -> Skull:
    """The skull of a head deformed to `vertices` (n, 3); `skin` (m,) are its vertices of skin."""
    centre = np.array([0, neutral[landmarks[27]][1], 0.5], np.float32)
    above = skin[neutral[skin, 1] > neutral[landmarks[8], 1] - 1]  # the neck is no skull
    outward = neutral[above] - centre
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    radius = np.zeros(RINGS * SECTORS, np.float32)
    np.maximum.at(radius, cell_of(outward), np.linalg.norm(vertices[above] - centre, axis=1))
    grid = radius.reshape(RINGS, SECTORS)
    # an empty cell takes the largest of its neighbours
    around = np.max([np.roll(grid, k, axis=1) for k in (-2, -1, 1, 2)], axis=0)
    grid = np.where(grid == 0, around, grid)
    return Skull(centre, np.where(grid == 0, np.median(grid[grid > 0]), grid))
