"""Shapes that scans of young people in a studio vary too little: full jaws, long chins, low brows.

Beside the labels of the London portraits, rendered jaws were 2 mm slimmer on average, and both
their breadth and the height of the brows varied by half as much again among people.
"""

from __future__ import annotations

import numpy as np

from luvli.synthetic.arrays import Doubles, Ints, Singles
from luvli.synthetic.heads.regions import smoothstep

_FULLNESS, _CHIN, BROWS = 0.35, 0.30, 0.25
"""centimetres of one standard deviation"""
USUAL_FULLNESS = 0.6
"""standard deviations by which people are fuller than the model's mean"""


def own_modes(skin: Singles, landmarks: Ints) -> Singles:
    """(3, n, 3) offsets of the skin's vertices (n, 3): fuller jaw, longer chin, higher brows."""
    place, points = skin.astype(np.float64), skin[landmarks].astype(np.float64)
    modes = np.zeros((3, len(skin), 3))
    outward = place[:, :2] - (0.0, points[48:68, 1].mean())
    outward /= np.linalg.norm(outward, axis=1, keepdims=True) + 1.0
    modes[0, :, :2] = _FULLNESS * _around(place, points[2:15], 2.2)[:, None] * outward
    lip, chin = points[57, 1], points[8, 1]
    modes[1, :, 1] = -_CHIN * smoothstep(0.0, 1.0, (lip - place[:, 1]) / (lip - chin))
    modes[2, :, 1] = BROWS * _around(place, points[17:27], 0.9)
    return modes.astype(np.float32)


def _around(place: Doubles, points: Doubles, width: float) -> Doubles:
    """(n,) 1 at the nearest of `points` (k, 3), falling off over `width` centimetres."""
    square = ((place[:, None] - points[None]) ** 2).sum(axis=2).min(axis=1)
    return np.asarray(np.exp(-0.5 * square / width**2), np.float64)
