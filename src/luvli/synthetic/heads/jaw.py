"""Ways along the skin through the jaw landmarks: where people label the jaw of a turned face.

In a front view people label the outline: the last of the face that is seen before the neck. The
landmarks of a head lie on the front of chin and jaw, half a centimetre above it; the skin goes on
over the edge of the jaw to its underside, and so do labels. On the side that turns away the outline
wanders inwards over the cheek. On the side that turns to the camera the face now ends farther
back, where the ear is rooted and along the edge of the jaw bone, and labels follow it there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luvli.synthetic.arrays import Ints, Real, Singles
from luvli.synthetic.raster.triangles import vertex_normals

# How far towards the middle of the face the outline may slide, for the jaw points 0 to 8.
_REACH = (0.36, 0.46, 0.56, 0.62, 0.64, 0.66, 0.66, 0.60, 0.0)
# How far back the face ends in profile, in halves of its breadth: to the root of the ear
# (0 to 2), the rear edge of the jaw (3), its angle (4) and along its lower edge (5 to 7), which
# rises on its way back.
_BACK = (0.27, 0.30, 0.36, 0.42, 0.46, 0.40, 0.28, 0.13, 0.0)
_RISE = (0.0, 0.0, 0.0, 0.0, 0.06, 0.24, 0.26, 0.22, 0.0)
_STEPS = 24
"""vertices of each way"""
_EDGE = (67.0, 80.0)
"""degrees by which the skin has turned down or aside where the edge of the jaw bends most, and
where its underside begins: there the face ends for a camera below it, and for one level with it"""
_BEND = 4.0
"""degrees around each of them over which vertices count"""


class JawPaths(NamedTuple):
    """Vertices of the skin that a jaw landmark may slide over; both begin at the landmark."""

    inwards: Ints
    """(17, m) towards the middle of the face, to where nobody would call it jaw any more"""
    back: Ints
    """(17, m) to where the face ends in profile"""
    edge_corners: Ints
    """(17, 2, k) vertices whose mean is the edge of the jaw: its bend, and its underside"""
    edge_weights: Singles
    """(17, 2, k) their shares, which sum to 1"""

    def edge(self, values: Singles) -> Singles:
        """(17, 2, d) what `values` (n, d) of the vertices are on the edge of the jaw."""
        mixed: Singles = np.einsum("jek,jekd->jed", self.edge_weights, values[self.edge_corners])
        return mixed


def find_jaw_paths(neutral: Singles, triangles: Ints, landmarks: Ints) -> JawPaths:
    """The ways from each jaw landmark of a head (n, 3) with skin `triangles` (t, 3)."""
    normals = vertex_normals(neutral, triangles)
    skin = np.unique(triangles)
    inwards, back = np.zeros((2, 17, _STEPS), np.int32)
    for j in range(17):
        inwards[j] = _inwards(neutral, normals, skin, landmarks, j)
        back[j] = _back(neutral, normals, skin, landmarks, j)
    inwards[:, 0] = back[:, 0] = landmarks[:17]
    return JawPaths(inwards, back, *_edges(neutral, normals, skin, landmarks))


def _edges(neutral: Singles, normals: Singles, skin: Ints, landmarks: Ints) -> tuple[Ints, Singles]:
    """Vertices (17, 2, 8) on the edge of the jaw outwards of each landmark, and their weights.

    A cut through the head, across the line of the jaw and away from the viewer, meets skin that
    turns more and more aside: the vertices around a given angle are averaged.
    """
    jaw = neutral[landmarks[:17]].astype(np.float64)
    flat = np.pad(jaw[:, :2], ((1, 1), (0, 0)), "edge")
    along = flat[2:] - flat[:-2]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    outward = np.stack([along[:, 1], -along[:, 0]], axis=1)
    corners = np.tile(landmarks[:17, None, None], (1, 2, 8)).astype(np.int32)
    weights = np.full((17, 2, 8), 0.125, np.float32)
    # (17, v) degrees by which the skin has turned out of the viewer's sight, seen along each cut
    turned = np.degrees(np.arctan2(outward @ normals[skin, :2].T, normals[skin, 2]))
    own = turned[np.arange(17), np.searchsorted(skin, landmarks[:17])]
    if own[8] >= _EDGE[0]:  # a head whose landmarks lie on the edge already
        return corners, weights
    for j in range(17):
        away = neutral[skin].astype(np.float64) - jaw[j]
        beside = away[:, :2] @ along[j]
        near = (np.linalg.norm(away, axis=1) < 3.5) & (np.abs(beside) < 0.6) & (away[:, 2] < 0.3)
        near &= away[:, :2] @ outward[j] > -0.15
        for e, wanted in enumerate(_EDGE):
            share = np.exp(-0.5 * ((turned[j] - wanted) / _BEND) ** 2 - 0.5 * (beside / 0.3) ** 2)
            share *= near
            best = np.argsort(-share)[:8]
            if own[j] < wanted and share[best].sum() > 0.5:
                corners[j, e], weights[j, e] = skin[best], share[best] / share[best].sum()
    return corners, weights


def _inwards(neutral: Singles, normals: Singles, skin: Ints, landmarks: Ints, j: int) -> Ints:
    """Vertices nearest, in a front view, to a level line from jaw landmark j to the middle."""
    jaw = neutral[landmarks[:17]]
    front = skin[(normals[skin, 2] > -0.3) & (neutral[skin, 2] > jaw[:, 2].min() - 2)]
    mouth = neutral[landmarks[48:68]].mean(axis=0)
    # the chin's underside is no outline: points below the mouth rise a little on their way
    target = np.array([0.0, jaw[j, 1] + 0.25 * max(mouth[1] - jaw[j, 1], 0.0)])
    way = _REACH[min(j, 16 - j)] * (target - jaw[j, :2])
    return _nearest(neutral, front, (0, 1), jaw[j, :2], way)


def _back(neutral: Singles, normals: Singles, skin: Ints, landmarks: Ints, j: int) -> Ints:
    """Vertices nearest, in a side view, to a line from jaw landmark j to where the face ends."""
    jaw = neutral[landmarks[:17]]
    half = float(np.abs(jaw[:, 0]).max())
    side = -1 if j < 8 else 1
    sideways = side * neutral[skin, 0]
    # the cheek and the jaw's edge, without the ear's flap and what lies below the chin
    outer = (sideways > 0.1 * half) & (sideways < 1.06 * half) & (side * normals[skin, 0] > 0.3)
    k = min(j, 16 - j)
    if k == 8:  # the chin stays
        return np.full(_STEPS, landmarks[j], np.int32)
    way = half * np.array([_RISE[k] * _BACK[k], -_BACK[k]])
    return _nearest(neutral, skin[outer], (1, 2), jaw[j, 1:], way)


def _nearest(
    neutral: Singles, vertices: Ints, axes: tuple[int, int], start: Singles, way: Real
) -> Ints:
    """(m,) the one of `vertices` nearest to each step of a `way` (2,), seen along one axis."""
    line = start + np.linspace(0, 1, _STEPS)[:, None] * way
    distance = np.linalg.norm(neutral[vertices][:, axes][:, None] - line.astype(np.float32), axis=2)
    return np.asarray(vertices[distance.argmin(axis=0)], np.int32)
