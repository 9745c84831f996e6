"""The skin of the built-in head: points laid out flat, and the depth that a formula gives them."""

from __future__ import annotations

import cv2
import numpy as np

from luvli.errors import require
from luvli.files import packaged_toml
from luvli.markup import get_markup
from luvli.synthetic.arrays import Doubles, Index

PLAIN, LID_EDGE, _LID, LIP_EDGE, MOUTH_RING, _MOUTH_DEEP = range(6)
"""what a point of the flat layout belongs to"""
_GIRTH = 7.5
"""radius with which the head is unrolled"""
EYE = np.array([3.15, 3.4])
EYE_RADIUS = 1.3
EYE_DEPTH = 9.1 - 0.75 - EYE_RADIUS + 0.45
"""z of the eyeballs' centres: the lids lie a little behind the bone around them"""
MOUTH_LEVEL = -4.1
PARTING = 0.4
"""half of the opening that the lips have in the flat layout; the neutral head closes it"""

_FACTS = packaged_toml(__package__, "procedural.toml")
_OVALS = np.array(_FACTS["ovals"])


def landmark_layout() -> Doubles:
    """(68, 2) front-view places of all landmarks on the symmetric neutral head."""
    flip = get_markup("ibug68").flip
    places = np.full((68, 2), np.nan)
    for j, (x, y) in _FACTS["right_half"].items():
        places[flip[int(j)]] = -x, y
        places[int(j)] = x, y
    return places


def _unroll(places: Doubles) -> Doubles:
    """Front-view x, y to the flat layout."""
    width = np.interp(places[:, 1], _OVALS[:, 0], _OVALS[:, 1])
    square = np.interp(places[:, 1], _OVALS[:, 0], _OVALS[:, 4])
    sine = np.clip(np.abs(places[:, 0]) / width, 0, 0.999) ** (square / 2)
    return np.stack([np.sign(places[:, 0]) * _GIRTH * np.arcsin(sine), places[:, 1]], axis=1)


def _loop(places: Doubles, between: int) -> Doubles:
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


def _grown(line: Doubles, middle: Doubles, across: float, up: float) -> Doubles:
    """A line (m, 2) stretched about its middle."""
    return np.asarray(middle + (line - middle) * (across, up))


def flat_points(layout: Doubles) -> tuple[Doubles, Index]:
    """(n, 2) places of all points of the skin, the landmarks first, and what each belongs to."""
    groups = [(layout[:36], PLAIN), (layout[36:48], LID_EDGE), (layout[48:60], PLAIN)]
    groups.append((layout[60:68], LIP_EDGE))
    for eye in (layout[36:42], layout[42:48]):
        edge = _loop(eye, 3)
        groups.append((edge, LID_EDGE))
        for scale in (1.14, 1.34, 1.62):
            contour = np.concatenate([eye, edge])
            groups.append((_grown(contour, eye.mean(axis=0), scale, scale * 1.12), _LID))
    outer, inner, middle = layout[48:60], layout[60:68], np.array([0, MOUTH_LEVEL])
    halfway, between = _loop(outer, 1), _loop(inner, 2)
    inner_line = np.concatenate([inner, between])
    groups += [
        (halfway, PLAIN),
        (_grown(np.concatenate([outer, halfway]), middle, 1.12, 1.25), PLAIN),
        (between, LIP_EDGE),
        (_grown(halfway, middle, 0.93, 0.72), PLAIN),
        (_grown(inner_line, middle, 0.88, 0.5), MOUTH_RING),
        (_grown(inner, middle, 0.6, 0.2), _MOUTH_DEEP),
    ]
    for brow in (layout[17:22], layout[22:27]):
        groups += [((brow[1:] + brow[:-1]) / 2, PLAIN)]
        groups += [(brow - (0, 0.45), PLAIN), (brow - (0, -0.35), PLAIN)]
    places = _unroll(np.concatenate([line for line, _ in groups]))
    kinds = np.concatenate([np.full(len(line), kind) for line, kind in groups])
    filled = _filled(places, layout)
    return filled, np.concatenate([kinds, np.full(len(filled) - len(places), PLAIN)])


