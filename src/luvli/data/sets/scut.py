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

from luvli.data.formats.common import face
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Reading
from luvli.data.sets.other_points import POINTS, as_ibug68
from luvli.data.sets.source_files import Folder
from luvli.errors import InputError
from luvli.files import unreadable

_GROUPS = {
    "AF": "asian_female", "AM": "asian_male", "CF": "caucasian_female", "CM": "caucasian_male"
}  # fmt: skip


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
    count = POINTS["scut"]["count"]
    try:
        content = label.read_bytes()
    except OSError as error:
        raise unreadable(label, error) from error
    if len(content) != 4 + 8 * count or int.from_bytes(content[:4], "little") != count:
        raise InputError(f"{label} is not a label of SCUT-FBP5500 with {count} points.")
    fiducials = np.frombuffer(content, "<f4", offset=4).reshape(count, 2).astype(np.float64)
    if not np.isfinite(fiducials).all():
        raise InputError(f"{label} has a point without a location: copy it again.")
    return face(as_ibug68(fiducials, "scut"))
