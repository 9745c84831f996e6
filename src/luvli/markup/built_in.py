"""The built-in point sets, and which landmark of one is which of another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from luvli.markup.point_set import GROUPS, Markup, mirrored

_GROUP_OF = {
    "jaw": "jaw", "chin": "jaw", "brow": "brows", "nose": "nose", "eye": "eyes", "pupil": "eyes",
    "lips": "mouth", "mouth": "mouth",
}  # fmt: skip
"""by a word in the name of a part"""


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem} {n}" for n in range(1, count + 1)]


def _mirrored(names: Sequence[str]) -> list[str]:
    """The names of the other side, in the opposite order."""
    return [mirrored(name) for name in reversed(names)]


def _symmetric(stem: str, half: int, middle: str) -> list[str]:
    """Names along a line that crosses the face: right 1..half, middle, left half..1."""
    right = _numbered(f"right {stem}", half)
    return [*right, middle, *_mirrored(right)]


def _eyes(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Both eyes around their lids: from the right outer corner, from the left inner corner."""
    over = [f"right eye {part}" for part in ("outer corner", *upper, "inner corner")]
    under = [f"right eye {part}" for part in lower]
    return [*over, *under, *_mirrored(over), *_mirrored(under)]


_MOUTH_20 = [
    "right mouth corner",
    *_symmetric("upper lip", 2, "upper lip middle"),
    "left mouth corner",
    *reversed(_symmetric("lower lip", 2, "lower lip middle")),
    "right inner mouth corner",
    *_symmetric("inner upper lip", 1, "inner upper lip middle"),
    "left inner mouth corner",
    *reversed(_symmetric("inner lower lip", 1, "inner lower lip middle")),
]
_NOSE_9 = [*_numbered("nose bridge", 3), "nose tip", *_symmetric("nostril", 2, "nose base")]


def _runs(**counts: int) -> dict[str, tuple[int, ...]]:
    """Parts that follow each other, by name and number of landmarks; "_" reads as a space."""
    parts, first = {}, 0
    for name, count in counts.items():
        parts[name.replace("_", " ")] = tuple(range(first, first + count))
        first += count
    return parts


def _markup(
    name: str,
    names: Sequence[str],
    parts: Mapping[str, tuple[int, ...]],
    closed: Collection[str],
    of_wflw98: Sequence[int | tuple[int, ...]],
) -> Markup:
    """A point set; its groups, eyes and corners follow from the names.

    `closed` are words in the names of closed parts, `of_wflw98` which of the 98 points each
    landmark is, for the drawn face.
    """
    groups: dict[str, set[int]] = {group: set() for group in GROUPS}
    for part, members in parts.items():
        groups[next(group for word, group in _GROUP_OF.items() if word in part)].update(members)
    sides = ("", "") if "eye" in parts else ("right ", "left ")
    right, left = (names.index(f"{side}eye outer corner") for side in sides)
    return Markup(
        name=name,
        names=tuple(names),
        parts=parts,
        closed=frozenset(part for part in parts if part.split()[-1] in closed),
        groups={group: tuple(sorted(members)) for group, members in groups.items()},
        outer_eye_corners=(right, left),
        eyes=(parts[f"{sides[0]}eye"], parts[f"{sides[1]}eye"]),
        schematic=gather(_drawn_face(), of_wflw98),
    )


def ibug68() -> Markup:
    brow = _numbered("right brow", 5)
    eyes = _eyes(("upper lid outer", "upper lid inner"), ("lower lid inner", "lower lid outer"))
    return _markup(
        "ibug68",
        [*_symmetric("jaw", 8, "chin"), *brow, *_mirrored(brow), *_NOSE_9, *eyes, *_MOUTH_20],
        _runs(
            jaw=17, right_brow=5, left_brow=5, nose_bridge=4, nose_base=5, right_eye=6, left_eye=6,
            outer_lips=12, inner_lips=8,
        ),
        ("eye", "lips"),
        _WFLW_TO_IBUG,
    )  # fmt: skip