def _filled(taken: Doubles, layout: Doubles) -> Doubles:
    """The flat places and, where there is room between them, three ever wider grids."""
    seam = np.pi * _GIRTH

    def grid(x: Doubles, y: Doubles) -> Doubles:
        return np.stack([values.ravel() for values in np.meshgrid(x, y)], axis=1)

    fine = _unroll(grid(np.arange(-2.2, 2.21, 0.28), np.arange(-2.6, 4.6, 0.28)))
    x, y = np.arange(-9.5, 9.51, 0.55), np.arange(-9.6, 8.6, 0.55)
    middling = grid(x, y)
    middling[:, 0] += 0.27 * (np.arange(len(middling)) // len(x) % 2)  # every second row aside
    heights = np.r_[np.linspace(-19, 11, 27), 12, 12.7, 13.2, 13.45]
    coarse = grid(np.linspace(-seam, seam, 49), heights)
    openings = [
        _unroll(_grown(loop, loop.mean(axis=0), grow, grow)).astype(np.float32)
        for loop, grow in ((layout[36:42], 1.5), (layout[42:48], 1.5), (layout[48:60], 1.1))
    ]
    cKDTree = require("scipy.spatial", "train").cKDTree
    for places, gap in ((fine, 0.24), (middling, 0.42), (coarse, 0.85)):
        near, _ = cKDTree(taken).query(places)
        good = (near > gap) | (np.abs(np.abs(places[:, 0]) - seam) < 1e-6)
        # within an eye or the mouth only set points belong
        for polygon in openings:
            good &= [cv2.pointPolygonTest(polygon, (x, y), False) < 0 for x, y in places.tolist()]
        taken = np.concatenate([taken, places[good]])
    return taken


def _bump(
    x: Doubles, y: Doubles, at_x: float, at_y: float, width: float, height: float, amount: float
) -> Doubles:
    square = ((x - at_x) / width) ** 2 + ((y - at_y) / height) ** 2
    return np.asarray(amount * np.exp(-0.5 * square), np.float64)


def _relief(x: Doubles, y: Doubles) -> Doubles:
    """How far the face stands out of its oval, by its front-view place."""
    side, relief = np.abs(x), _FACTS["relief"]
    ridge, widths = np.array(relief["nose_ridge"]), np.array(relief["nose_width"])
    width = np.interp(y, widths[:, 0], widths[:, 1])
    out = np.interp(y, ridge[:, 0], ridge[:, 1]) * np.exp(-((side / width) ** 2.4) / 2)
    for bump in relief["upper_face"]:
        out += _bump(side, y, *bump)
    upper = 0.45 * np.exp(-(((y + 3.62) / 0.36) ** 2)) * np.exp(-((side / 2.0) ** 4))
    lower = 0.50 * np.exp(-(((y + 4.65) / 0.40) ** 2)) * np.exp(-((side / 1.8) ** 4))
    out += upper + lower
    for bump in relief["lower_face"]:
        out += _bump(side, y, *bump)
    return np.asarray(out, np.float64)


def lift_surface(flat: Doubles, kinds: Index) -> Doubles:
    """(n, 3) places of the flat points."""
    angle, y = flat[:, 0] / _GIRTH, flat[:, 1]
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
    lid = (kinds == LID_EDGE) | (kinds == _LID)
    away = np.hypot(np.abs(x) - EYE[0], y - EYE[1])
    ball = EYE_DEPTH + np.sqrt(np.clip(EYE_RADIUS**2 - away**2, 0.12, None))
    hug = np.where(kinds == LID_EDGE, 1.0, np.exp(-((away / 1.5) ** 4)))
    z = np.where(lid, (1 - hug) * z + hug * (ball + 0.10), z)
    # nowhere may the ball show through the skin
    over_ball = (away < EYE_RADIUS) & (angle > -1.2) & (angle < 1.2)
    z = np.where(over_ball, np.maximum(z, ball + 0.10), z)
    z = z - 1.5 * (kinds == MOUTH_RING) - 3.0 * (kinds == _MOUTH_DEEP)
    z = z - 0.22 * (kinds == LIP_EDGE)
    return np.stack([x, y, z], axis=1)


def lid_side_of(flat: Doubles, kinds: Index) -> Doubles:
    """+1 on upper lids, -1 on lower ones, 0 elsewhere and at the corners of the eyes."""
    near = (kinds == LID_EDGE) | (kinds == _LID)
    x = np.abs(flat[:, 0]) - np.abs(_unroll(EYE[None])[0, 0])
    side = np.where(near, np.clip((flat[:, 1] - (EYE[1] - 0.1)) / 0.25, -1, 1), 0.0)
    return np.asarray(side * np.exp(-((x / 1.6) ** 6)), np.float64)
