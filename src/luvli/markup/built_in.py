"""The built-in point sets, and which landmark of one is which of another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from luvli.markup.point_set import Markup, mirrored


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem} {n}" for n in range(1, count + 1)]


def _symmetric(stem: str, half: int, middle: str | None) -> list[str]:
    """Names along a line that crosses the face: right 1..half, middle, left half..1."""
    right = _numbered(f"right {stem}", half)
    return [*right, *([middle] if middle else []), *reversed([mirrored(n) for n in right])]


def _indices(names: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...]:
    return tuple(names.index(name) for name in wanted)


_EYE_6 = [
    "outer corner",
    "upper lid outer",
    "upper lid inner",
    "inner corner",
    "lower lid inner",
    "lower lid outer",
]
_EYE_8 = [
    "outer corner",
    "upper lid outer",
    "upper lid middle",
    "upper lid inner",
    "inner corner",
    "lower lid inner",
    "lower lid middle",
    "lower lid outer",
]
_MOUTH_20 = [
    "right mouth corner",
    *_symmetric("upper lip", 2, "upper lip middle"),
    "left mouth corner",
    *[mirrored(n) for n in _symmetric("lower lip", 2, "lower lip middle")],
    "right inner mouth corner",
    *_symmetric("inner upper lip", 1, "inner upper lip middle"),
    "left inner mouth corner",
    *[mirrored(n) for n in _symmetric("inner lower lip", 1, "inner lower lip middle")],
]
_NOSE_9 = [*_numbered("nose bridge", 3), "nose tip", *_symmetric("nostril", 2, "nose base")]


def _left_eye(right: Sequence[str]) -> list[str]:
    """The left eye is listed from its inner corner, upper lid first, as in all these sets."""
    half = len(right) // 2
    upper, lower = right[: half + 1], [right[0], *reversed(right[half + 1 :])]
    return [*reversed(upper), *lower[1:]]


def _eye_names(corners: Sequence[str]) -> tuple[list[str], list[str]]:
    right = [f"right eye {n}" for n in corners]
    return right, [f"left eye {n}" for n in _left_eye(corners)]


def ibug68() -> Markup:
    right_eye, left_eye = _eye_names(_EYE_6)
    right_brow = _numbered("right brow", 5)
    names = [
        *_symmetric("jaw", 8, "chin"),
        *right_brow,
        *[mirrored(n) for n in reversed(right_brow)],
        *_NOSE_9,
        *right_eye,
        *left_eye,
        *_MOUTH_20,
    ]
    return Markup(
        name="ibug68",
        names=tuple(names),
        parts={
            "jaw": tuple(range(17)),
            "right brow": tuple(range(17, 22)),
            "left brow": tuple(range(22, 27)),
            "nose bridge": tuple(range(27, 31)),
            "nose base": tuple(range(31, 36)),
            "right eye": tuple(range(36, 42)),
            "left eye": tuple(range(42, 48)),
            "outer lips": tuple(range(48, 60)),
            "inner lips": tuple(range(60, 68)),
        },
        closed=frozenset({"right eye", "left eye", "outer lips", "inner lips"}),
        groups={
            "jaw": tuple(range(17)),
            "brows": tuple(range(17, 27)),
            "nose": tuple(range(27, 36)),
            "eyes": tuple(range(36, 48)),
            "mouth": tuple(range(48, 68)),
        },
        outer_eye_corners=(36, 45),
        eyes=(tuple(range(36, 42)), tuple(range(42, 48))),
        schematic=gather(_drawn_face(), _WFLW_TO_IBUG),
    )


def wflw98() -> Markup:
    right_eye, left_eye = _eye_names(_EYE_8)
    right_brow = [*_numbered("right brow upper", 5), *_numbered("right brow lower", 4)]
    names = [
        *_symmetric("jaw", 16, "chin"),
        *right_brow,
        *[mirrored(n) for n in reversed(right_brow[:5])],
        *[mirrored(n) for n in reversed(right_brow[5:])],
        *_NOSE_9,
        *right_eye,
        *left_eye,
        *_MOUTH_20,
        "right pupil",
        "left pupil",
    ]
    return Markup(
        name="wflw98",
        names=tuple(names),
        parts={
            "jaw": tuple(range(33)),
            "right brow": tuple(range(33, 42)),
            "left brow": tuple(range(42, 51)),
            "nose bridge": tuple(range(51, 55)),
            "nose base": tuple(range(55, 60)),
            "right eye": tuple(range(60, 68)),
            "left eye": tuple(range(68, 76)),
            "outer lips": tuple(range(76, 88)),
            "inner lips": tuple(range(88, 96)),
            "right pupil": (96,),
            "left pupil": (97,),
        },
        closed=frozenset(
            {"right brow", "left brow", "right eye", "left eye", "outer lips", "inner lips"}
        ),
        groups={
            "jaw": tuple(range(33)),
            "brows": tuple(range(33, 51)),
            "nose": tuple(range(51, 60)),
            "eyes": (*range(60, 76), 96, 97),
            "mouth": tuple(range(76, 96)),
        },
        outer_eye_corners=(60, 72),
        eyes=(tuple(range(60, 68)), tuple(range(68, 76))),
        schematic=_drawn_face(),
    )


def cofw29() -> Markup:
    pairs = {
        0: "right brow outer end",
        2: "right brow inner end",
        4: "right brow upper middle",
        5: "right brow lower middle",
        8: "right eye outer corner",
        10: "right eye inner corner",
        12: "right eye upper lid",
        13: "right eye lower lid",
        16: "right pupil",
        18: "right nostril",
        22: "right mouth corner",
    }
    partner = {0: 1, 2: 3, 4: 6, 5: 7, 8: 9, 10: 11, 12: 14, 13: 15, 16: 17, 18: 19, 22: 23}
    names = [""] * 29
    for index, name in pairs.items():
        names[index], names[partner[index]] = name, mirrored(name)
    names[20], names[21] = "nose tip", "nose base"
    names[24:29] = [
        "upper lip middle",
        "inner upper lip middle",
        "inner lower lip middle",
        "lower lip middle",
        "chin",
    ]
    return Markup(
        name="cofw29",
        names=tuple(names),
        parts={
            "chin": (28,),
            "right brow": (0, 4, 2, 5),
            "left brow": (1, 6, 3, 7),
            "nose": (18, 20, 19, 21),
            "right eye": (8, 12, 10, 13),
            "left eye": (9, 14, 11, 15),
            "right pupil": (16,),
            "left pupil": (17,),
            "outer lips": (22, 24, 23, 27),
            "inner lips": (22, 25, 23, 26),
        },
        closed=frozenset(
            {
                "right brow",
                "left brow",
                "nose",
                "right eye",
                "left eye",
                "outer lips",
                "inner lips",
            }
        ),
        groups={
            "jaw": (28,),
            "brows": tuple(range(8)),
            "nose": (18, 19, 20, 21),
            "eyes": tuple(range(8, 18)),
            "mouth": tuple(range(22, 28)),
        },
        outer_eye_corners=(8, 9),
        eyes=((8, 10, 12, 13), (9, 11, 14, 15)),
        schematic=gather(_drawn_face(), CONVERSIONS["wflw98", "cofw29"]),
    )


def aflw19() -> Markup:
    right_brow = [f"right brow {n}" for n in ("outer end", "middle", "inner end")]
    right_eye = [f"right eye {n}" for n in ("outer corner", "centre", "inner corner")]
    names = [
        *right_brow,
        *[mirrored(n) for n in reversed(right_brow)],
        *right_eye,
        *[mirrored(n) for n in reversed(right_eye)],
        "right nostril",
        "nose tip",
        "left nostril",
        "right mouth corner",
        "mouth centre",
        "left mouth corner",
        "chin",
    ]
    return Markup(
        name="aflw19",
        names=tuple(names),
        parts={
            "right brow": (0, 1, 2),
            "left brow": (3, 4, 5),
            "right eye": (6, 7, 8),
            "left eye": (9, 10, 11),
            "nose": (12, 13, 14),
            "mouth": (15, 16, 17),
            "chin": (18,),
        },
        closed=frozenset(),
        groups={
            "jaw": (18,),
            "brows": tuple(range(6)),
            "nose": (12, 13, 14),
            "eyes": tuple(range(6, 12)),
            "mouth": (15, 16, 17),
        },
        outer_eye_corners=(6, 11),
        eyes=((6, 7, 8), (9, 10, 11)),
        schematic=gather(_drawn_face(), CONVERSIONS["wflw98", "aflw19"]),
    )


def menpo39() -> Markup:
    """The visible half of a profile, left or right alike: its mirror image has the same names."""
    eye = ("upper lid inner", "upper lid outer", "outer corner", "lower lid outer")
    lip, inner = ("lip 1", "lip 2"), ("inner {} lip middle", "inner {} lip")
    names = [
        *_numbered("jaw", 12),
        *_numbered("brow", 4),
        *_numbered("nose bridge", 3),
        *("nose tip", "nose base", "nostril"),
        *(f"eye {part}" for part in (*eye, "lower lid inner")),
        *("upper lip middle", *(f"upper {part}" for part in lip), "mouth corner"),
        *(*(f"lower {part}" for part in lip), "lower lip middle"),
        *(*(part.format("upper") for part in inner), "inner mouth corner"),
        *(part.format("lower") for part in reversed(inner)),
    ]
    groups = {
        "jaw": tuple(range(12)),
        "brows": tuple(range(12, 16)),
        "nose": tuple(range(16, 22)),
        "eyes": tuple(range(22, 27)),
        "mouth": tuple(range(27, 39)),
    }
    parts = {"brow": groups["brows"], "nose bridge": tuple(range(16, 20)), "nose base": (20, 21)}
    parts |= {"eye": groups["eyes"], "outer lips": tuple(range(27, 34))}
    jaw = (0, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 16)
    half = (*jaw, 33, 34, 36, 37, 51, 52, 53, 54, 57, 55, 63, 61, 60, 67, 65)
    lips = (79, 78, 77, 76, 87, 86, 85, 90, 89, 88, 95, 94)
    return Markup(
        name="menpo39",
        names=tuple(names),
        parts={"jaw": groups["jaw"], **parts, "inner lips": tuple(range(34, 39))},
        closed=frozenset(),
        groups=groups,
        outer_eye_corners=(24, 24),  # one eye: there is no inter-ocular distance
        eyes=(groups["eyes"], groups["eyes"]),
        schematic=gather(_drawn_face(), (*half, *lips)),
    )


def _drawn_face() -> NDArray[np.float64]:
    """(98, 2) a plain face made of arcs, mirror-symmetric by construction."""

    def arc(
        centre: tuple[float, float], rx: float, ry: float, start: float, stop: float, n: int
    ) -> NDArray[np.float64]:
        t = np.radians(np.linspace(start, stop, n))
        return np.stack([centre[0] + rx * np.cos(t), centre[1] + ry * np.sin(t)], axis=1)

    def mirror(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return points * (-1.0, 1.0)

    jaw = arc((0.0, -0.15), 0.95, 1.25, 188.0, -8.0, 33)
    upper = arc((-0.47, -0.42), 0.33, 0.22, 195.0, 335.0, 5)
    lower = arc((-0.47, -0.36), 0.30, 0.17, 320.0, 220.0, 4)
    bridge = np.stack([np.zeros(4), np.linspace(-0.38, 0.22, 4)], axis=1)
    base = np.array([(-0.2, 0.33), (-0.1, 0.38), (0.0, 0.41), (0.1, 0.38), (0.2, 0.33)])
    eye = arc((-0.45, -0.25), 0.19, 0.085, 180.0, 180.0 + 315.0, 8)
    left_eye = mirror(eye)[[4, 3, 2, 1, 0, 7, 6, 5]]
    outer = arc((0.0, 0.68), 0.38, 0.17, 180.0, 180.0 + 330.0, 12)
    outer[3, 1] += 0.03  # Cupid's bow
    inner = arc((0.0, 0.68), 0.29, 0.07, 180.0, 180.0 + 315.0, 8)
    pupils = np.array([(-0.45, -0.25), (0.45, -0.25)])
    brows = [upper, lower, mirror(upper)[::-1], mirror(lower)[::-1]]
    return np.concatenate([jaw, *brows, bridge, base, eye, left_eye, outer, inner, pupils])


_WFLW_TO_IBUG: tuple[int, ...] = (
    *range(0, 33, 2),
    *range(33, 38),
    *range(42, 47),
    *range(51, 60),
    *(60, 61, 63, 64, 65, 67),
    *(68, 69, 71, 72, 73, 75),
    *range(76, 96),
)

# For each landmark of the target: the source landmark, or those whose mean it is.
CONVERSIONS: dict[tuple[str, str], tuple[int | tuple[int, ...], ...]] = {
    ("wflw98", "ibug68"): _WFLW_TO_IBUG,
    ("wflw98", "cofw29"): (
        *(33, 46, (37, 38), (42, 50), 35, (39, 40), 44, (48, 49)),
        *(60, 72, 64, 68, 62, 66, 70, 74, 96, 97),
        *(55, 59, 54, 57, 76, 82, 79, 90, 94, 85, 16),
    ),
    ("wflw98", "aflw19"): (
        *(33, (35, 39, 40), (37, 38), (42, 50), (44, 48, 49), 46),
        *(60, 96, 64, 68, 97, 72, 55, 54, 59, 76, (90, 94), 82, 16),
    ),
    ("ibug68", "aflw19"): (
        *(17, 19, 21, 22, 24, 26),
        *(36, (37, 38, 40, 41), 39, 42, (43, 44, 46, 47), 45),
        *(31, 30, 35, 48, (62, 66), 54, 8),
    ),
}


def gather(
    values: NDArray[np.float64], table: Sequence[int | tuple[int, ...]]
) -> NDArray[np.float64]:
    columns = [np.atleast_1d(index) for index in table]
    return np.stack([values[..., index, :].mean(axis=-2) for index in columns], axis=-2)


BUILDERS = {
    "ibug68": ibug68, "wflw98": wflw98, "cofw29": cofw29, "aflw19": aflw19, "menpo39": menpo39,
}  # fmt: skip
