"""How the built-in head varies: smooth fields of displacement for identity and expression."""

from __future__ import annotations

import numpy as np

from luvli.synthetic.arrays import Bools, Doubles
from luvli.synthetic.heads.regions import smoothstep

_Move = tuple[str, Doubles | float, Doubles | float, Doubles | float]
"""an expression's name, and how far each vertex goes along x, y and z"""


def _near(p: Doubles, at: tuple[float, float], size: tuple[float, float]) -> Doubles:
    """A Gaussian window around a front-view place and its mirror image, on the face only."""
    square = ((np.abs(p[:, 0]) - at[0]) / size[0]) ** 2 + ((p[:, 1] - at[1]) / size[1]) ** 2
    return np.asarray(np.exp(-square / 2) * smoothstep(0.0, 5.0, p[:, 2]), np.float64)


def _field(p: Doubles, *way: Doubles | float) -> Doubles:
    """(n, 3) offsets of the vertices `p` (n, 3) from those along x, y and z."""
    return np.stack([np.broadcast_to(part, len(p)) for part in way], axis=1)


def identity_modes(p: Doubles, eyes: Doubles) -> Doubles:
    """(28, n, 3) offsets of one standard deviation each.

    `eyes` (n,) is -1 and 1 on the two eyeballs, which move as a whole with the skin around them:
    they are shifted, never bent.
    """
    side = np.sign(p[:, 0]) * np.minimum(np.abs(p[:, 0]), 1)
    x, y, z = p.T
    skull = smoothstep(5.0, 9.0, y)
    jaw = smoothstep(1.0, -6.0, y) * smoothstep(-12.0, -8.0, y)
    face = smoothstep(2.0, 7.0, z)
    nose = _near(p, (0, 0.3), (0.95, 1.5))
    tip = _near(p, (0, -0.3), (0.8, 0.7))
    bridge = _near(p, (0, 2.6), (0.8, 1.2))
    wings = _near(p, (1.1, -0.8), (0.5, 0.6))
    mouth = _near(p, (0, -4.1), (1.9, 0.9))
    eye = _near(p, (3.15, 3.4), (1.5, 1.1))
    brow = _near(p, (3.2, 5.5), (2.2, 0.9))
    cheek = _near(p, (4.6, -0.5), (1.8, 2.2))
    bone = _near(p, (5.2, 1.6), (1.4, 1.0))
    chin = _near(p, (0, -7.4), (1.8, 1.2))
    modes: list[tuple[Doubles | float, Doubles | float, Doubles | float]] = [
        (0.035 * x, 0, 0),
        (0, 0.035 * (y - 2), 0),
        (0, 0, 0.04 * z),
        (0.25 * side * skull, 0, 0),
        (0, 0.4 * skull, 0),
        (0, 0, 0.35 * skull * np.sign(z)),
        (0.40 * side * jaw, 0, 0),
        (0, -0.45 * jaw, 0),
        (0, 0, 0.45 * chin),
        (0.35 * side * chin, 0, 0),
        (0.22 * side * (nose + wings), 0, 0),
        (0, -0.28 * tip - 0.2 * wings, 0),
        (0, 0, 0.38 * tip + 0.15 * nose),
        (0, 0, 0.25 * bridge),
        (0, 0.25 * tip, 0.1 * tip),
        (0.20 * side * _near(p, (3.15, 3.4), (2.0, 1.6)), 0, 0),
        (0, 0.06 * (y - 3.4) * eye / 0.35, 0),
        (0, 0.10 * eye * (np.abs(x) - 3.15), 0),
        (0, 0.22 * brow, 0),
        (0, 0, 0.22 * brow),
        (0.30 * side * cheek, 0, 0.12 * cheek),
        (0.28 * side * bone, 0, 0.15 * bone),
        (0.10 * x * mouth, 0, 0),
        (0, 0.22 * (y + 4.1) * mouth, 0.12 * mouth),
        (0, 0.25 * _near(p, (0, -4.1), (2.6, 1.3)), 0),
        (0, 0, -0.30 * _near(p, (0, 9.0), (4.0, 2.0))),
        (0.10 * face * (y - 1) * 0.25, 0, 0),
        (0.20 * jaw * face, 0, 0),
    ]
    fields = np.stack([_field(p, *mode) for mode in modes])
    for one in (-1, 1):
        ball = eyes == one
        front = z[ball] > np.quantile(z[ball], 0.8)
        fields[:, ball] = fields[:, ball][:, front].mean(axis=1, keepdims=True)
    return fields


def expression_modes(
    p: Doubles,
    lip_side: Doubles,
    lids: Doubles,
    eyes: Bools,
    ball: tuple[float, float, float, float],
) -> tuple[tuple[str, ...], Doubles]:
    """Names and (e, n, 3) offsets at full strength.

    `lip_side` is +1 above and -1 below the line of the mouth, `lids` +1 on upper and -1 on
    lower lids, `eyes` says which vertices are eyeballs, `ball` the centre and radius of the eye
    at x > 0.
    """
    left = smoothstep(-0.8, 0.8, p[:, 0])[:, None]
    named: dict[str, Doubles] = {}
    for name, *way in (
        *_jaw(p, lip_side),
        *_mouth(p, lip_side),
        *_cheeks_and_brows(p),
        *_lids(p, lids, ball),
    ):
        field = _field(p, *way)
        if name.endswith("_"):  # the person's left (x > 0) and right side, each on its own
            named |= {f"{name}L": field * left, f"{name}R": field * (1 - left)}
        else:
            named[name] = field
    offsets = np.stack(list(named.values()))
    offsets[:, eyes] = 0.0
    return tuple(named), offsets


