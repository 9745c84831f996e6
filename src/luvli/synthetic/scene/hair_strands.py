"""All hair of an image: which strands there are, and which of them can hide a landmark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Doubles, Index, Ints, Real, Singles
from luvli.synthetic.heads.scalp import HairRoots
from luvli.synthetic.people.hair import grow_scalp, some_roots, tuft
from luvli.synthetic.raster.materials import BROW_COLOUR, PHOTO, Lights
from luvli.synthetic.scene.stage import Scene

_FULL_BEARD = 1.0
"""centimetres from which a beard hides what lies under it"""


class Strands(NamedTuple):
    """Hairs of one kind in camera coordinates."""

    points: Singles
    """(s, p, 3)"""
    colour: Singles
    """(s, p, 3) linear RGB, lit"""
    width: Singles
    """(s,) centimetres"""


def all_hair(scene: Scene, rng: np.random.Generator) -> tuple[list[Strands], list[Strands]]:
    """Strands that hide nothing (brows, stubble), and those that do, camera coordinates."""
    head, style = scene.head, scene.person.style
    middle = np.array([0, head.neutral[head.landmarks[27], 1], 0.5], np.float32)
    skull_middle = scene.to_camera(middle)
    own: list[Strands] = []
    scalp: list[Strands] = []
    for region, points, albedo, width in _face_hair(scene, rng):
        seen = scene.to_camera(points)
        lit = light_strands(seen, skull_middle, albedo, scene.lights)
        lit *= np.exp(rng.normal(0, 0.2, (len(seen), 1, 1))).astype(np.float32)
        # a full beard hides the chin as hair hides the ears; stubble hides nothing
        kind = scalp if region == "beard" and style.beard > _FULL_BEARD else own
        kind.append(Strands(seen, lit, np.full(len(seen), width, np.float32)))
    if scene.worn.hat and style.length < 6:
        return own, scalp
    down = np.linalg.inv(scene.pose.matrix) @ (scene.body.matrix @ np.array([0, -1.0, 0]))
    posed = scene.posed
    guides = grow_scalp(head, posed.own, posed.own_normals, style, down.astype(np.float32), rng)
    if scene.worn.hat:  # a hat holds everything that lies under it
        guides = guides[guides[:, 0, 1] < head.neutral[head.landmarks[19], 1] + 3]
    if not len(guides):
        return own, scalp
    seen = scene.to_camera(guides)
    # what grows behind the skull is hidden by it, unless it is long; half of it will do
    behind = seen[:, 0, 2] - skull_middle[2] < -2.5
    seen = seen[~(behind & (rng.random(len(seen)) < (0.5 if style.length > 10 else 1.0)))]
    if len(seen):
        lit = light_strands(seen, skull_middle, style.colour, scene.lights)
        # a dark ground of broad strands, so that no skin shows between the fine ones
        ground = seen[::2] + 0.03 * (skull_middle - seen[::2])
        broad = np.where(ground[:, 0, 2] - skull_middle[2] > 6.5, 0.3, 0.75).astype(np.float32)
        scalp.append(Strands(ground, np.float32(0.6) * lit[::2], broad))
        points, colour = tuft(seen, lit, style, 10 if style.length < 12 else 8, rng)
        fine = rng.uniform(0.05, 0.2, len(points)).astype(np.float32)
        scalp.append(Strands(points, colour, fine))
    return own, scalp


def light_strands(points: Singles, centre: Real, albedo: Real, lights: Lights) -> Singles:
    """(s, p, 3) colours of strands: diffuse and two highlights that run along the hair.

    The hair of a head is lit as a volume: what faces away from a lamp (seen from `centre`)
    lies in the shadow of the rest, and roots lie deeper than tips.
    """
    steps = np.diff(points, axis=1)
    along = _unit(np.concatenate([steps, steps[:, -1:]], axis=1))
    outward = _unit(points - np.asarray(centre, np.float32))
    deep = np.linspace(0.35, 1.0, points.shape[1], dtype=np.float32)[:, None]
    sky = lights.ambient[0] + outward @ lights.ambient[1:]
    hue = np.asarray(albedo, np.float32)
    colour: Singles = hue * np.maximum(sky, 0) * deep
    for lamp, strength in zip(lights.direction, lights.colour, strict=True):
        if strength[1] == 0:
            continue
        facing = np.clip(0.8 * (outward @ lamp) + np.float32(0.35), 0, 1)[..., None] * deep
        across = np.sqrt(np.maximum(1 - (along @ lamp) ** 2, 0))[..., None]
        shine = np.maximum(1 - (along @ _unit(lamp + np.array([0, 0, 1]))) ** 2, 0)[..., None]
        broad = (shine**4) ** 3
        hair = hue * (np.float32(0.8) * across + np.float32(0.9) * broad)
        colour += strength * facing * (hair + np.float32(0.05) * broad**3)
    return colour


@njit(cache=True, nogil=True, fastmath=True)
def draw_strands(
    screen: Singles,
    colour: Singles,
    width: Singles,
    label: int,
    nearness: Singles,
    owner: Ints,
    painted: Singles,
) -> None:
    """Draw polylines: `screen` (n, m, 3) as for triangles, `colour` (n, m, 3), `width` (n,).

    A strand is `width` samples wide at its root and half of that at its tip. It is written as
    owner `label`; its colours go to `painted` (h, w, 3).
    """
    height, breadth = nearness.shape
    points = screen.shape[1]
    for s in range(screen.shape[0]):
        for p in range(points - 1):
            xa, ya, wa = screen[s, p, 0], screen[s, p, 1], screen[s, p, 2]
            xb, yb, wb = screen[s, p + 1, 0], screen[s, p + 1, 1], screen[s, p + 1, 2]
            if max(xa, xb) < -2 or max(ya, yb) < -2:
                continue
            if min(xa, xb) > breadth + 2 or min(ya, yb) > height + 2:
                continue
            steep = abs(yb - ya) > abs(xb - xa)
            count = int(max(abs(xb - xa), abs(yb - ya))) + 1
            share = np.float32(1) / np.float32(count)
            step_x, step_y, step_w = (xb - xa) * share, (yb - ya) * share, (wb - wa) * share
            taper = np.float32(1) - np.float32(0.5) * np.float32(p) / np.float32(points)
            wide = max(1, int(width[s] * taper + np.float32(0.5)))
            # half a sample more, so that cutting the fraction off rounds
            shift = np.float32(0.5) - np.float32(0.5) * np.float32(wide - 1)
            x0 = xa + (shift if steep else np.float32(0.5))
            y0 = ya + (np.float32(0.5) if steep else shift)
            near = wa
            for i in range(count):
                if x0 >= 0 and y0 >= 0:
                    x, y = int(x0), int(y0)
                    for _ in range(wide):
                        if x < breadth and y < height and near > nearness[y, x]:
                            nearness[y, x] = near
                            owner[y, x] = label
                            t = np.float32(i) * share
                            for channel in range(3):
                                ca = colour[s, p, channel]
                                painted[y, x, channel] = ca + t * (colour[s, p + 1, channel] - ca)
                        if steep:
                            x += 1
                        else:
                            y += 1
                x0 += step_x
                y0 += step_y
                near += step_w


def _unit(vectors: Real) -> Singles:
    length = np.sqrt(np.einsum("...i,...i->...", vectors, vectors))[..., None] + 1e-6
    return np.asarray(vectors / length, np.float32)


def _face_hair(
    scene: Scene, rng: np.random.Generator
) -> Iterator[tuple[str, Singles, Singles, float]]:
    """Hair of the face itself: region, points (s, 4, 3) in head coordinates, albedo, width."""
    roots, person = scene.head.roots, scene.person
    if person.skin.numbers[PHOTO] == 0 and len(roots["brows"].strength):  # a photograph has brows
        yield "brows", _brows(scene, rng), person.skin.palette[BROW_COLOUR], 0.045
    if person.style.beard > 0.15:
        yield "beard", _beard(scene, rng), person.style.colour * np.float32(0.9), 0.05


def _brows(scene: Scene, rng: np.random.Generator) -> Singles:
    roots = scene.head.roots["brows"]
    count = len(roots.strength)
    chosen = some_roots(np.arange(count), int(count * rng.uniform(0.3, 0.7)), rng)
    x = roots.place[chosen, 0]
    rise = np.clip(1.2 - 0.25 * np.abs(x), -0.25, 1.0)  # upright at the nose
    lean = np.stack([np.sign(x) * 0.9, rise, np.full(len(x), -0.25)], axis=1)
    lean += rng.normal(0, 0.12, lean.shape)
    return _bristles(scene, roots, chosen, lean, rng.uniform(0.3, 0.65, len(x)), 0.12)


def _beard(scene: Scene, rng: np.random.Generator) -> Singles:
    head, style, roots = scene.head, scene.person.style, scene.head.roots["beard"]
    chosen = np.flatnonzero(roots.strength > rng.uniform(0.3, 0.7))
    if style.moustache_only:
        lip, nose = head.neutral[head.landmarks[51]], head.neutral[head.landmarks[33]]
        x, y, _ = roots.place[chosen].T
        chosen = chosen[(y > lip[1] - 0.6) & (y < nose[1]) & (abs(x) < 3)]
    chosen = some_roots(chosen, int(1200 + 1200 * min(style.beard, 2)), rng)
    x = roots.place[chosen, 0]
    lean = np.stack([0.12 * x, np.full(len(x), -1.0), np.full(len(x), 0.15)], axis=1)
    lean += rng.normal(0, 0.25, lean.shape)
    length = style.beard * rng.uniform(0.6, 1.1, len(x)) * roots.strength[chosen]
    return _bristles(scene, roots, chosen, lean, length, 0.35)


def _bristles(
    scene: Scene, roots: HairRoots, chosen: Index, lean: Doubles, length: Real, rise: float
) -> Singles:
    """Short curved hairs (m, 4, 3), head coordinates: out of the skin by `rise`, along `lean`."""
    t = np.linspace(0, 1, 4, dtype=np.float32)[None, :, None]
    size = length.astype(np.float32)[:, None, None]
    normal = roots.at(scene.posed.own_normals, chosen)[:, None]
    path = roots.at(scene.posed.own, chosen)[:, None]
    out = normal * (0.03 + rise * size * t * (1 - 0.5 * t))
    return np.asarray(path + out + lean[:, None] * size * t, np.float32)
