"""All hair of an image: which strands there are, and which of them can hide a landmark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from luvli.synthetic.arrays import Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.people.hair import bristles, grow_scalp, some_roots, tuft
from luvli.synthetic.people.person import Person
from luvli.synthetic.raster.lights import light_strands
from luvli.synthetic.raster.materials import BROW_COLOUR, PHOTO
from luvli.synthetic.scene.stage import Posed, Scene, Turn

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


class FaceHair(NamedTuple):
    """Brows, lashes or a beard in head coordinates, not yet lit."""

    region: str
    points: Singles
    """(s, 4, 3)"""
    albedo: Singles
    """(3,) linear RGB"""
    width: float
    """centimetres"""


def all_hair(
    scene: Scene, turn: Turn, rng: np.random.Generator
) -> tuple[list[Strands], list[Strands]]:
    """Strands that hide nothing (brows, lashes, stubble), and those that do, camera coordinates."""
    head, person, posed = scene.head, scene.person, scene.posed
    lights, style = scene.shot.lights, person.style
    skull_middle = turn(np.array([[0, head.neutral[head.landmarks[27], 1], 0.5]], np.float32))[0]
    own: list[Strands] = []
    scalp: list[Strands] = []
    for region, points, albedo, width in _face_hair(head, person, posed, rng):
        seen = turn(points).astype(np.float32)
        lit = light_strands(seen, skull_middle, albedo, lights)
        if region == "lashes":
            lit = np.minimum(lit, 0.02)
        shade_of_hair = np.exp(rng.normal(0, 0.2, (len(seen), 1, 1))).astype(np.float32)
        strands = Strands(seen, lit * shade_of_hair, np.full(len(seen), width, np.float32))
        # a full beard hides the chin as hair hides the ears; stubble hides nothing
        (scalp if region == "beard" and style.beard > _FULL_BEARD else own).append(strands)
    down = np.linalg.inv(scene.shot.pose.matrix) @ (scene.shot.body.matrix @ np.array([0, -1.0, 0]))
    if scene.worn.hat and style.length < 6:
        return own, scalp
    guides = grow_scalp(head, posed.own, posed.own_normals, style, down.astype(np.float32), rng)
    if scene.worn.hat:  # a hat holds everything that lies under it
        brow = head.neutral[head.landmarks[19], 1]
        guides = guides[(guides[:, 0, 1] < brow + 3)]
    seen = turn(guides).astype(np.float32)
    if len(seen):
        # what grows behind the skull is hidden by it, unless it is long; half of it will do
        behind = seen[:, 0, 2] - skull_middle[2] < -2.5
        spare = rng.random(len(seen)) < (0.5 if style.length > 10 else 1.0)
        seen = seen[~(behind & spare)]
    if len(seen):
        lit = light_strands(seen, skull_middle, style.colour, lights)
        # a dark ground of broad strands, so that no skin shows between the fine ones
        ground = seen[::2] + 0.03 * (skull_middle - seen[::2])
        broad = np.where(ground[:, 0, 2] - skull_middle[2] > 6.5, 0.3, 0.75).astype(np.float32)
        scalp.append(Strands(ground, np.float32(0.6) * lit[::2], broad))
        followers = 10 if style.length < 12 else 8
        points, colour = tuft(seen, lit, style, followers, rng)
        scalp.append(
            Strands(points, colour, rng.uniform(0.05, 0.2, len(points)).astype(np.float32))
        )
    return own, scalp


def _face_hair(
    head: Head, person: Person, posed: Posed, rng: np.random.Generator
) -> Iterator[FaceHair]:
    """Whatever hair the face itself has."""
    if person.skin.numbers[PHOTO] == 0:  # a photograph has brows
        yield from _brows(head, person, posed, rng)
    yield _lashes(head, person, posed, rng)
    if person.style.beard > 0.15:
        yield _beard(head, person, posed, rng)


def _brows(
    head: Head, person: Person, posed: Posed, rng: np.random.Generator
) -> Iterator[FaceHair]:
    count = len(head.roots["brows"].strength)
    if count == 0:
        return
    chosen = some_roots(np.arange(count), int(count * rng.uniform(0.3, 0.7)), rng)
    place = head.roots["brows"].place[chosen]
    rise = np.clip(1.2 - 0.25 * np.abs(place[:, 0]), -0.25, 1.0)  # upright at the nose
    lean = np.stack([np.sign(place[:, 0]) * 0.9, rise, np.full(len(chosen), -0.25)], axis=1)
    lean += rng.normal(0, 0.12, lean.shape)
    length = rng.uniform(0.3, 0.65, len(chosen))
    points = bristles(head, "brows", chosen, posed.own, posed.own_normals, lean, length, 0.12)
    yield FaceHair("brows", points, person.skin.palette[BROW_COLOUR], 0.045)


def _lashes(head: Head, person: Person, posed: Posed, rng: np.random.Generator) -> FaceHair:
    roots = head.roots["lashes"]
    chosen = np.arange(len(roots.strength))
    upward = np.where(roots.strength > 0.9, 0.5, -0.5)
    lean = np.stack([0.25 * np.sign(roots.place[:, 0]), upward, np.full(len(chosen), 0.75)], 1)
    lean += rng.normal(0, 0.08, lean.shape)
    length = person.lashes * roots.strength
    points = bristles(head, "lashes", chosen, posed.own, posed.own_normals, lean, length, 0.3)
    return FaceHair("lashes", points, np.array([0.01, 0.008, 0.008], np.float32), 0.03)


def _beard(head: Head, person: Person, posed: Posed, rng: np.random.Generator) -> FaceHair:
    style, roots = person.style, head.roots["beard"]
    chosen = np.flatnonzero(roots.strength > rng.uniform(0.3, 0.7))
    if style.moustache_only:
        lip, nose = head.neutral[head.landmarks[51]], head.neutral[head.landmarks[33]]
        near = roots.place[chosen]
        above_lip = (near[:, 1] > lip[1] - 0.6) & (near[:, 1] < nose[1]) & (abs(near[:, 0]) < 3)
        chosen = chosen[above_lip]
    chosen = some_roots(chosen, int(1200 + 1200 * min(style.beard, 2)), rng)
    across = 0.12 * roots.place[chosen, 0]
    lean = np.stack([across, np.full(len(chosen), -1.0), np.full(len(chosen), 0.15)], 1)
    lean += rng.normal(0, 0.25, lean.shape)
    length = style.beard * rng.uniform(0.6, 1.1, len(chosen)) * roots.strength[chosen]
    points = bristles(head, "beard", chosen, posed.own, posed.own_normals, lean, length, 0.35)
    return FaceHair("beard", points, style.colour * np.float32(0.9), 0.05)
