"""How the built-in head varies: smooth fields of displacement for identity and expression."""

from __future__ import annotations

import numpy as np

from luvli.synthetic.arrays import Bools, Doubles
from luvli.synthetic.heads.regions import smoothstep


def _near(p: Doubles, at: tuple[float, float], size: tuple[float, float]) -> Doubles:
    """A Gaussian window around a front-view place and its mirror image, on the face only."""
    square = ((np.abs(p[:, 0]) - at[0]) / size[0]) ** 2 + ((p[:, 1] - at[1]) / size[1]) ** 2
    return np.asarray(np.exp(-square / 2) * smoothstep(0.0, 5.0, p[:, 2]), np.float64)


def identity_modes(p: Doubles, eyes: Bools) -> Doubles:
    """(28, n, 3) offsets of one standard deviation each."""
    zero = np.zeros(len(p))
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
    modes = [
        (0.035 * x, zero, zero),
        (zero, 0.035 * (y - 2), zero),
        (zero, zero, 0.04 * z),
        (0.25 * side * skull, zero, zero),
        (zero, 0.4 * skull, zero),
        (zero, zero, 0.35 * skull * np.sign(z)),
        (0.40 * side * jaw, zero, zero),
        (zero, -0.45 * jaw, zero),
        (zero, zero, 0.45 * chin),
        (0.35 * side * chin, zero, zero),
        (0.22 * side * (nose + wings), zero, zero),
        (zero, -0.28 * tip - 0.2 * wings, zero),
        (zero, zero, 0.38 * tip + 0.15 * nose),
        (zero, zero, 0.25 * bridge),
        (zero, 0.25 * tip, 0.1 * tip),
        (0.20 * side * _near(p, (3.15, 3.4), (2.0, 1.6)), zero, zero),
        (zero, 0.06 * (y - 3.4) * eye / 0.35, zero),
        (zero, 0.10 * eye * (np.abs(x) - 3.15), zero),
        (zero, 0.22 * brow, zero),
        (zero, zero, 0.22 * brow),
        (0.30 * side * cheek, zero, 0.12 * cheek),
        (0.28 * side * bone, zero, 0.15 * bone),
        (0.10 * x * mouth, zero, zero),
        (zero, 0.22 * (y + 4.1) * mouth, 0.12 * mouth),
        (zero, 0.25 * _near(p, (0, -4.1), (2.6, 1.3)), zero),
        (zero, zero, -0.30 * _near(p, (0, 9.0), (4.0, 2.0))),
        (0.10 * face * (y - 1) * 0.25, zero, zero),
        (0.20 * jaw * face, zero, zero),
    ]
    fields = np.stack([np.stack(mode, axis=1) for mode in modes])
    return _rigid_eyes(fields, p, eyes)


def _rigid_eyes(fields: Doubles, p: Doubles, eyes: Bools) -> Doubles:
    """Eyeballs move as a whole with the skin around them: they are shifted, never bent."""
    for side in (-1, 1):
        ball = eyes & (np.sign(p[:, 0]) == side)
        if ball.any():
            front = p[ball, 2] > np.quantile(p[ball, 2], 0.8)
            fields[:, ball] = fields[:, ball][:, front].mean(axis=1, keepdims=True)
    return fields


class _Fields:
    """Named fields of displacement over the vertices `p` (n, 3) of a head."""

    def __init__(self, p: Doubles) -> None:
        self.p = p
        self.named: dict[str, Doubles] = {}

    def one(self, name: str, dx: Doubles | float, dy: Doubles | float, dz: Doubles | float) -> None:
        """A field as it is."""
        zero = np.zeros(len(self.p))
        self.named[name] = np.stack([dx + zero, dy + zero, dz + zero], axis=1)

    def both(
        self, name: str, dx: Doubles | float, dy: Doubles | float, dz: Doubles | float
    ) -> None:
        """A symmetric field, split into the person's left (x > 0) and right side."""
        left = smoothstep(-0.8, 0.8, self.p[:, 0])[:, None]
        self.one(name, dx, dy, dz)
        field = self.named.pop(name)
        self.named[f"{name}_L"] = field * left
        self.named[f"{name}_R"] = field * (1 - left)


def expression_modes(
    p: Doubles,
    lip_side: Doubles,
    lids: Doubles,
    eyes: Bools,
    ball: tuple[float, float, float, float],
) -> tuple[tuple[str, ...], Doubles]:
    """Names and (e, n, 3) offsets at full strength.

    `lip_side` is +1 above and -1 below the line of the mouth, `lids` +1 on upper and -1 on
    lower lids, `ball` the centre and radius of the eye at x > 0.
    """
    fields = _Fields(p)
    _move_jaw(fields, lip_side)
    _move_mouth(fields, lip_side)
    _move_cheeks_and_brows(fields)
    _move_lids(fields, lids, ball)
    offsets = np.stack(list(fields.named.values()))
    offsets[:, eyes] = 0.0
    return tuple(fields.named), offsets


