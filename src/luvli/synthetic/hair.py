"""Hair as strands: a few hundred guides grow over the skull, each with a tuft of followers.

Scalp hair, brows, lashes and beards are all strands rooted in the skin. They grow in the frame
of the head, follow the way they are combed, gravity and their own curl, and are pushed out of
the skull where they would enter it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from luvli.synthetic.head import Head, Part
from luvli.synthetic.light import Lights, strand_light
from luvli.synthetic.style import Style

Floats = NDArray[np.float32]

_RINGS, _SECTORS = 24, 48
_KNOT = (0.0, 4.0, -9.0)  # where tied hair comes together


def grow_scalp(
    head: Head,
    vertices: Any,
    normals: Any,
    style: Style,
    down: Any,
    rng: np.random.Generator,
    guides: int = 460,
) -> Any:
    """Guide polylines (g, p, 3) in head coordinates; `down` (3,) is where gravity points."""
    roots = head.roots["scalp"]
    chosen = np.flatnonzero(roots.strength > style.hairline)
    if style.length <= 0 or not len(chosen):
        return np.zeros((0, 2, 3), np.float32)
    chosen = some_roots(chosen, guides, rng)
    place = roots.at(vertices, chosen)
    normal = roots.at(normals, chosen)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-6
    count = len(chosen)
    points = int(np.clip(3 + style.length * 0.55, 5, 17))
    length = style.length * rng.uniform(0.75, 1.1, count)
    front = (roots.strength[chosen] < style.hairline + 2.2) & (roots.place[chosen, 2] > 3.0)
    if style.length < 12 and not style.tied:
        # sides and nape are cut shorter than the top
        top = np.clip((roots.place[chosen, 1] - 4.0) / 7.0, 0.25, 1.0)
        length *= top
    fringed = front & (style.fringe > 0)
    length = np.where(fringed, style.fringe * rng.uniform(0.8, 1.15, count), length)
    comb = _combing(style, roots.place[chosen], fringed)
    # combed hair leaves the skin at a slant; curly hair stands up
    direction = normal * (0.55 + 0.6 * style.curl) + comb * 0.8
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    skull = Skull.around(head, vertices)
    path = np.empty((count, points, 3), np.float32)
    path[:, 0] = place
    settings = [style.gravity, style.curl, 0.3 * style.parting, float(style.tied)]
    _grow(
        path,
        direction.astype(np.float32),
        comb,
        (length / (points - 1)).astype(np.float32),
        (style.lift * rng.uniform(0.3, 1.2, count)).astype(np.float32),
        fringed,
        rng.normal(0, 0.10 if style.length < 12 else 0.05, (count, points, 3)).astype(np.float32),
        rng.uniform((0, 0.8), (2 * np.pi, 1.6), (count, 2)).astype(np.float32),
        np.asarray(down, np.float32),
        np.array(settings, np.float32),
        skull.centre,
        skull.radius,
    )
    return path


@njit(cache=True, nogil=True, fastmath=True)
def _grow(
    path: Any,
    start: Any,
    comb: Any,
    step: Any,
    lift: Any,
    fringed: Any,
    wander: Any,
    wave: Any,
    down: Any,
    settings: Any,
    centre: Any,
    radius: Any,
) -> None:
    """Fill `path` (g, p, 3) from its first points, one step after the other."""
    gravity, curl, parting, tied = settings[0], settings[1], settings[2], settings[3] > 0
    points = path.shape[1]
    rings, sectors = radius.shape
    direction = np.zeros(3, np.float32)
    flow = np.zeros(3, np.float32)
    outward = np.zeros(3, np.float32)
    for g in range(path.shape[0]):
        for i in range(3):
            direction[i], flow[i] = start[g, i], comb[g, i]
        for p in range(1, points):
            travelled = p / (points - 1)
            pull = gravity * (0.4 + 2.5 * travelled) * (1.6 if fringed[g] else 1.0)
            turn = wave[g, 0] + wave[g, 1] * p * 2
            for i in range(3):
                direction[i] = (
                    0.75 * direction[i] + 0.3 * flow[i] + pull * down[i] + wander[g, p, i]
                )
            direction[0] += 0.5 * curl * np.cos(turn)
            direction[1] += 0.5 * curl * np.sin(2 * wave[g, 0] + p)
            direction[2] += 0.5 * curl * np.sin(turn)
            x, y, z = path[g, p - 1, 0], path[g, p - 1, 1], path[g, p - 1, 2]
            if not tied and not fringed[g] and z > 5.2 and y < 10.5:
                # hair that is not a fringe keeps off the face: it slides to its side
                direction[0] += 0.5 if x > parting else -0.5
                direction[2] -= 0.2
            length = np.sqrt(direction[0] ** 2 + direction[1] ** 2 + direction[2] ** 2) + 1e-6
            distance = 1e-6
            for i in range(3):
                direction[i] /= length
                path[g, p, i] = path[g, p - 1, i] + step[g] * direction[i]
                outward[i] = path[g, p, i] - centre[i]
                distance += outward[i] ** 2
            distance = np.sqrt(distance)
            for i in range(3):
                outward[i] /= distance
            ring = min(max(int((1 - outward[1]) / 2 * rings), 0), rings - 1)
            angle = np.arctan2(outward[0], outward[2])
            least = radius[ring, int((angle / (2 * np.pi) + 0.5) * sectors) % sectors] + lift[g]
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
                    flow[i] = _KNOT[i] - path[g, p, i]
                    length += flow[i] ** 2
                for i in range(3):
                    flow[i] /= np.sqrt(length)


def some_roots(roots: Any, count: int, rng: np.random.Generator) -> Any:
    """`count` of the roots: a window, for they are stored in random order."""
    start = rng.integers(0, max(len(roots) - count, 0) + 1)
    return roots[start : start + count]


def tuft(
    guides: Any, colour: Any, style: Style, followers: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Followers around each guide: (g * followers, p, 3) points and colours."""
    count, points = guides.shape[:2]
    offset = rng.normal(0, 0.34, (count, followers, 1, 3)).astype(np.float32)
    ends = 1.1 if style.length < 8 else 0.75  # long hair gathers into locks
    spread = np.linspace(1.0, ends, points, dtype=np.float32)
    amount = count * followers * points * 3
    start = rng.integers(0, len(_frizz()) - amount)
    frizz = _frizz()[start : start + amount].reshape(count, followers, points, 3).copy()
    frizz *= (0.03 + 0.05 * style.curl) * np.linspace(0, 1, points, dtype=np.float32)[:, None]
    strands = guides[:, None] + offset * spread[:, None] + frizz
    shade = np.exp(rng.normal(0, 0.28, (count, followers, 1, 1))).astype(np.float32)
    colours = colour[:, None] * shade
    return strands.reshape(-1, points, 3), colours.reshape(-1, points, 3)