def _jaw(p: Doubles, lip_side: Doubles) -> list[_Move]:
    """The jaw turns about the ears; skin above the mouth follows less and less."""
    x, y, z = p.T
    swing = smoothstep(-3.0, -6.0, y) * smoothstep(-1.0, 3.0, z) * smoothstep(-11.0, -8.8, y)
    swing = np.maximum(swing, (lip_side < 0) * _near(p, (0, -4.6), (2.1, 1.3)))
    corners = np.exp(-(((np.abs(x) - 2.5) / 0.6) ** 2)) * np.exp(-(((y + 4.1) / 0.6) ** 2))
    swing = swing * (1 - 0.55 * corners * (lip_side < 0)) + 0.35 * corners * (lip_side >= 0)
    angle = np.radians(22.0) * swing
    dy, dz = y - 1.5, z + 0.5
    down = np.cos(angle) * dy - np.sin(angle) * dz - dy
    back = np.sin(angle) * dy + np.cos(angle) * dz - dz
    return [
        ("jawOpen", 0.0, down, back),
    ]


def _mouth(p: Doubles, lip_side: Doubles) -> list[_Move]:
    x, y, _ = p.T
    side = np.sign(x) * np.minimum(np.abs(x) / 0.5, 1)
    corner = _near(p, (2.5, -4.1), (1.0, 0.9))
    upper = _near(p, (0, -3.5), (1.8, 0.6)) * (lip_side > 0)
    lower = _near(p, (0, -4.8), (1.7, 0.7)) * (lip_side < 0)
    mouth = _near(p, (0, -4.1), (2.2, 1.2))
    cheek = _near(p, (4.2, 0.2), (1.6, 1.3))
    up, back = 0.85 * corner + 0.25 * cheek, -0.35 * corner + 0.15 * cheek
    return [
        ("mouthSmile_", 0.75 * side * corner, up, back),
        ("mouthFrown_", 0.1 * side * corner, -0.6 * corner, 0.0),
        ("mouthDimple_", 0.35 * side * corner, 0.0, -0.3 * corner),
        ("mouthStretch_", 0.7 * side * corner, -0.25 * corner, -0.2 * corner),
        ("mouthUpperUp_", 0.0, 0.55 * upper, 0.05 * upper),
        ("mouthLowerDown_", 0.0, -0.55 * lower, 0.0),
        ("mouthPress_", 0.0, -0.15 * np.sign(y + 4.1) * mouth, -0.1 * mouth),
        ("mouthPucker", -0.30 * x * mouth, 0.05 * (y + 4.1) * mouth, 0.7 * mouth),
        ("mouthFunnel", -0.18 * x * mouth, 0.30 * lip_side * mouth, 0.5 * mouth),
        ("mouthRollUpper", 0.0, -0.1 * upper, -0.3 * upper),
        ("mouthRollLower", 0.0, 0.1 * lower, -0.3 * lower),
        ("mouthShrugLower", 0.0, 0.35 * lower, 0.15 * lower),
    ]


def _cheeks_and_brows(p: Doubles) -> list[_Move]:
    side = np.sign(p[:, 0]) * np.minimum(np.abs(p[:, 0]) / 0.5, 1)
    cheek = _near(p, (4.2, 0.2), (1.6, 1.3))
    inner = _near(p, (1.6, 5.6), (1.1, 0.8))
    outer = _near(p, (4.4, 5.6), (1.3, 0.8))
    sneer = _near(p, (1.3, -0.3), (0.7, 0.9))
    return [
        ("cheekPuff_", 0.7 * side * cheek, 0.0, 0.4 * cheek),
        ("cheekSquint_", 0.0, 0.35 * cheek, 0.15 * cheek),
        ("browInnerUp_", 0.0, 0.65 * inner, 0.0),
        ("browOuterUp_", 0.0, 0.65 * outer, 0.0),
        ("browDown_", -0.2 * side * inner, -0.5 * inner - 0.25 * outer, 0.1 * inner),
        ("noseSneer_", 0.1 * side * sneer, 0.45 * sneer, 0.05 * sneer),
    ]


def _lids(p: Doubles, lids: Doubles, ball: tuple[float, float, float, float]) -> list[_Move]:
    """Lids slide over the ball: where they go, they stay before it."""
    x, y, z = p.T
    over, under = np.clip(lids, 0, 1), np.clip(-lids, 0, 1)
    edge = np.exp(-(((y - 3.4) / 0.75) ** 4))
    travel = {
        "eyeBlink_": -0.80 * over + 0.06 * under,
        "eyeSquint_": -0.15 * over + 0.25 * under,
        "eyeWide_": 0.22 * over - 0.05 * under,
        "eyeLookDown_": -0.40 * over - 0.12 * under,
        "eyeLookUp_": 0.18 * over + 0.08 * under,
    }
    moves: list[_Move] = []
    for name, way in travel.items():
        dy = way * edge
        square = ball[3] ** 2 - (np.abs(x) - ball[0]) ** 2 - (y + dy - ball[1]) ** 2
        surface = ball[2] + np.sqrt(np.clip(square, 0, None)) + 0.18
        moved = (np.abs(lids) * edge > 0.02) & (square > 0)
        moves.append((name, 0.0, dy, np.where(moved, np.maximum(surface - z, 0), 0)))
    return moves
