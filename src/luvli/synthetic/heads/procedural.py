"""A head of our own, needing no files: horizontal ovals, relief, and eyes and mouth cut into it.

The skin is laid out flat (across: the way around the head; up: height), points are set densely
along the eyes, lips and brows and loosely elsewhere, Delaunay triangles join them, and a formula
gives each point its depth. Centimetres; x to the image's right, y up, z to the viewer.
"""

from __future__ import annotations

import numpy as np

from luvli.errors import require
from luvli.synthetic.arrays import Doubles, Index
from luvli.synthetic.heads.head import Eyeball, Head
from luvli.synthetic.heads.procedural_layout import (
    EYE,
    EYE_RADIUS,
    LID_EDGE,
    LIP_EDGE,
    MOUTH_LEVEL,
    MOUTH_RING,
    PARTING,
    eye_depth,
    flat_points,
    landmark_layout,
    lid_side_of,
    lift_surface,
    lip_side_of,
)
from luvli.synthetic.heads.procedural_modes import expression_modes, identity_modes
from luvli.synthetic.raster.materials import Material


def procedural_head() -> Head:
    """The built-in head: about 3,300 vertices, 28 identity modes, 40 expressions."""
    layout = landmark_layout()
    # in the flat layout the lips stand open, so that upper and lower lip are apart
    layout[[60, 61, 62, 63, 64], 1] += np.array([0, 1, 1, 1, 0]) * PARTING
    layout[[65, 66, 67], 1] -= PARTING
    flat, kinds = flat_points(layout)
    delaunay = require("scipy.spatial", "train").Delaunay(flat)
    triangles = delaunay.simplices.astype(np.int64)
    corner = flat[triangles]
    one, two = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    doubled = one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]
    triangles[doubled < 0] = triangles[doubled < 0][:, ::-1]
    triangles = triangles[np.abs(doubled) > 1e-9]
    inside_eye = (kinds[triangles] == LID_EDGE).all(axis=1)
    triangles = triangles[~inside_eye]
    deep = (kinds[triangles] >= MOUTH_RING).any(axis=1)
    rim = (kinds[triangles] == LIP_EDGE).all(axis=1)
    part = np.where(deep | rim, Material.MOUTH, Material.SKIN).astype(np.uint8)
    skin = lift_surface(flat, kinds)
    landmarks = np.arange(68)  # they come first in the layout

    vertices, faces, parts = [skin], [triangles], [part]
    count = len(skin)

    def add(points: Doubles, mesh: Index, kind: Material) -> slice:
        nonlocal count
        vertices.append(points)
        faces.append(mesh + count)
        parts.append(np.full(len(mesh), kind, np.uint8))
        count += len(points)
        return slice(count - len(points), count)

    for side in (-1, 1):
        add(*_ear(side), Material.SKIN)
    upper = add(*_teeth(0.55, -0.35), Material.TEETH)
    lower = add(*_teeth(-0.2, -0.95), Material.TEETH)
    eyeballs = []
    for side, corners in ((-1, (36, 39)), (1, (45, 42))):
        eyeballs.append(Eyeball(add(*_eyeball(side), Material.EYE), corners))
    neutral = np.concatenate(vertices)
    lip_side = np.zeros(len(neutral))
    lip_side[: len(skin)] = lip_side_of(flat, kinds)
    lip_side[upper], lip_side[lower] = 0.0, -1.0
    lids = np.zeros(len(neutral))
    lids[: len(skin)] = lid_side_of(flat, kinds)
    eyes = np.zeros(len(neutral), bool)
    for eyeball in eyeballs:
        eyes[eyeball.vertices] = True
    ball = (EYE[0], EYE[1], eye_depth(), EYE_RADIUS)
    names, expression = expression_modes(neutral, lip_side, lids, eyes, ball)
    identity = identity_modes(neutral, eyes)
    return Head(
        name="procedural",
        neutral=neutral.astype(np.float32),
        triangles=np.concatenate(faces).astype(np.int32),
        part=np.concatenate(parts),
        identity=identity.reshape(len(identity), -1).astype(np.float32),
        expression=expression.reshape(len(expression), -1).astype(np.float32),
        expression_names=names,
        landmarks=landmarks.astype(np.int32),
        eyeballs=tuple(eyeballs),
    )


def _grid(rows: int, columns: int, closed: bool) -> Index:
    index = np.arange(rows * columns).reshape(rows, columns)
    if closed:
        index = np.concatenate([index, index[:, :1]], axis=1)
    a, b = index[:-1, :-1].ravel(), index[:-1, 1:].ravel()
    c, d = index[1:, 1:].ravel(), index[1:, :-1].ravel()
    return np.concatenate([np.stack([a, d, c], 1), np.stack([a, c, b], 1)])


def _eyeball(side: int) -> tuple[Doubles, Index]:
    polar = np.linspace(0.02, np.pi - 0.02, 14)[:, None]
    around = np.linspace(0, 2 * np.pi, 20, endpoint=False)[None]
    unit = np.stack(
        [
            np.sin(polar) * np.cos(around),
            np.sin(polar) * np.sin(around),
            np.cos(polar) + 0 * around,
        ],
        -1,
    )
    centre = np.array([side * EYE[0], EYE[1], eye_depth()])
    return (centre + EYE_RADIUS * unit).reshape(-1, 3), _grid(14, 20, True)


def _teeth(top: float, bottom: float) -> tuple[Doubles, Index]:
    x = np.linspace(-2.3, 2.3, 25)[None]
    y = (MOUTH_LEVEL + np.linspace(top, bottom, 4))[:, None]
    z = 9.35 - 0.16 * x**2 + 0 * y
    scallop = 0.04 * np.abs(np.sin(x / 0.75 * np.pi))
    points = np.stack([x + 0 * y, y + 0 * x, z + scallop], axis=-1)
    return points.reshape(-1, 3), _grid(4, 25, False)


def _ear(side: int) -> tuple[Doubles, Index]:
    """A tilted dish with a rim: front half stands off the head."""
    around = np.linspace(0, 2 * np.pi, 18, endpoint=False)
    rings = [(0.05, -0.25), (0.45, -0.20), (0.75, 0.30), (0.95, 0.45), (1.02, 0.25), (0.85, -0.35)]
    points = []
    for scale, height in rings:
        lower = np.where(np.sin(around) < 0, 0.8, 1.0)  # the lobe is narrower
        z = 1.55 * scale * np.cos(around) * lower
        y = 2.9 * scale * np.sin(around)
        out = height - 0.75 * scale * np.cos(around)
        points.append(np.stack([side * (7.75 + out), 1.4 + y + 0.2 * z, -0.9 + z - 0.25 * y], -1))
    mesh = _grid(len(rings), len(around), True)
    return np.concatenate(points), mesh if side < 0 else mesh[:, ::-1]
