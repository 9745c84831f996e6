"""CFP, Celebrities in Frontal-Profile: profiles with 30 hand-placed points of the visible half.

`Data/Images/ID/profile/NN.jpg` and `Data/Fiducials/ID/profile/NN.txt`, a line `x,y` for each point,
counted from 1. A face that looks to the right of the picture shows its right half, one that looks
to the left its left half; the points run from the ear to the nose either way. What the other half
shows, if anything, is not labelled. The frontal pictures were labelled by a model and are not read.
Sengupta, Chen, Castillo, Patel, Chellappa and Jacobs, WACV 2016.
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
from luvli.files import read_text

# The landmark of the 68 that each of the 30 points is.
_RIGHT = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 8, 17, 19, 21, 36, 37, 38, 39, 41, 40),
    *(27, 28, 29, 30, 33, 32, 31, 48, 51, 62, 57, 66),
)
_LEFT = (
    *(16, 15, 14, 13, 12, 11, 10, 9, 8, 26, 24, 22, 45, 44, 43, 42, 46, 47),
    *(27, 28, 29, 30, 33, 34, 35, 54, 51, 62, 57, 66),
)
_EYE, _NOSE = slice(12, 16), slice(18, 22)

# Where CFP's people label elsewhere than MERL-RAV's: the median difference, in hundredths of the
# distance between landmarks 27 and 8, towards the nose and downwards. CFP's jaw begins at the root
# of the ear instead of at the temple, its lids are wider open, the wing of the nose is on its edge.
_ELSEWHERE: dict[int, tuple[float, float]] = {
    0: (1.9, 9.5), 1: (1.2, 6.4), 2: (1.0, 3.3), 5: (1.3, -1.7), 6: (-0.2, -2.4), 7: (-2.0, -2.3),
    17: (3.0, 1.3), 19: (2.6, 2.0), 21: (0.0, 2.1),
    37: (0.6, -1.5), 38: (0.3, -1.3), 41: (1.0, 2.0), 40: (0.4, 2.5),
    28: (-0.5, -0.6), 29: (-0.4, -1.6), 31: (-3.3, -2.7), 32: (-1.4, -0.1),
    62: (0.4, 1.7), 66: (0.9, 1.2),
}  # fmt: skip


def landmarks_of_profile(fiducials: Floats) -> Floats:
    """(30, 2) points as CFP gives them -> (68, 2) where MERL-RAV has them; NaN for the rest.

    Lids that are out of order, as behind sunglasses, are left out.
    """
    looks_right = fiducials[_NOSE, 0].mean() > fiducials[_EYE, 0].mean()
    names = _RIGHT if looks_right else _LEFT
    points = np.full((68, 2), np.nan)
    points[list(names)] = fiducials
    unit = np.linalg.norm(points[27] - points[8]) / 100
    towards_nose = unit if looks_right else -unit
    upper, lower = list(names[13:15]), list(names[16:18])
    if not (points[upper, 1] < points[lower, 1]).all():
        points[upper + lower] = np.nan
    for landmark, (forwards, down) in _ELSEWHERE.items():
        points[names[_RIGHT.index(landmark)]] -= forwards * towards_nose, down * unit
    return points


def read_cfp(reading: Reading) -> None:
    """All profiles; a person is `cfp-ID`."""
    people = reading.root / "Data/Fiducials"
    if not people.is_dir():
        reading.missing_folder(people, "a folder of labels for each person")
    for person in Folder(people).names:
        images = Folder(reading.root / "Data/Images" / person / "profile")
        for label in Folder(people / person / "profile").ending(".txt"):
            face_id, image = f"cfp-{person}_{label.stem}", images.image(label.stem)
            reading.face(label, face_id, partial(_face, label), image, subsets=["profile"])


def _face(label: Path) -> FaceRecord:
    try:
        rows = [line.split(",") for line in read_text(label).split()]
        fiducials = np.array(rows, dtype=np.float64) - 1
    except ValueError as error:
        raise InputError(
            f"{label} does not hold a pair x,y on each line: copy it again."
        ) from error
    if fiducials.shape != (30, 2) or not np.isfinite(fiducials).all():
        raise InputError(f"{label} has {len(fiducials)} points: CFP has 30, one on each line.")
    return face(landmarks_of_profile(fiducials))
