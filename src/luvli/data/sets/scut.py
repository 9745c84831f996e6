"""SCUT-FBP5500: frontal faces of Asian and Caucasian women and men with 86 points.

`Images/NAME.jpg` and `facial landmark/NAME.pts`, which is binary: the count as int32, then x and y
as float32, little-endian, counted from 0. 24 of the 68 landmarks can be read from them. The brows'
ends, the wings of the nose, the lower lip and the jaw lie on the same curves at other places and
stay unlabelled. Liang, Lin, Jin, Xie and Li, ICPR 2018.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.common import face
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import Folder
from luvli.errors import InputError
from luvli.files import unreadable
from luvli.image.polyline import points_along

_POINTS = 86
_SAME = {
    11: 8, 24: 19, 34: 24, 66: 33, 46: 36, 42: 39, 54: 42, 50: 45,
    79: 48, 78: 49, 77: 50, 76: 51, 75: 52, 74: 53, 73: 54,
}  # fmt: skip
"""point of the set -> landmark of the 68"""
# Lids from corner to corner. Three points stand between the corners, two landmarks at thirds.
_LIDS = (
    ((46, 45, 44, 43, 42), (37, 38)),
    ((46, 47, 48, 49, 42), (41, 40)),
    ((54, 53, 52, 51, 50), (43, 44)),
    ((54, 55, 56, 57, 50), (47, 46)),
)
_LOWER_LIP = (82, 83)
"""the two whose mean is landmark 57"""

_GROUPS = {
    "AF": "asian_female", "AM": "asian_male", "CF": "caucasian_female", "CM": "caucasian_male"
}  # fmt: skip


def landmarks_of_scut(fiducials: Floats) -> Floats:
    """(86, 2) points of the set as (68, 2); NaN where it has none."""
    points = np.full((68, 2), np.nan)
    points[list(_SAME.values())] = fiducials[list(_SAME)]
    points[57] = fiducials[list(_LOWER_LIP)].mean(axis=0)
    for line, landmarks in _LIDS:
        points[list(landmarks)] = points_along(fiducials[list(line)], (1 / 3, 2 / 3))
    return points


def read_scut(reading: Reading) -> None:
    """All faces, with the subset of their group."""
    folder = reading.root / "facial landmark"
    if not folder.is_dir():
        reading.missing_folder(folder, "the .pts files of SCUT-FBP5500")
    images = Folder(reading.root / "Images")
    for label in Folder(folder).ending(".pts"):
        if group := _GROUPS.get(label.stem[:2]):
            image, read = images.image(label.stem), partial(_face, label)
            reading.face(label, label.stem, read, image, subsets=[group])


def _face(label: Path) -> FaceRecord:
    try:
        content = label.read_bytes()
    except OSError as error:
        raise unreadable(label, error) from error
    if len(content) != 4 + 8 * _POINTS or int.from_bytes(content[:4], "little") != _POINTS:
        raise InputError(f"{label} is not a label of SCUT-FBP5500 with {_POINTS} points.")
    fiducials = np.frombuffer(content, "<f4", offset=4).reshape(_POINTS, 2).astype(np.float64)
    if not np.isfinite(fiducials).all():
        raise InputError(f"{label} has a point without a location: copy it again.")
    return face(landmarks_of_scut(fiducials))
