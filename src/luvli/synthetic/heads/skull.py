"""A skull as distances from its middle: keeps hair and hats outside of the head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from luvli.synthetic.arrays import Index, Ints, Singles

if TYPE_CHECKING:
    from luvli.synthetic.heads.head import Head

_RINGS, _SECTORS = 24, 48


class SkullCells(NamedTuple):
    """Vertices of the skin above the chin, sorted by their direction from `centre`."""

    first: Index
    """where the vertices of each cell begin in `vertices`"""
    cells: Index
    """the cells that have vertices"""
    vertices: Index
    centre: Singles
    """(3,)"""


@dataclass(frozen=True, eq=False)
class Skull:
    """How far the surface of a head lies from its middle, in every direction."""

    centre: Singles
    radius: Singles
    """(_RINGS, _SECTORS)"""

    @classmethod
    def around(cls, head: Head, vertices: Singles) -> Skull:
        """The skull of a deformed head."""
        first, cells, order, centre = head.skull_cells
        radius = np.zeros(_RINGS * _SECTORS, np.float32)
        offset = vertices[order] - centre
        distance = np.sqrt(np.einsum("nk,nk->n", offset, offset))
        radius[cells] = np.maximum.reduceat(distance, first)
        grid = radius.reshape(_RINGS, _SECTORS)
        # an empty cell takes the largest of its neighbours
        around = np.max([np.roll(grid, k, axis=1) for k in (-2, -1, 1, 2)], axis=0)
        grid = np.where(grid == 0, around, grid)
        grid = np.where(grid == 0, np.median(grid[grid > 0]), grid)
        return cls(centre, grid)


def sort_by_direction(neutral: Singles, triangles: Ints, landmarks: Ints) -> SkullCells:
    """The cells of a head with these triangles of skin."""
    centre = np.array([0, neutral[landmarks[27]][1], 0.5], np.float32)
    chin = neutral[landmarks[8], 1]
    skin = np.unique(triangles)
    skin = skin[neutral[skin, 1] > chin - 1]
    outward = neutral[skin] - centre
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    ring = ((1 - outward[:, 1]) / 2 * _RINGS).astype(int).clip(0, _RINGS - 1)
    angle = np.arctan2(outward[:, 0], outward[:, 2])
    sector = ((angle / (2 * np.pi) + 0.5) * _SECTORS).astype(int) % _SECTORS
    cell = ring * _SECTORS + sector
    order = np.argsort(cell, kind="stable")
    cells, first = np.unique(cell[order], return_index=True)
    return SkullCells(first, cells, skin[order].astype(np.intp), centre)
