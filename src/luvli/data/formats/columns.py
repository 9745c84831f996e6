"""Numbered columns of a table, in whatever way people name them.

`x_0`, `x0`, `point_x_0`, `landmark_0_x`, `original_0_x`, `0_x`, counted from 0 or 1. A file may
hold several such families (OpenFace has eyes `eye_lmk_x_0`, 3-D points `X_0` and gaze `gaze_0_x`
beside the landmarks `x_0`): the one with most landmarks is taken, small letters before
capital ones, since capitals mean 3-D points wherever both stand in one file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_AXES = "xx|xy|yy|x|y|visibility|class|XX|XY|YY|X|Y"
_STYLES = (
    re.compile(rf"^(?P<prefix>(?:[A-Za-z]+_)*)(?P<axis>{_AXES})_?(?P<number>\d{{1,6}})$"),
    re.compile(rf"^(?P<prefix>(?:[A-Za-z]+_)*)(?P<number>\d{{1,6}})_?(?P<axis>{_AXES})$"),
)


def numbered_columns(header: Sequence[str]) -> dict[str, list[str]]:
    """Columns by what they hold (x, y, xx, xy, yy, visibility, class), in the landmarks' order.

    >>> numbered_columns(["gaze_0_x", " x_0", " x_1", " y_0", " y_1", " X_0", " Y_0"])
    {'x': [' x_0', ' x_1'], 'y': [' y_0', ' y_1']}
    >>> numbered_columns(["image", "score"])
    {}
    """
    families: dict[tuple[int, str, bool], dict[str, dict[int, str]]] = {}
    for column in header:
        for style, pattern in enumerate(_STYLES):
            match = pattern.match(column.strip())
            if match:
                axis = match["axis"]
                family = (style, match["prefix"].lower(), axis.isupper())
                held = families.setdefault(family, {}).setdefault(axis.lower(), {})
                held[int(match["number"])] = column
                break

    def landmarks(family: tuple[int, str, bool]) -> int:
        held = families[family]
        return len(held.get("x", {}).keys() & held.get("y", {}).keys())

    whole = [family for family in families if landmarks(family)]
    if not whole:
        return {}
    # most landmarks; then small letters, no prefix, number last
    best = min(whole, key=lambda family: (-landmarks(family), family[2], family[1] != "", family))
    return {
        axis: [names[number] for number in sorted(names)] for axis, names in families[best].items()
    }


def column_named(header: Sequence[str], *names: str) -> str | None:
    """The first column with one of these names; case and blanks around it do not matter."""
    lower = {column.strip().lower(): column for column in reversed(header)}
    return next((lower[name] for name in names if name in lower), None)


IMAGE_COLUMNS = (
    "image", "image_name", "image_path", "imgpath", "img_path", "img_paths", "image_file", "file",
    "filename", "file_name", "path", "file_path",
)  # fmt: skip
"""what the column, or the key, of an image's name is called"""
FACE_COLUMNS = ("face_id", "name")
