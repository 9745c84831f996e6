"""The built-in point sets, each declared in a file of `point_sets`, and the maps between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.files import packaged_toml
from luvli.markup.point_set import GROUPS, Markup

BUILT_IN = ("ibug68", "wflw98", "cofw29", "aflw19", "menpo39")

_GROUP_OF = {
    "jaw": "jaw", "chin": "jaw", "brow": "brows", "nose": "nose", "eye": "eyes", "pupil": "eyes",
    "lips": "mouth", "mouth": "mouth",
}  # fmt: skip
"""by a word in the name of a part"""


@cache
def _facts(name: str) -> dict[str, Any]:
    return packaged_toml(__package__, f"point_sets/{name}.toml")


@cache
def built_in(name: str) -> Markup:
    """A built-in point set; its groups, eyes and corners follow from the names."""
    facts = _facts(name)
    names, parts = facts["names"], {part: tuple(of) for part, of in facts["parts"].items()}
    groups: dict[str, set[int]] = {group: set() for group in GROUPS}
    for part, members in parts.items():
        groups[next(group for word, group in _GROUP_OF.items() if word in part)].update(members)
    sides = ("", "") if "eye" in parts else ("right ", "left ")
    right, left = (names.index(f"{side}eye outer corner") for side in sides)
    drawn_as = facts.get("drawn_as") or conversion("wflw98", name) or range(98)
    return Markup(
        name=name,
        names=tuple(names),
        parts=parts,
        closed=frozenset(facts["closed"]),
        groups={group: tuple(sorted(members)) for group, members in groups.items()},
        outer_eye_corners=(right, left),
        eyes=(parts[f"{sides[0]}eye"], parts[f"{sides[1]}eye"]),
        schematic=gather(_drawn_face(), drawn_as),
    )


def conversion(source: str, target: str) -> Sequence[int | list[int]] | None:
    """For each landmark of the target: the source landmark, or those whose mean it is."""
    of = _facts(target).get("of", {}) if target in BUILT_IN else {}
    table: Sequence[int | list[int]] | None = of.get(source)
    return table


def conversions() -> list[tuple[str, str]]:
    """Every pair of source and target between which there is a map."""
    return [(source, target) for target in BUILT_IN for source in _facts(target).get("of", ())]


def gather(values: NDArray[np.float64], table: Sequence[int | list[int]]) -> NDArray[np.float64]:
    columns = [np.atleast_1d(index) for index in table]
    return np.stack([values[..., index, :].mean(axis=-2) for index in columns], axis=-2)


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
