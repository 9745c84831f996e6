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
from numpy.typing import NDArray

from luvli.data.synthetic.head import Head, Part
from luvli.data.synthetic.light import Lights

Floats = NDArray[np.float32]

_RINGS, _SECTORS = 24, 48
_ALBEDO = {  # linear RGB of hair
    "black": (0.014, 0.011, 0.010),
    "dark brown": (0.034, 0.020, 0.012),
    "brown": (0.085, 0.048, 0.026),
    "fair": (0.21, 0.135, 0.065),
    "blond": (0.42, 0.30, 0.16),
    "red": (0.18, 0.058, 0.022),
    "grey": (0.22, 0.21, 0.20),
    "white": (0.55, 0.53, 0.50),
    "dyed": (0.15, 0.03, 0.10),
}


@dataclass(frozen=True, eq=False)
class Style:
    """How one person's hair is cut and combed. Lengths in centimetres."""

    colour: Floats
    """(3,) linear RGB"""
    length: float
    """0: bald"""
    lift: float
    """how far the hair stands off the skull"""
    comb: Floats
    """(3,) the direction in which the top is combed, head coordinates"""
    parting: float
    """x of the parting, centimetres"""
    gravity: float
    curl: float
    fringe: float
    """length of hair that falls over the forehead; 0: none"""
    hairline: float
    """centimetres by which the hairline has receded (negative: it comes forward)"""
    tied: bool
    """drawn to the back of the head"""
    beard: float
    """length of the beard; 0: shaved"""
    moustache_only: bool


@dataclass(frozen=True, eq=False)
class Strands:
    """s polylines of p points: camera coordinates, colours, widths."""

    points: Floats
    """(s, p, 3) camera coordinates, centimetres"""
    colour: Floats
    """(s, p, 3) linear RGB, lit"""
    width: Floats
    """(s,) centimetres"""


