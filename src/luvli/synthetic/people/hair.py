"""Hair as strands: a few hundred guides grow over the skull, each with a tuft of followers.

Scalp hair, brows and beards are all strands rooted in the skin. They grow in the frame
of the head, follow the way they are combed, gravity and their own curl, and are pushed out of
the skull where they would enter it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Bools, Index, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.people.person import Style

_GUIDES = 460
_KNOT = (0.0, 4.0, -9.0)
"""where tied hair comes together, head coordinates"""


def grow_scalp(
    head: Head,
    vertices: Singles,
    normals: Singles,
    style: Style,
    down: Singles,
    rng: np.random.Generator,
) -> Singles:
    """Guide polylines (g, p, 3) in head coordinates; `down` (3,) is where gravity points."""
    roots = head.roots["scalp"]
    chosen = np.flatnonzero(roots.strength > style.hairline)
    if style.length <= 0 or not len(chosen):
        return np.zeros((0, 2, 3), np.float32)
    chosen = some_roots(chosen, _GUIDES, rng)
    normal = roots.at(normals, chosen)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-6
    count, place = len(chosen), roots.place[chosen]
    points = int(np.clip(3 + style.length * 0.55, 5, 17))
    length = style.length * rng.uniform(0.75, 1.1, count)
    if style.length < 12 and not style.tied:
        length *= np.clip((place[:, 1] - 4.0) / 7.0, 0.25, 1.0)  # sides and nape are cut shorter
    front = (roots.strength[chosen] < style.hairline + 2.2) & (place[:, 2] > 3.0)
    fringed = front & (style.fringe > 0)
    length = np.where(fringed, style.fringe * rng.uniform(0.8, 1.15, count), length)
    comb = _combing(style, place, fringed)
    # combed hair leaves the skin at a slant; curly hair stands up
    direction = normal * (0.55 + 0.6 * style.curl) + comb * 0.8
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    lift = style.lift * rng.uniform(0.3, 1.2, count)
    wander = rng.normal(0, 0.10 if style.length < 12 else 0.05, (count, points, 3))
    phase, frequency = rng.uniform((0, 0.8), (2 * np.pi, 1.6), (count, 2)).T[:, :, None]
    step = np.arange(points)
    turn = phase + 2 * frequency * step
    curl = np.stack([np.cos(turn), np.sin(2 * phase + step), np.sin(turn)], axis=-1)
    heavy = np.where(fringed, 1.6, 1.0)[:, None] * (0.4 + 2.5 * step / (points - 1))
    push = wander + 0.5 * style.curl * curl + style.gravity * heavy[..., None] * down
    path: Singles = np.empty((count, points, 3), np.float32)
    path[:, 0] = roots.at(vertices, chosen)
    _grow(
        path,
        direction.astype(np.float32),
        comb,
        push.astype(np.float32),
        (length / (points - 1)).astype(np.float32),
        lift.astype(np.float32),
        ~fringed & (not style.tied),
        np.float32(0.3 * style.parting),
        style.tied,
        *head.skull(vertices),
    )
    return path


@njit(cache=True, nogil=True, fastmath=True)
def _grow(
    path: Singles,
    direction: Singles,
    flow: Singles,
    push: Singles,
    step: Singles,
    lift: Singles,
    slides: Bools,
    parting: np.float32,
    tied: bool,
    centre: Singles,
    radius: Singles,
) -> None:
    """Fill `path` (g, p, 3) from its first points, one step of `step` (g,) centimetres at a time.

    A hair leaves the skin in `direction` (g, 3), is drawn along `flow` (g, 3) and moved by `push`
    (g, p, 3); it stays `lift` (g,) off the skull, which is `radius` (rings, sectors) around
    `centre` (3,). Those that `slides` (g,) names keep off the face, on their side of the `parting`.
    """
    rings, sectors = radius.shape
    outward = np.zeros(3, np.float32)
    for g in range(path.shape[0]):
        for p in range(1, path.shape[1]):
            for i in range(3):
                direction[g, i] = 0.75 * direction[g, i] + 0.3 * flow[g, i] + push[g, p, i]
            if slides[g] and path[g, p - 1, 2] > 5.2 and path[g, p - 1, 1] < 10.5:
                direction[g, 0] += 0.5 if path[g, p - 1, 0] > parting else -0.5
                direction[g, 2] -= 0.2
            x, y, z = direction[g, 0], direction[g, 1], direction[g, 2]
            length = np.sqrt(x * x + y * y + z * z) + 1e-6
            distance = 1e-6
            for i in range(3):
                direction[g, i] /= length
                path[g, p, i] = path[g, p - 1, i] + step[g] * direction[g, i]
                outward[i] = path[g, p, i] - centre[i]
                distance += outward[i] ** 2
            distance = np.sqrt(distance)
            for i in range(3):
                outward[i] /= distance
            ring = min(max(int((1 - outward[1]) / 2 * rings), 0), rings - 1)
            angle = np.arctan2(outward[0], outward[2])
            sector = int((angle / (2 * np.pi) + 0.5) * sectors) % sectors
            least = radius[ring, sector] + lift[g]
            if distance < least:  # inside the skull: out again, and no farther inwards
                inward = 0.0
                for i in range(3):
                    path[g, p, i] = centre[i] + outward[i] * least
                    inward += direction[g, i] * outward[i]
                for i in range(3):
                    direction[g, i] -= min(inward, 0.0) * outward[i]
            if tied:
                squared = 1e-6
                for i in range(3):
                    flow[g, i] = _KNOT[i] - path[g, p, i]
                    squared += flow[g, i] ** 2
                for i in range(3):
                    flow[g, i] /= np.sqrt(squared)


def some_roots(roots: Index, count: int, rng: np.random.Generator) -> Index:
    """`count` of the roots: a window, for they are stored in random order."""
    start = rng.integers(0, max(len(roots) - count, 0) + 1)
    return roots[start : start + count]


def tuft(
    guides: Singles, colour: Singles, style: Style, followers: int, rng: np.random.Generator
) -> tuple[Singles, Singles]:
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
def _frizz() -> Singles:
    """Normal numbers to cut from: a head of hair needs a quarter of a million."""
    return np.random.default_rng(2).standard_normal(1 << 20, dtype=np.float32)


def _combing(style: Style, place: Singles, fringed: Bools) -> Singles:
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