def _move_jaw(fields: _Fields, lip_side: Doubles) -> None:
    """The jaw turns about the ears; skin above the mouth follows less and less."""
    x, y, z = fields.p.T
    swing = smoothstep(-3.0, -6.0, y) * smoothstep(-1.0, 3.0, z) * smoothstep(-11.0, -8.8, y)
    swing = np.maximum(swing, (lip_side < 0) * _near(fields.p, (0, -4.6), (2.1, 1.3)))
    corners = np.exp(-(((np.abs(x) - 2.5) / 0.6) ** 2)) * np.exp(-(((y + 4.1) / 0.6) ** 2))
    swing = swing * (1 - 0.55 * corners * (lip_side < 0)) + 0.35 * corners * (lip_side >= 0)
    swing[lip_side == -1] = np.maximum(swing[lip_side == -1], 0)
    angle = np.radians(22.0) * swing
    dy, dz = y - 1.5, z + 0.5
    fields.one(
        "jawOpen",
        0.0,
        np.cos(angle) * dy - np.sin(angle) * dz - dy,
        np.sin(angle) * dy + np.cos(angle) * dz - dz,
    )
    fields.one("jawLeft", 0.8 * swing, 0.0, 0.0)
    fields.one("jawRight", -0.8 * swing, 0.0, 0.0)


def _move_mouth(fields: _Fields, lip_side: Doubles) -> None:
    p, one, both = fields.p, fields.one, fields.both
    x, y, _ = p.T
    side = np.sign(x) * np.minimum(np.abs(x) / 0.5, 1)
    corner = _near(p, (2.5, -4.1), (1.0, 0.9))
    upper = _near(p, (0, -3.5), (1.8, 0.6)) * (lip_side > 0)
    lower = _near(p, (0, -4.8), (1.7, 0.7)) * (lip_side < 0)
    mouth = _near(p, (0, -4.1), (2.2, 1.2))
    cheek = _near(p, (4.2, 0.2), (1.6, 1.3))
    both(
        "mouthSmile",
        0.75 * side * corner,
        0.85 * corner + 0.25 * cheek,
        -0.35 * corner + 0.15 * cheek,
    )
    both("mouthFrown", 0.1 * side * corner, -0.6 * corner, 0.0)
    both("mouthDimple", 0.35 * side * corner, 0.0, -0.3 * corner)
    both("mouthStretch", 0.7 * side * corner, -0.25 * corner, -0.2 * corner)
    both("mouthUpperUp", 0.0, 0.55 * upper, 0.05 * upper)
    both("mouthLowerDown", 0.0, -0.55 * lower, 0.0)
    both("mouthPress", 0.0, -0.15 * np.sign(y + 4.1) * mouth, -0.1 * mouth)
    one("mouthPucker", -0.30 * x * mouth, 0.05 * (y + 4.1) * mouth, 0.7 * mouth)
    one("mouthFunnel", -0.18 * x * mouth, 0.30 * lip_side * mouth, 0.5 * mouth)
    one("mouthRollUpper", 0.0, -0.1 * upper, -0.3 * upper)
    one("mouthRollLower", 0.0, 0.1 * lower, -0.3 * lower)
    one("mouthShrugLower", 0.0, 0.35 * lower, 0.15 * lower)
    one("mouthLeft", 0.8 * mouth, 0.0, 0.0)
    one("mouthRight", -0.8 * mouth, 0.0, 0.0)


def _move_cheeks_and_brows(fields: _Fields) -> None:
    p, both = fields.p, fields.both
    side = np.sign(p[:, 0]) * np.minimum(np.abs(p[:, 0]) / 0.5, 1)
    cheek = _near(p, (4.2, 0.2), (1.6, 1.3))
    inner_brow = _near(p, (1.6, 5.6), (1.1, 0.8))
    outer_brow = _near(p, (4.4, 5.6), (1.3, 0.8))
    sneer = _near(p, (1.3, -0.3), (0.7, 0.9))
    both("cheekPuff", 0.7 * side * cheek, 0.0, 0.4 * cheek)
    both("cheekSquint", 0.0, 0.35 * cheek, 0.15 * cheek)
    both("browInnerUp", 0.0, 0.65 * inner_brow, 0.0)
    both("browOuterUp", 0.0, 0.65 * outer_brow, 0.0)
    both(
        "browDown",
        -0.2 * side * inner_brow,
        -0.5 * inner_brow - 0.25 * outer_brow,
        0.1 * inner_brow,
    )
    both("noseSneer", 0.1 * side * sneer, 0.45 * sneer, 0.05 * sneer)


def _move_lids(fields: _Fields, lids: Doubles, ball: tuple[float, float, float, float]) -> None:
    """Lids slide over the ball: where they go, they stay before it."""
    x, y, z = fields.p.T
    over, under = np.clip(lids, 0, 1), np.clip(-lids, 0, 1)
    edge = np.exp(-(((y - 3.4) / 0.75) ** 4))
    travel = {
        "eyeBlink": -0.80 * over + 0.06 * under,
        "eyeSquint": -0.15 * over + 0.25 * under,
        "eyeWide": 0.22 * over - 0.05 * under,
        "eyeLookDown": -0.40 * over - 0.12 * under,
        "eyeLookUp": 0.18 * over + 0.08 * under,
    }
    for name, way in travel.items():
        dy = way * edge
        square = ball[3] ** 2 - (np.abs(x) - ball[0]) ** 2 - (y + dy - ball[1]) ** 2
        surface = ball[2] + np.sqrt(np.clip(square, 0, None)) + 0.18
        moved = np.abs(lids) * edge > 0.02
        fields.both(name, 0.0, dy, np.where(moved & (square > 0), np.maximum(surface - z, 0), 0))
