"""All hair of a picture: which strands there are, and which of them can hide a landmark."""

from __future__ import annotations

from typing import Any

import numpy as np

from luvli.synthetic import shade
from luvli.synthetic.hair import bristles, grow_scalp, light_strands, some_roots, tuft
from luvli.synthetic.head import Head
from luvli.synthetic.person import Person
from luvli.synthetic.stage import Posed, Shot, Turn, Worn

FULL_BEARD = 1.0
"""centimetres from which a beard hides what lies under it"""


def all_hair(
    head: Head,
    person: Person,
    posed: Posed,
    shot: Shot,
    worn: Worn,
    turn: Turn,
    rng: np.random.Generator,
) -> tuple[list[Any], list[Any]]:
    """Strands that hide nothing (brows, lashes, stubble), and those that do, camera coordinates."""
    style = person.style
    skull_middle = turn(np.array([[0, head.neutral[head.landmarks[27], 1], 0.5]], np.float32))[0]
    own: list[Any] = []
    scalp: list[Any] = []
    for region, points, albedo, width in _face_hair(head, person, posed, rng):
        seen = turn(points).astype(np.float32)
        lit = light_strands(seen, skull_middle, albedo, shot.lights)
        if region == "lashes":
            lit = np.minimum(lit, 0.02)
        shade_of_hair = np.exp(rng.normal(0, 0.2, (len(seen), 1, 1))).astype(np.float32)
        strands = (seen, lit * shade_of_hair, np.full(len(seen), width, np.float32))
        # a full beard hides the chin as hair hides the ears; stubble hides nothing
        (scalp if region == "beard" and style.beard > FULL_BEARD else own).append(strands)
    down = np.linalg.inv(shot.pose.matrix) @ (shot.body.matrix @ np.array([0, -1.0, 0]))
    if worn.hat and style.length < 6:
        return own, scalp
    guides = grow_scalp(head, posed.own, posed.own_normals, style, down.astype(np.float32), rng)
    if worn.hat:  # a hat holds everything that lies under it
        brow = head.neutral[head.landmarks[19], 1]
        guides = guides[(guides[:, 0, 1] < brow + 3)]
    seen = turn(guides).astype(np.float32)
    if len(seen):
        # what grows behind the skull is hidden by it, unless it is long; half of it will do
        behind = seen[:, 0, 2] - skull_middle[2] < -2.5
        spare = rng.random(len(seen)) < (0.5 if style.length > 10 else 1.0)
        seen = seen[~(behind & spare)]
    if len(seen):
        lit = light_strands(seen, skull_middle, style.colour, shot.lights)
        # a dark ground of broad strands, so that no skin shows between the fine ones
        ground = seen[::2] + 0.03 * (skull_middle - seen[::2])
        broad = np.where(ground[:, 0, 2] - skull_middle[2] > 6.5, 0.3, 0.75).astype(np.float32)
        scalp.append((ground, 0.6 * lit[::2], broad))
        followers = 10 if style.length < 12 else 8
        points, colour = tuft(seen, lit, style, followers, rng)
        width = rng.uniform(0.05, 0.2, len(points)).astype(np.float32)
        scalp.append((points, colour, width))
    return own, scalp


def _face_hair(head: Head, person: Person, posed: Posed, rng: np.random.Generator) -> Any:
    """Brows, lashes and beard in head coordinates: (region, points, albedo, width in cm)."""
    style = person.style
    brows = head.roots["brows"]
    count = len(brows.strength)
    if count and person.skin.numbers[shade.PHOTO] == 0:  # a photograph has brows
        chosen = some_roots(np.arange(count), int(count * rng.uniform(0.3, 0.7)), rng)
        place = brows.place[chosen]
        middle = np.abs(place[:, 0])
        rise = np.clip(1.2 - 0.25 * middle, -0.25, 1.0)  # upright at the nose, flat outside
        lean = np.stack([np.sign(place[:, 0]) * 0.9, rise, np.full(len(chosen), -0.25)], axis=1)
        lean += rng.normal(0, 0.12, lean.shape)
        length = rng.uniform(0.3, 0.65, len(chosen))
        points = bristles(head, "brows", chosen, posed.own, posed.own_normals, lean, length, 0.12)
        yield "brows", points, person.skin.palette[shade.BROW_COLOUR], 0.045
    lashes = head.roots["lashes"]
    chosen = np.arange(len(lashes.strength))
    upward = np.where(lashes.strength > 0.9, 0.5, -0.5)
    lean = np.stack([0.25 * np.sign(lashes.place[:, 0]), upward, np.full(len(chosen), 0.75)], 1)
    lean += rng.normal(0, 0.08, lean.shape)
    long = person.lashes * lashes.strength
    points = bristles(head, "lashes", chosen, posed.own, posed.own_normals, lean, long, 0.3)
    yield "lashes", points, np.array([0.01, 0.008, 0.008], np.float32), 0.03
    if style.beard > 0.15:
        beard = head.roots["beard"]
        chosen = np.flatnonzero(beard.strength > rng.uniform(0.3, 0.7))
        if style.moustache_only:
            lip, nose = head.neutral[head.landmarks[51]], head.neutral[head.landmarks[33]]
            near = beard.place[chosen]
            chosen = chosen[
                (near[:, 1] > lip[1] - 0.6) & (near[:, 1] < nose[1]) & (abs(near[:, 0]) < 3)
            ]
        chosen = some_roots(chosen, int(1200 + 1200 * min(style.beard, 2)), rng)
        place = beard.place[chosen]
        lean = np.stack(
            [0.12 * place[:, 0], np.full(len(chosen), -1.0), np.full(len(chosen), 0.15)], 1
        )
        lean += rng.normal(0, 0.25, lean.shape)
        length = style.beard * rng.uniform(0.6, 1.1, len(chosen)) * beard.strength[chosen]
        points = bristles(head, "beard", chosen, posed.own, posed.own_normals, lean, length, 0.35)
        yield "beard", points, style.colour * np.float32(0.9), 0.05
