"""A head of our own, needing no files: horizontal ovals, relief, and eyes and mouth cut into it.

The skin is laid out flat (across: the way around the head; up: height), points are set densely
along the eyes, lips and brows and loosely elsewhere, Delaunay triangles join them, and a formula
gives each point its depth. Centimetres; x to the picture's right, y up, z to the viewer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import require
from luvli.synthetic.head import Eyeball, Head, Part
from luvli.synthetic.procedural_modes import expression_modes, identity_modes

Floats = NDArray[np.float64]

GIRTH = 7.5
"""radius with which the head is unrolled"""
EYE = np.array([3.15, 3.4])
EYE_RADIUS = 1.3
MOUTH_LEVEL = -4.1
PARTING = 0.4
"""half of the opening that the lips have in the flat layout; the neutral head closes it"""

# height; half-width; front and back depth; squareness of the oval
_OVALS = np.array(
    [
        (13.5, 0.2, 0.9, -0.9, 2.0),
        (13.2, 2.2, 2.9, -3.0, 2.0),
        (12.5, 4.2, 4.9, -5.0, 2.0),
        (11.0, 5.9, 7.1, -7.2, 2.1),
        (9.0, 6.9, 8.6, -8.7, 2.15),
        (7.0, 7.35, 9.3, -9.2, 2.2),
        (5.5, 7.45, 9.5, -9.3, 2.25),
        (4.0, 7.40, 9.1, -9.1, 2.3),
        (2.0, 7.30, 9.1, -8.6, 2.3),
        (0.0, 7.15, 9.3, -7.8, 2.25),
        (-2.0, 6.90, 9.6, -7.0, 2.15),
        (-4.0, 6.45, 9.8, -6.4, 2.0),
        (-5.5, 5.75, 9.55, -6.1, 1.85),
        (-7.0, 5.05, 9.55, -5.9, 1.65),
        (-8.0, 4.80, 9.0, -5.9, 1.62),
        (-8.6, 4.75, 7.2, -5.9, 1.8),
        (-9.3, 4.80, 5.3, -5.9, 2.0),
        (-10.5, 4.95, 4.5, -5.9, 2.0),
        (-14.0, 5.40, 4.4, -6.2, 2.0),
        (-19.0, 7.50, 5.0, -7.0, 2.0),
    ]
)[::-1]

_RIGHT_HALF = {  # front-view places of the landmarks with x <= 0
    0: (-7.0, 3.4), 1: (-6.95, 1.3), 2: (-6.75, -0.8), 3: (-6.35, -2.8), 4: (-5.6, -4.7),
    5: (-4.4, -6.2), 6: (-3.0, -7.3), 7: (-1.5, -8.0), 8: (0, -8.2),
    17: (-5.6, 5.1), 18: (-4.8, 5.8), 19: (-3.7, 6.05), 20: (-2.5, 5.9), 21: (-1.3, 5.5),
    27: (0, 3.8), 28: (0, 2.5), 29: (0, 1.2), 30: (0, 0.0),
    31: (-1.35, -1.3), 32: (-0.7, -1.5), 33: (0, -1.62),
    36: (-4.5, 3.35), 37: (-3.7, 3.85), 38: (-2.6, 3.85), 39: (-1.8, 3.25),
    40: (-2.65, 3.0), 41: (-3.7, 2.95),
    48: (-2.5, -4.1), 49: (-1.6, -3.55), 50: (-0.6, -3.2), 51: (0, -3.32),
    57: (0, -5.15), 58: (-0.7, -5.1), 59: (-1.6, -4.75),
    60: (-2.1, -4.1), 61: (-0.9, -4.06), 62: (0, -4.07), 66: (0, -4.12), 67: (-0.9, -4.13),
}  # fmt: skip


def landmark_layout() -> Floats:
    """(68, 2) front-view places of all landmarks on the symmetric neutral head."""
    from luvli.markup import get_markup

    flip = get_markup("ibug68").flip
    places = np.full((68, 2), np.nan)
    for j, (x, y) in _RIGHT_HALF.items():
        places[flip[j]] = -x, y
        places[j] = x, y
    return places


def procedural_head() -> Head:
    """The built-in head: about 3,300 vertices, 28 identity modes, 40 expressions."""
    layout = landmark_layout()
    # in the flat layout the lips stand open, so that upper and lower lip are apart
    layout[[60, 61, 62, 63, 64], 1] += np.array([0, 1, 1, 1, 0]) * PARTING
    layout[[65, 66, 67], 1] -= PARTING
    flat, kinds = _flat_points(layout)
    delaunay = require("scipy.spatial", "train").Delaunay(flat)
    triangles = delaunay.simplices.astype(np.int64)
    corner = flat[triangles]
    one, two = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    doubled = one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]
    triangles[doubled < 0] = triangles[doubled < 0][:, ::-1]
    triangles = triangles[np.abs(doubled) > 1e-9]
    inside_eye = (kinds[triangles] == _LID_EDGE).all(axis=1)
    triangles = triangles[~inside_eye]
    deep = (kinds[triangles] >= _MOUTH_RING).any(axis=1)
    rim = (kinds[triangles] == _LIP_EDGE).all(axis=1)
    part = np.where(deep | rim, Part.MOUTH, Part.SKIN).astype(np.uint8)
    skin = _surface(flat, kinds)
    landmarks = np.arange(68)  # they come first in the layout

    vertices, faces, parts = [skin], [triangles], [part]
    count = len(skin)

    def add(points: Any, mesh: Any, kind: Part) -> slice:
        nonlocal count
        vertices.append(points)
        faces.append(mesh + count)
        parts.append(np.full(len(mesh), kind, np.uint8))
        count += len(points)
        return slice(count - len(points), count)

    for side in (-1, 1):
        add(*_ear(side), Part.SKIN)
    upper = add(*_teeth(0.55, -0.35), Part.TEETH)
    lower = add(*_teeth(-0.2, -0.95), Part.TEETH)
    eyeballs = []
    for side, corners in ((-1, (36, 39)), (1, (45, 42))):
        eyeballs.append(Eyeball(add(*_eyeball(side), Part.EYE), corners))
    neutral = np.concatenate(vertices)
    lip_side = np.zeros(len(neutral))
    lip_side[: len(skin)] = _lip_side(flat, kinds)
    lip_side[upper], lip_side[lower] = 0.0, -1.0
    lids = np.zeros(len(neutral))
    lids[: len(skin)] = _lid_side(flat, kinds)
    eyes = np.zeros(len(neutral), bool)
    for eyeball in eyeballs:
        eyes[eyeball.vertices] = True
    ball = (EYE[0], EYE[1], _eye_depth(), EYE_RADIUS)
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


# --- the flat layout -------------------------------------------------------------------

_PLAIN, _LID_EDGE, _LID, _LIP_EDGE, _MOUTH_RING, _MOUTH_DEEP = range(6)


def _unroll(places: Floats) -> Floats:
    """Front-view x, y to the flat layout."""
    width = np.interp(places[:, 1], _OVALS[:, 0], _OVALS[:, 1])
    square = np.interp(places[:, 1], _OVALS[:, 0], _OVALS[:, 4])
    sine = np.clip(np.abs(places[:, 0]) / width, 0, 0.999) ** (square / 2)
    return np.stack([np.sign(places[:, 0]) * GIRTH * np.arcsin(sine), places[:, 1]], axis=1)


def _loop(places: Floats, between: int) -> Floats:
    """Points between the corners of a closed line (corners left out), gently curved."""
    following = np.roll(places, -1, axis=0)
    before, after = np.roll(places, 1, axis=0), np.roll(places, -2, axis=0)
    points = []
    for k in range(1, between + 1):
        t = k / (between + 1)
        straight = (1 - t) * places + t * following
        bend = t * (1 - t) * 0.25 * (places + following - before - after)
        points.append(straight + bend)
    return np.concatenate(points)


def _flat_points(layout: Floats) -> tuple[Floats, NDArray[np.int64]]:
    groups: list[Floats] = [layout]
    kinds: list[NDArray[np.int64]] = [np.zeros(68, np.int64)]
    kinds[0][36:48], kinds[0][60:68] = _LID_EDGE, _LIP_EDGE

    def add(places: Floats, kind: int) -> None:
        groups.append(places)
        kinds.append(np.full(len(places), kind))

    for eye in (layout[36:42], layout[42:48]):
        edge = _loop(eye, 3)
        add(edge, _LID_EDGE)
        contour, middle = np.concatenate([eye, edge]), eye.mean(axis=0)
        for scale in (1.14, 1.34, 1.62):
            add(middle + (contour - middle) * (scale, scale * 1.12), _LID)
    outer, inner = layout[48:60], layout[60:68]
    middle = np.array([0, MOUTH_LEVEL])
    outer_line = np.concatenate([outer, _loop(outer, 1)])
    inner_line = np.concatenate([inner, _loop(inner, 2)])
    add(outer_line[12:], _PLAIN)
    add(middle + (outer_line - middle) * (1.12, 1.25), _PLAIN)
    add(inner_line[8:], _LIP_EDGE)
    halfway = _loop(outer, 1)
    add(middle + (halfway - middle) * (0.93, 0.72), _PLAIN)
    add(middle + (inner_line - middle) * (0.88, 0.5), _MOUTH_RING)
    add(middle + (inner - middle) * (0.6, 0.2), _MOUTH_DEEP)
    for brow in (layout[17:22], layout[22:27]):
        add(
            np.concatenate(
                [
                    brow[1:] * 0.5 + brow[:-1] * 0.5,
                    brow - np.array([0, 0.45]),
                    brow + np.array([0, 0.35]),
                ]
            ),
            _PLAIN,
        )
    fixed = np.concatenate(groups)
    fixed_kind = np.concatenate(kinds)
    flat = _unroll(fixed)
    x, y = np.meshgrid(np.arange(-2.2, 2.21, 0.28), np.arange(-2.6, 4.6, 0.28))
    filling = [_unroll(np.stack([x.ravel(), y.ravel()], axis=1))]
    x, y = np.meshgrid(np.arange(-9.5, 9.51, 0.55), np.arange(-9.6, 8.6, 0.55))
    filling.append(
        np.stack([x.ravel() + 0.27 * (np.arange(x.size) // x.shape[1] % 2), y.ravel()], 1)
    )
    seam = np.pi * GIRTH
    x, y = np.meshgrid(
        np.linspace(-seam, seam, 49), np.r_[np.linspace(-19, 11, 27), 12, 12.7, 13.2, 13.45]
    )
    filling.append(np.stack([x.ravel(), y.ravel()], axis=1))
    cKDTree = require("scipy.spatial", "train").cKDTree
    taken = flat
    for places, gap in zip(filling, (0.24, 0.42, 0.85), strict=True):
        near, _ = cKDTree(taken).query(places)
        on_seam = np.abs(np.abs(places[:, 0]) - seam) < 1e-6
        good = (near > gap) | on_seam
        good &= ~_inside_openings(places, layout)
        taken = np.concatenate([taken, places[good]])
    kind = np.concatenate([fixed_kind, np.full(len(taken) - len(flat), _PLAIN)])
    return taken, kind


def _inside_openings(places: Floats, layout: Floats) -> NDArray[np.bool_]:
    """Whether flat places lie within an eye or the mouth, where only set points belong."""
    within = np.zeros(len(places), bool)
    for loop, grow in ((layout[36:42], 1.5), (layout[42:48], 1.5), (layout[48:60], 1.1)):
        middle = loop.mean(axis=0)
        polygon = _unroll(middle + (loop - middle) * grow)
        within |= _in_polygon(places, polygon)
    return within


def _in_polygon(places: Floats, polygon: Floats) -> NDArray[np.bool_]:
    """Even-odd rule."""
    inside = np.zeros(len(places), bool)
    for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        crosses = (a[1] > places[:, 1]) != (b[1] > places[:, 1])
        slope = (b[0] - a[0]) / (b[1] - a[1] + 1e-12)
        inside ^= crosses & (places[:, 0] < a[0] + slope * (places[:, 1] - a[1]))
    return inside


# --- depth -----------------------------------------------------------------------------


def _bump(x: Any, y: Any, at: tuple[float, float], size: tuple[float, float], amount: float) -> Any:
    return amount * np.exp(-0.5 * (((x - at[0]) / size[0]) ** 2 + ((y - at[1]) / size[1]) ** 2))


def _relief(x: Any, y: Any) -> Any:
    """How far the face stands out of its oval, by its front-view place."""
    side = np.abs(x)
    heights = [(-2.0, 0.0), (-1.65, 0.5), (-1.2, 1.7), (-0.6, 2.6), (0.0, 2.8), (0.5, 2.55)]
    heights += [(1.5, 1.75), (2.6, 1.05), (3.6, 0.55), (4.4, 0.25), (5.2, 0.0)]
    ridge = np.array(heights)
    widths = np.interp(y, [-1.6, -0.5, 0.5, 2.0, 3.5], [0.95, 0.80, 0.72, 0.66, 0.75])
    nose = np.interp(y, ridge[:, 0], ridge[:, 1]) * np.exp(-((side / widths) ** 2.4) / 2)
    relief = nose + _bump(side, y, (1.12, -0.75), (0.38, 0.48), 0.95)
    relief += _bump(side, y, (0.58, -1.28), (0.20, 0.16), -0.7)  # nostrils
    relief += _bump(side, y, (3.15, 3.3), (1.35, 0.95), -0.75)
    relief += _bump(side, y, (1.75, 3.5), (0.6, 0.9), -0.55)
    relief += _bump(side, y, (3.2, 5.3), (1.9, 0.65), 0.45)
    relief += _bump(side, y, (4.4, 1.0), (1.5, 1.3), 0.45)
    upper = 0.45 * np.exp(-(((y + 3.62) / 0.36) ** 2)) * np.exp(-((side / 2.0) ** 4))
    lower = 0.50 * np.exp(-(((y + 4.65) / 0.40) ** 2)) * np.exp(-((side / 1.8) ** 4))
    relief += upper + lower
    relief += _bump(side, y, (0.0, -5.75), (1.4, 0.35), -0.25)
    relief += _bump(side, y, (0.0, -7.1), (1.2, 0.75), 0.45)
    relief += _bump(side, y, (2.7, -4.1), (0.35, 0.35), -0.18)
    relief += _bump(side, y, (0.0, -2.6), (0.22, 0.5), -0.10)
    return relief


def _surface(flat: Floats, kinds: NDArray[np.int64]) -> Floats:
    """(n, 3) places of the flat points."""
    angle, y = flat[:, 0] / GIRTH, flat[:, 1]
    width, front, back, square = (np.interp(y, _OVALS[:, 0], _OVALS[:, k]) for k in (1, 2, 3, 4))
    centre = np.interp(y, [-9, -4, 13], [-1.0, 0.5, 0.0])
    x = width * np.sign(angle) * np.abs(np.sin(angle)) ** (2 / square)
    forward = np.cos(angle)
    depth = np.where(forward > 0, front - centre, centre - back)
    z = centre + depth * np.sign(forward) * np.abs(forward) ** (2 / square)
    # the lips close: what lies above the opening comes down, what lies below goes up
    shut = np.exp(-(((y - MOUTH_LEVEL) / 0.8) ** 2) / 2) * np.exp(-((x / 2.6) ** 4))
    facing = np.clip(forward, 0, 1)
    z = z + facing * _relief(x, y)
    y = y - shut * PARTING * np.sign(y - MOUTH_LEVEL) * (np.abs(y - MOUTH_LEVEL) > 1e-6)
    lid = (kinds == _LID_EDGE) | (kinds == _LID)
    away = np.hypot(np.abs(x) - EYE[0], y - EYE[1])
    ball = _eye_depth() + np.sqrt(np.clip(EYE_RADIUS**2 - away**2, 0.12, None))
    hug = np.where(kinds == _LID_EDGE, 1.0, np.exp(-((away / 1.5) ** 4)))
    z = np.where(lid, (1 - hug) * z + hug * (ball + 0.10), z)
    # nowhere may the ball show through the skin
    over_ball = (away < EYE_RADIUS) & (angle > -1.2) & (angle < 1.2)
    z = np.where(over_ball, np.maximum(z, ball + 0.10), z)
    z = z - 1.5 * (kinds == _MOUTH_RING) - 3.0 * (kinds == _MOUTH_DEEP)
    z = z - 0.22 * (kinds == _LIP_EDGE)
    return np.stack([x, y, z], axis=1)


def _eye_depth() -> float:
    """z of the eyeballs' centres: the lids lie a little behind the bone around them."""
    return 9.1 - 0.75 - EYE_RADIUS + 0.45