def random_style(rng: np.random.Generator) -> Style:
    """A haircut; long and short ones about as often as in photographs of the press."""
    names = list(_ALBEDO)
    chance = np.array([0.26, 0.24, 0.17, 0.10, 0.09, 0.04, 0.06, 0.03, 0.01])
    colour = np.array(_ALBEDO[names[rng.choice(len(names), p=chance)]])
    colour = colour * np.exp(rng.normal(0, 0.22)) * np.exp(rng.normal(0, 0.03, 3))
    kind = rng.choice(
        ["bald", "buzz", "short", "swept", "medium", "long", "tied", "curly"],
        p=[0.05, 0.09, 0.22, 0.14, 0.14, 0.20, 0.08, 0.08],
    )
    side = rng.choice([-1, 1])
    comb = {"swept": (0.5 * side, 0.2, -1.0), "tied": (0.0, 0.1, -1.0)}.get(
        str(kind), (rng.normal(0.6 * side, 0.4), 0.0, rng.normal(0.3, 0.7))
    )
    length = {
        "bald": 0.0,
        "buzz": rng.uniform(0.3, 1.0),
        "short": rng.uniform(1.5, 5.0),
        "swept": rng.uniform(4.0, 9.0),
        "medium": rng.uniform(10.0, 20.0),
        "long": rng.uniform(22.0, 42.0),
        "tied": rng.uniform(12.0, 18.0),
        "curly": rng.uniform(3.0, 11.0),
    }[str(kind)]
    wants_fringe = kind in ("medium", "long", "short", "tied") and rng.random() < 0.35
    bearded = kind not in ("long", "tied") and rng.random() < 0.30
    return Style(
        colour=colour.astype(np.float32),
        length=float(length),
        lift=float(rng.uniform(0.15, 0.5) + (kind in ("medium", "long")) * rng.uniform(0.2, 1.0)),
        comb=np.array(comb, np.float32),
        parting=float(np.clip(rng.normal(0, 1.8), -4, 4)),
        gravity=float(
            {"buzz": 0.0, "short": 0.12, "swept": 0.08, "curly": 0.03, "tied": 0.0}.get(
                str(kind), rng.uniform(0.45, 0.8)
            )
        ),
        curl=float(rng.uniform(0.9, 1.5) if kind == "curly" else rng.gamma(1.2, 0.12)),
        fringe=float(rng.uniform(4.0, 9.0)) if wants_fringe else 0.0,
        hairline=float(np.clip(rng.normal(0, 0.5), -0.8, 1.2))
        + (
            rng.uniform(1.0, 4.0) if kind in ("bald", "buzz", "short") and rng.random() < 0.2 else 0
        ),
        tied=kind == "tied",
        beard=float(rng.gamma(1.3, 0.7)) if bearded else 0.0,
        moustache_only=bool(rng.random() < 0.15),
    )


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
    chosen = chosen[rng.permutation(len(chosen))[:guides]]
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
    skull = Skull.around(head, vertices)
    comb = _combing(style, roots.place[chosen], fringed)
    # combed hair leaves the skin at a slant; curly hair stands up
    direction = normal * (0.55 + 0.6 * style.curl) + comb * 0.8
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    lift = (style.lift * rng.uniform(0.3, 1.2, count)).astype(np.float32)
    path = np.empty((count, points, 3), np.float32)
    path[:, 0] = place
    phase = rng.uniform(0, 2 * np.pi, (count, 1))
    pitch = rng.uniform(0.8, 1.6, (count, 1))
    step = (length / (points - 1))[:, None]
    flow = comb
    for p in range(1, points):
        travelled = p / (points - 1)
        pull = style.gravity * (0.4 + 2.5 * travelled) * np.where(fringed, 1.6, 1.0)[:, None]
        wander = rng.normal(0, 1, (count, 3)) * (0.10 if style.length < 12 else 0.05)
        twist = style.curl * np.concatenate(
            [np.cos(phase + pitch * p * 2), np.sin(phase * 2 + p), np.sin(phase + pitch * p * 2)], 1
        )
        direction = 0.75 * direction + 0.3 * flow + pull * down + wander + 0.5 * twist
        if not style.tied:
            # hair that is not a fringe keeps off the face: it slides to its side
            now = path[:, p - 1]
            before_face = (now[:, 2] > 3.5) & (now[:, 1] < 10.5) & ~fringed
            away = np.sign(now[:, 0] - 0.3 * style.parting)
            direction[:, 0] += before_face * away * 0.5
            direction[:, 2] -= before_face * 0.35
        direction /= np.linalg.norm(direction, axis=1, keepdims=True) + 1e-6
        path[:, p], direction = skull.keep_out(path[:, p - 1] + step * direction, direction, lift)
        if style.tied:
            flow = np.array((0.0, 4.0, -9.0), np.float32) - path[:, p]
            flow /= np.linalg.norm(flow, axis=1, keepdims=True) + 1e-6
    return path


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
    lies in the shadow of the rest.
    """
    tangent = np.empty_like(points)
    tangent[:, :-1] = points[:, 1:] - points[:, :-1]
    tangent[:, -1] = tangent[:, -2]
    tangent /= np.linalg.norm(tangent, axis=-1, keepdims=True) + 1e-6
    outward = points - centre
    outward /= np.linalg.norm(outward, axis=-1, keepdims=True) + 1e-6
    count = points.shape[1]
    deep = np.linspace(0.35, 1.0, count, dtype=np.float32)[:, None]
    sky = lights.ambient[0] + outward @ lights.ambient[1:]
    colour = albedo * np.maximum(sky, 0) * deep
    view = np.array([0, 0, 1], np.float32)
    for direction, strength in zip(lights.direction, lights.colour, strict=True):
        facing = np.clip((outward @ direction)[..., None] * 0.8 + 0.35, 0, 1)
        across = np.sqrt(np.clip(1 - (tangent @ direction) ** 2, 0, 1))[..., None]
        half = direction + view
        half = half / np.linalg.norm(half)
        along = np.clip(1 - (tangent @ half) ** 2, 0, 1)[..., None]
        highlight = 0.05 * along**40 + 0.9 * albedo * along**12
        colour = colour + strength * facing * deep * (0.8 * albedo * across + highlight)
    return np.asarray(colour, np.float32)


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
        below = np.array((0.0, 4.0, -9.0)) - place
        below /= np.linalg.norm(below, axis=1, keepdims=True)
    else:
        below = np.array([[0.0, -1.0, -0.25]])
    comb = top * above + (1 - top) * below
    forward = np.stack([0.25 * place[:, 0] / 5, np.full(len(place), -0.5), np.ones(len(place))], 1)
    comb = np.where(fringed[:, None], forward, comb)
    return (comb / (np.linalg.norm(comb, axis=1, keepdims=True) + 1e-6)).astype(np.float32)


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
        distance = np.linalg.norm(vertices[order] - centre, axis=1)
        radius[cells] = np.maximum.reduceat(distance, first)
        grid = radius.reshape(_RINGS, _SECTORS)
        # an empty cell takes the largest of its neighbours
        around = np.max([np.roll(grid, k, axis=1) for k in (-2, -1, 1, 2)], axis=0)
        grid = np.where(grid == 0, around, grid)
        grid = np.where(grid == 0, np.median(grid[grid > 0]), grid)
        return cls(centre, grid)

    def keep_out(self, points: Any, direction: Any, lift: Any) -> tuple[Any, Any]:
        """Push points (m, 3) out of the skull to `lift` above it; take inward motion away."""
        offset = points - self.centre
        distance = np.linalg.norm(offset, axis=1) + 1e-6
        outward = offset / distance[:, None]
        ring, sector = _cell(outward)
        least = self.radius[ring, sector] + lift
        inside = distance < least
        points = np.where(inside[:, None], self.centre + outward * least[:, None], points)
        inward = np.minimum((direction * outward).sum(axis=1), 0)
        direction = direction - np.where(inside, inward, 0)[:, None] * outward
        return points.astype(np.float32), direction


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
