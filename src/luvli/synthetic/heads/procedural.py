"""A head of our own, needing no files: horizontal ovals, relief, and eyes and mouth cut into it.

The skin is laid out flat (across: the way around the head; up: height), points are set densely
along the eyes, lips and brows and loosely elsewhere, Delaunay triangles join them, and a formula
gives each point its depth. Centimetres; x to the image's right, y up, z to the viewer.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from luvli.errors import require
from luvli.synthetic.arrays import Doubles, Ints
from luvli.synthetic.heads import procedural_layout as layout
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.procedural_modes import expression_modes, identity_modes
from luvli.synthetic.raster.materials import Material
from luvli.synthetic.raster.triangles import grid_triangles


def procedural_head() -> Head:
    """The built-in head: about 3,300 vertices, 28 identity modes, 40 expressions."""
    places = layout.landmark_layout()
    # in the flat layout the lips stand open, so that upper and lower lip are apart
    places[61:64, 1] += layout.PARTING
    places[65:68, 1] -= layout.PARTING
    flat, kinds = layout.flat_points(places)
    triangles = _skin_triangles(flat)
    triangles = triangles[~(kinds[triangles] == layout.LID_EDGE).all(axis=1)]  # the eyes are open
    deep = (kinds[triangles] >= layout.MOUTH_RING).any(axis=1)
    rim = (kinds[triangles] == layout.LIP_EDGE).all(axis=1)
    skin = layout.lift_surface(flat, kinds)

    pieces = [(skin, triangles, np.where(deep | rim, Material.MOUTH, Material.SKIN))]
    for (points, mesh), kind in (
        (_ear(-1), Material.SKIN),
        (_ear(1), Material.SKIN),
        (_teeth(0.55, -0.35), Material.TEETH),
        (_teeth(-0.2, -0.95), Material.TEETH),
        (_eyeball(-1), Material.EYE),
        (_eyeball(1), Material.EYE),
    ):
        pieces.append((points, mesh, np.full(len(mesh), kind)))
    start = np.cumsum([0, *(len(points) for points, _, _ in pieces)])
    *_, lower_teeth, right_eye, left_eye = (slice(a, b) for a, b in pairwise(start.tolist()))
    neutral = np.concatenate([points for points, _, _ in pieces])
    lip_side, lids, eyes = np.zeros(len(neutral)), np.zeros(len(neutral)), np.zeros(len(neutral))
    lip_side[: len(skin)] = np.sign(flat[:, 1] - layout.MOUTH_LEVEL)
    lip_side[lower_teeth] = -1.0
    lids[: len(skin)] = layout.lid_side_of(flat, kinds)
    eyes[right_eye], eyes[left_eye] = -1, 1
    names, expression = expression_modes(
        neutral, lip_side, lids, eyes != 0, (*layout.EYE, layout.EYE_DEPTH, layout.EYE_RADIUS)
    )
    identity = identity_modes(neutral, eyes)
    return Head(
        name="procedural",
        neutral=neutral.astype(np.float32),
        triangles=np.concatenate(
            [mesh + first for (_, mesh, _), first in zip(pieces, start[:-1], strict=True)]
        ).astype(np.int32),
        part=np.concatenate([part for _, _, part in pieces]).astype(np.uint8),
        identity=identity.reshape(len(identity), -1).astype(np.float32),
        expression=expression.reshape(len(expression), -1).astype(np.float32),
        expression_names=names,
        landmarks=np.arange(68, dtype=np.int32),  # they come first in the layout
        eyeballs=(right_eye, left_eye),
    )


def _skin_triangles(flat: Doubles) -> Ints:
    """(t, 3) Delaunay triangles of the flat layout, all counter-clockwise."""
    triangles = require("scipy.spatial", "train").Delaunay(flat).simplices
    one, two = (flat[triangles[:, k]] - flat[triangles[:, 0]] for k in (1, 2))
    doubled = one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]
    triangles[doubled < 0] = triangles[doubled < 0][:, ::-1]
    return np.asarray(triangles[np.abs(doubled) > 1e-9], np.int32)


def _eyeball(side: int) -> tuple[Doubles, Ints]:
    polar = np.linspace(0.02, np.pi - 0.02, 14)[:, None]
    around = np.linspace(0, 2 * np.pi, 20, endpoint=False)[None]
    x, y = np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around)
    unit = np.stack([x, y, np.cos(polar) + 0 * around], axis=-1)
    points = (
        np.array([side * layout.EYE[0], layout.EYE[1], layout.EYE_DEPTH]) + layout.EYE_RADIUS * unit
    )
    return points.reshape(-1, 3), grid_triangles(14, 20, closed=True)


def _teeth(top: float, bottom: float) -> tuple[Doubles, Ints]:
    x = np.linspace(-2.3, 2.3, 25)[None]
    y = (layout.MOUTH_LEVEL + np.linspace(top, bottom, 4))[:, None]
    z = 9.35 - 0.16 * x**2 + 0 * y
    scallop = 0.04 * np.abs(np.sin(x / 0.75 * np.pi))
    points = np.stack([x + 0 * y, y + 0 * x, z + scallop], axis=-1)
    return points.reshape(-1, 3), grid_triangles(4, 25, closed=False)


def _ear(side: int) -> tuple[Doubles, Ints]:
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
    mesh = grid_triangles(len(rings), len(around), closed=True)
    return np.concatenate(points), mesh if side < 0 else mesh[:, ::-1]