def _lip_side(flat: Floats, kinds: NDArray[np.int64]) -> Floats:
    """+1 above the line of the mouth, -1 below it, only where it matters: near the mouth."""
    return np.sign(flat[:, 1] - MOUTH_LEVEL)


def _lid_side(flat: Floats, kinds: NDArray[np.int64]) -> Floats:
    """+1 on upper lids, -1 on lower ones, 0 elsewhere and at the corners of the eyes."""
    near = (kinds == _LID_EDGE) | (kinds == _LID)
    x = np.abs(flat[:, 0]) - np.abs(_unroll(EYE[None])[0, 0])
    corner_line = EYE[1] - 0.1
    side = np.where(near, np.clip((flat[:, 1] - corner_line) / 0.25, -1, 1), 0.0)
    return np.asarray(side * np.exp(-((x / 1.6) ** 6)), np.float64)


# --- parts that are not skin -----------------------------------------------------------


def _grid(rows: int, columns: int, closed: bool) -> NDArray[np.int64]:
    index = np.arange(rows * columns).reshape(rows, columns)
    if closed:
        index = np.concatenate([index, index[:, :1]], axis=1)
    a, b = index[:-1, :-1].ravel(), index[:-1, 1:].ravel()
    c, d = index[1:, 1:].ravel(), index[1:, :-1].ravel()
    return np.concatenate([np.stack([a, d, c], 1), np.stack([a, c, b], 1)])


def _eyeball(side: int) -> tuple[Floats, NDArray[np.int64]]:
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
    centre = np.array([side * EYE[0], EYE[1], _eye_depth()])
    return (centre + EYE_RADIUS * unit).reshape(-1, 3), _grid(14, 20, True)


def _teeth(top: float, bottom: float) -> tuple[Floats, NDArray[np.int64]]:
    x = np.linspace(-2.3, 2.3, 25)[None]
    y = (MOUTH_LEVEL + np.linspace(top, bottom, 4))[:, None]
    z = 9.35 - 0.16 * x**2 + 0 * y
    scallop = 0.04 * np.abs(np.sin(x / 0.75 * np.pi))
    points = np.stack([x + 0 * y, y + 0 * x, z + scallop], axis=-1)
    return points.reshape(-1, 3), _grid(4, 25, False)


def _ear(side: int) -> tuple[Floats, NDArray[np.int64]]:
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
