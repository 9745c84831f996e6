"""What comes before a face: hands, microphones, telephones, plain things.

Small meshes in head coordinates; a landmark behind one is externally occluded.
"""

from __future__ import annotations

import numpy as np

from luvli.synthetic.arrays import Doubles, Singles
from luvli.synthetic.scene.shapes import Mesh, ball, join_meshes, random_colour, tube


def hand(points: Doubles, tone: Singles, rng: np.random.Generator) -> Mesh:
    """Fingers and a palm before some part of the face, the arm coming from below."""
    target = points[rng.choice([3, 4, 6, 8, 10, 12, 13, 51, 57, 30, 48, 54])]
    out = target - np.array([0.0, target[1] * 0.3, -2.0])
    out = out / np.linalg.norm(out)
    knuckle = target + out * rng.uniform(1.0, 2.0) - np.array([0, rng.uniform(1, 4), 0])
    up = np.array([rng.normal(0, 0.5), 1.0, rng.normal(0, 0.2)])
    up /= np.linalg.norm(up)
    across = np.cross(up, out)
    across /= np.linalg.norm(across)
    parts = []
    bend = rng.uniform(-0.1, 0.6)
    for k in range(4):
        base = knuckle + across * (k - 1.5) * 1.75
        reach = (5.5, 6.6, 6.2, 4.8)[k] * rng.uniform(0.85, 1.0)
        spread = across * (k - 1.5) * rng.uniform(0.0, 0.25)
        middle = base + (up + spread) * reach * 0.5
        tip = middle + (up + spread - bend * out) * reach * 0.5
        parts.append(tube(np.stack([base, middle, tip]), (0.95, 0.85, 0.68), tone, 10, gloss=0.05))
    wrist = knuckle - up * 8.0 + out * 1.0
    parts.append(
        tube(np.stack([knuckle + across, wrist + across]), (2.2, 2.0), tone, 10, gloss=0.05)
    )
    parts.append(
        tube(np.stack([knuckle - across, wrist - across]), (2.2, 2.0), tone, 10, gloss=0.05)
    )
    thumb = np.stack(
        [wrist + across * 2, knuckle + across * 4.2, knuckle + across * 4.4 + up * 2.5]
    )
    parts.append(tube(thumb, (1.2, 1.0, 0.8), tone, 10, gloss=0.05))
    sleeve = random_colour(rng)
    parts.append(
        tube(
            np.stack([wrist, wrist - up * 14]),
            (3.0, 4.2),
            tone if rng.random() < 0.5 else sleeve,
            12,
        )
    )
    return join_meshes(parts)


def microphone(points: Doubles, rng: np.random.Generator) -> Mesh:
    """A microphone before mouth or chin, held from below."""
    head = points[57] + np.array([rng.normal(0, 2.0), rng.uniform(-4, 0.5), rng.uniform(3.0, 6.0)])
    colour = random_colour(rng) * 0.5
    away = np.array([rng.normal(0, 0.6), -1.0, rng.uniform(0.0, 0.8)])
    size = rng.uniform(1.8, 2.8)
    stick = tube(
        np.stack([head + away * size * 0.8, head + away * 22]), 0.55 * size, 0.5 * colour, 12
    )
    return join_meshes([ball(head, (size, size, size), colour), stick])


def telephone(points: Doubles, rng: np.random.Generator) -> Mesh:
    """A telephone held to one ear, or before the face."""
    colour = random_colour(rng) * 0.4
    side = rng.choice([-1, 1])
    centre = np.array([side * (abs(points[0][0]) + 1.2), points[2][1] + rng.normal(0, 1), 1.5])
    slab = tube(
        centre + np.array([(0, 4.5, -1.5), (0, -6.0, 3.5)]),
        rng.uniform(1.4, 2.0),
        colour,
        6,
    )
    return join_meshes([slab])


def block(points: Doubles, rng: np.random.Generator) -> Mesh:
    """A plain thing (cup, book, somebody's shoulder) that stands before a part of the face."""
    target = points[rng.integers(0, 68)] + np.array([0, rng.uniform(-5, 1), rng.uniform(4, 10)])
    axes = rng.uniform(1.5, 5.5, 3)
    colour = random_colour(rng)
    if rng.random() < 0.5:
        return ball(target, axes, colour)
    return tube(np.stack([target, target - (rng.normal(0, 4), 10, 0)]), axes[0] * 0.8, colour, 14)
