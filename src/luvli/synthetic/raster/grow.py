"""Grows guide hairs over a skull, one step after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Bools, Singles

KNOT = (0.0, 4.0, -9.0)
"""where tied hair comes together, head coordinates"""


class Guides(NamedTuple):
    """What is known of g guide hairs with p points before they grow."""

    direction: Singles
    """(g, 3) in which each leaves the skin"""
    comb: Singles
    """(g, 3) in which it is combed"""
    step: Singles
    """(g,) centimetres from point to point"""
    lift: Singles
    """(g,) how far off the skull it stays"""
    fringed: Bools
    """(g,) falls over the forehead"""
    wander: Singles
    """(g, p, 3) random turns"""
    wave: Singles
    """(g, 2) phase and frequency of its curl"""


class Pull(NamedTuple):
    """What all hairs of a head obey."""

    down: Singles
    """(3,) where gravity points"""
    gravity: np.float32
    curl: np.float32
    parting: np.float32
    """x from which hair slides to the left or right of the face"""
    tied: bool


@njit(cache=True, nogil=True, fastmath=True)
def grow(path: Singles, guides: Guides, pull: Pull, centre: Singles, radius: Singles) -> None:
    """Fill `path` (g, p, 3) from its first points.

    `centre` (3,) and `radius` (rings, sectors) are the skull's, which no hair enters.
    """
    comb, fringed, wander, wave = guides.comb, guides.fringed, guides.wander, guides.wave
    curl, tied, down = pull.curl, pull.tied, pull.down
    points = path.shape[1]
    rings, sectors = radius.shape
    direction = np.zeros(3, np.float32)
    flow = np.zeros(3, np.float32)
    outward = np.zeros(3, np.float32)
    for g in range(path.shape[0]):
        for i in range(3):
            direction[i], flow[i] = guides.direction[g, i], comb[g, i]
        for p in range(1, points):
            travelled = p / (points - 1)
            fall = pull.gravity * (0.4 + 2.5 * travelled) * (1.6 if fringed[g] else 1.0)
            turn = wave[g, 0] + wave[g, 1] * p * 2
            for i in range(3):
                direction[i] = (
                    0.75 * direction[i] + 0.3 * flow[i] + fall * down[i] + wander[g, p, i]
                )
            direction[0] += 0.5 * curl * np.cos(turn)
            direction[1] += 0.5 * curl * np.sin(2 * wave[g, 0] + p)
            direction[2] += 0.5 * curl * np.sin(turn)
            x, y, z = path[g, p - 1, 0], path[g, p - 1, 1], path[g, p - 1, 2]
            if not tied and not fringed[g] and z > 5.2 and y < 10.5:
                # hair that is not a fringe keeps off the face: it slides to its side
                direction[0] += 0.5 if x > pull.parting else -0.5
                direction[2] -= 0.2
            length = np.sqrt(direction[0] ** 2 + direction[1] ** 2 + direction[2] ** 2) + 1e-6
            distance = 1e-6
            for i in range(3):
                direction[i] /= length
                path[g, p, i] = path[g, p - 1, i] + guides.step[g] * direction[i]
                outward[i] = path[g, p, i] - centre[i]
                distance += outward[i] ** 2
            distance = np.sqrt(distance)
            for i in range(3):
                outward[i] /= distance
            ring = min(max(int((1 - outward[1]) / 2 * rings), 0), rings - 1)
            angle = np.arctan2(outward[0], outward[2])
            sector = int((angle / (2 * np.pi) + 0.5) * sectors) % sectors
            least = radius[ring, sector] + guides.lift[g]
            if distance < least:  # inside the skull: out again, and no farther inwards
                inward = 0.0
                for i in range(3):
                    path[g, p, i] = centre[i] + outward[i] * least
                    inward += direction[i] * outward[i]
                for i in range(3):
                    direction[i] -= min(inward, 0.0) * outward[i]
            if tied:
                length = 1e-6
                for i in range(3):
                    flow[i] = KNOT[i] - path[g, p, i]
                    length += flow[i] ** 2
                for i in range(3):
                    flow[i] /= np.sqrt(length)