@cache
def _frizz() -> Floats:
    """Normal numbers to cut from: a head of hair needs a quarter of a million."""
    return np.random.default_rng(2).standard_normal(1 << 20, dtype=np.float32)


def light_strands(points: Any, centre: Any, albedo: Any, lights: Lights) -> Floats:
    """(s, p, 3) colours of strands: diffuse and two highlights that run along the hair.

    The hair of a head is lit as a volume: what faces away from a lamp (seen from `centre`)
    lies in the shadow of the rest, and roots lie deeper than tips.
    """
    colour: Floats = np.empty(points.shape, np.float32)
    strand_light(
        points,
        np.asarray(centre, np.float32),
        np.asarray(albedo, np.float32),
        lights.direction,
        lights.colour,
        lights.ambient,
        colour,
    )
    return colour


def bristles(
    head: Head,
    region: str,
    chosen: Any,
    vertices: Any,
    normals: Any,
    lean: Any,
    length: Any,
    rise: float,
) -> Floats:
    """Short curved hairs (m, 4, 3), head coordinates: out of the skin by `rise`, along `lean`."""
    roots = head.roots[region]
    place = roots.at(vertices, chosen)
    normal = roots.at(normals, chosen)
    t = np.linspace(0, 1, 4, dtype=np.float32)[None, :, None]
    size = np.asarray(length, np.float32).reshape(-1, 1, 1)
    path = place[:, None] + normal[:, None] * (0.03 + rise * size * t * (1 - 0.5 * t))
    return np.asarray(path + np.asarray(lean)[:, None] * size * t, np.float32)


def _combing(style: Style, place: Any, fringed: Any) -> Any:
    """(m, 3) direction in which the hair at each root is combed."""
    top = np.clip((place[:, 1] - 8.0) / 4.0, 0, 1)[:, None]
    from_parting = np.sign(place[:, 0] - style.parting)[:, None] * np.array([[1.0, -0.2, 0.0]])
    above = style.comb if style.length < 10 or style.tied else from_parting + 0.3 * style.comb
    if style.tied:
        below = np.array(_KNOT) - place
        below /= np.linalg.norm(below, axis=1, keepdims=True)
    else:
        below = np.array([[0.0, -1.0, style.sides]])
    comb = top * above + (1 - top) * below
    forward = np.stack([0.25 * place[:, 0] / 5, np.full(len(place), -0.5), np.ones(len(place))], 1)
    comb = np.where(fringed[:, None], forward, comb)
    return np.asarray(comb / (np.linalg.norm(comb, axis=1, keepdims=True) + 1e-6), np.float32)


@dataclass(frozen=True, eq=False)
class Skull:
    """How far the surface of a head lies from its middle, in every direction."""

    centre: Floats
    radius: Floats
    """(_RINGS, _SECTORS)"""

    @classmethod
    def around(cls, head: Head, vertices: Any) -> Skull:
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


def _cell(outward: Any) -> tuple[Any, Any]:
    ring = ((1 - outward[:, 1]) / 2 * _RINGS).astype(int).clip(0, _RINGS - 1)
    angle = np.arctan2(outward[:, 0], outward[:, 2])
    sector = ((angle / (2 * np.pi) + 0.5) * _SECTORS).astype(int) % _SECTORS
    return ring, sector


def sort_by_direction(head: Head) -> tuple[Any, Any, Any, Any]:
    """Where each cell's vertices begin, the cells, the sorted vertices, the skull's middle."""
    centre = np.array([0, head.neutral[head.landmarks[27]][1], 0.5], np.float32)
    chin = head.neutral[head.landmarks[8], 1]
    skin = np.unique(head.triangles[head.part == Part.SKIN])
    skin = skin[head.neutral[skin, 1] > chin - 1]
    outward = head.neutral[skin] - centre
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    ring, sector = _cell(outward)
    cell = ring * _SECTORS + sector
    order = np.argsort(cell, kind="stable")
    cells, first = np.unique(cell[order], return_index=True)
    return first, cells, skin[order], centre