def wflw98() -> Markup:
    upper, lower = _numbered("right brow upper", 5), _numbered("right brow lower", 4)
    eyes = _eyes(
        ("upper lid outer", "upper lid middle", "upper lid inner"),
        ("lower lid inner", "lower lid middle", "lower lid outer"),
    )
    brows = [*upper, *lower, *_mirrored(upper), *_mirrored(lower)]
    jaw = _symmetric("jaw", 16, "chin")
    return _markup(
        "wflw98",
        [*jaw, *brows, *_NOSE_9, *eyes, *_MOUTH_20, "right pupil", "left pupil"],
        _runs(
            jaw=33, right_brow=9, left_brow=9, nose_bridge=4, nose_base=5, right_eye=8, left_eye=8,
            outer_lips=12, inner_lips=8, right_pupil=1, left_pupil=1,
        ),
        ("brow", "eye", "lips"),
        range(98),
    )  # fmt: skip


def cofw29() -> Markup:
    right = {
        "brow outer end": 0, "brow inner end": 2, "brow upper middle": 4, "brow lower middle": 5,
        "eye outer corner": 8, "eye inner corner": 10, "eye upper lid": 12, "eye lower lid": 13,
        "pupil": 16, "nostril": 18, "mouth corner": 22,
    }  # fmt: skip
    left = (1, 3, 6, 7, 9, 11, 14, 15, 17, 19, 23)
    names = [""] * 29
    for (name, one), other in zip(right.items(), left, strict=True):
        names[one], names[other] = f"right {name}", f"left {name}"
    names[20:22] = "nose tip", "nose base"
    names[24:27] = "upper lip middle", "inner upper lip middle", "inner lower lip middle"
    names[27:] = "lower lip middle", "chin"
    parts = {
        "chin": (28,),
        "right brow": (0, 4, 2, 5), "left brow": (1, 6, 3, 7),
        "nose": (18, 20, 19, 21),
        "right eye": (8, 12, 10, 13), "left eye": (9, 14, 11, 15),
        "right pupil": (16,), "left pupil": (17,),
        "outer lips": (22, 24, 23, 27), "inner lips": (22, 25, 23, 26),
    }  # fmt: skip
    closed = ("brow", "nose", "eye", "lips")
    return _markup("cofw29", names, parts, closed, CONVERSIONS["wflw98", "cofw29"])


def aflw19() -> Markup:
    brow = [f"right brow {part}" for part in ("outer end", "middle", "inner end")]
    eye = [f"right eye {part}" for part in ("outer corner", "centre", "inner corner")]
    names = [*brow, *_mirrored(brow), *eye, *_mirrored(eye), "right nostril", "nose tip"]
    names += ["left nostril", "right mouth corner", "mouth centre", "left mouth corner", "chin"]
    parts = _runs(right_brow=3, left_brow=3, right_eye=3, left_eye=3, nose=3, mouth=3, chin=1)
    return _markup("aflw19", names, parts, (), CONVERSIONS["wflw98", "aflw19"])


def menpo39() -> Markup:
    """The visible half of a profile, left or right alike: its mirror image has the same names.

    There is one eye, so there is no inter-ocular distance.
    """
    names = [*_numbered("jaw", 12), *_numbered("brow", 4), *_numbered("nose bridge", 3)]
    names += ["nose tip", "nose base", "nostril", "eye upper lid inner", "eye upper lid outer"]
    names += ["eye outer corner", "eye lower lid outer", "eye lower lid inner"]
    names += ["upper lip middle", "upper lip 1", "upper lip 2", "mouth corner"]
    names += ["lower lip 1", "lower lip 2", "lower lip middle"]
    names += ["inner upper lip middle", "inner upper lip", "inner mouth corner"]
    names += ["inner lower lip", "inner lower lip middle"]
    parts = _runs(jaw=12, brow=4, nose_bridge=4, nose_base=2, eye=5, outer_lips=7, inner_lips=5)
    jaw = (0, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 16)
    half = (*jaw, 33, 34, 36, 37, 51, 52, 53, 54, 57, 55, 63, 61, 60, 67, 65)
    lips = (79, 78, 77, 76, 87, 86, 85, 90, 89, 88, 95, 94)
    return _markup("menpo39", names, parts, (), (*half, *lips))


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
    *range(0, 33, 2), *range(33, 38), *range(42, 47), *range(51, 60),
    *(60, 61, 63, 64, 65, 67), *(68, 69, 71, 72, 73, 75), *range(76, 96),
)  # fmt: skip

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
