"""Hair as strands: a few hundred guides grow over the skull, each with a tuft of followers.

Scalp hair, brows, lashes and beards are all strands rooted in the skin. They grow in the frame
of the head, follow the way they are combed, gravity and their own curl, and are pushed out of
the skull where they would enter it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from luvli.synthetic.arrays import Bools, Index, Real, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.skull import Skull
from luvli.synthetic.people.style import Style
from luvli.synthetic.raster.grow import KNOT, Guides, Pull, grow


def grow_scalp(
    head: Head,
    vertices: Singles,
    normals: Singles,
    style: Style,
    down: Singles,
    rng: np.random.Generator,
    guides: int = 460,
) -> Singles:
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
    path: Singles = np.empty((count, points, 3), np.float32)
    path[:, 0] = place
    jitter = 0.10 if style.length < 12 else 0.05
    lift = style.lift * rng.uniform(0.3, 1.2, count)
    hairs = Guides(
        direction=direction.astype(np.float32),
        comb=comb,
        step=(length / (points - 1)).astype(np.float32),
        lift=lift.astype(np.float32),
        fringed=fringed,
        wander=rng.normal(0, jitter, (count, points, 3)).astype(np.float32),
        wave=rng.uniform((0, 0.8), (2 * np.pi, 1.6), (count, 2)).astype(np.float32),
    )
    pull = Pull(
        down=np.asarray(down, np.float32),
        gravity=np.float32(style.gravity),
        curl=np.float32(style.curl),
        parting=np.float32(0.3 * style.parting),
        tied=style.tied,
    )
    grow(path, hairs, pull, skull.centre, skull.radius)
    return path


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


def bristles(
    head: Head,
    region: str,
    chosen: Index,
    vertices: Singles,
    normals: Singles,
    lean: Real,
    length: Real,
    rise: float,
) -> Singles:
    """Short curved hairs (m, 4, 3), head coordinates: out of the skin by `rise`, along `lean`."""
    roots = head.roots[region]
    place = roots.at(vertices, chosen)
    normal = roots.at(normals, chosen)
    t = np.linspace(0, 1, 4, dtype=np.float32)[None, :, None]
    size = np.asarray(length, np.float32).reshape(-1, 1, 1)
    path = place[:, None] + normal[:, None] * (0.03 + rise * size * t * (1 - 0.5 * t))
    return np.asarray(path + np.asarray(lean)[:, None] * size * t, np.float32)


def _combing(style: Style, place: Singles, fringed: Bools) -> Singles:
    """(m, 3) direction in which the hair at each root is combed."""
    top = np.clip((place[:, 1] - 8.0) / 4.0, 0, 1)[:, None]
    from_parting = np.sign(place[:, 0] - style.parting)[:, None] * np.array([[1.0, -0.2, 0.0]])
    above = style.comb if style.length < 10 or style.tied else from_parting + 0.3 * style.comb
    if style.tied:
        below = np.array(KNOT) - place
        below /= np.linalg.norm(below, axis=1, keepdims=True)
    else:
        below = np.array([[0.0, -1.0, style.sides]])
    comb = top * above + (1 - top) * below
    forward = np.stack([0.25 * place[:, 0] / 5, np.full(len(place), -0.5), np.ones(len(place))], 1)
    comb = np.where(fringed[:, None], forward, comb)
    return np.asarray(comb / (np.linalg.norm(comb, axis=1, keepdims=True) + 1e-6), np.float32)
