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
from luvli.data.sets.other_points import POINTS
from luvli.data.sets.source_files import Folder
from luvli.errors import InputError
from luvli.files import read_text

_EYE, _NOSE = slice(12, 16), slice(18, 22)


def landmarks_of_profile(fiducials: Floats) -> Floats:
    """(30, 2) points as CFP gives them -> (68, 2) where MERL-RAV has them; NaN for the rest.

    Lids that are out of order, as behind sunglasses, are left out.
    """
    looks_right = fiducials[_NOSE, 0].mean() > fiducials[_EYE, 0].mean()
    facts = POINTS["cfp"]
    names = facts["right" if looks_right else "left"]
    points = np.full((68, 2), np.nan)
    points[names] = fiducials
    unit = np.linalg.norm(points[27] - points[8]) / 100
    towards_nose = unit if looks_right else -unit
    upper, lower = names[13:15], names[16:18]
    if not (points[upper, 1] < points[lower, 1]).all():
        points[upper + lower] = np.nan
    for landmark, (forwards, down) in facts["elsewhere"].items():
        moved = names[facts["right"].index(int(landmark))]
        points[moved] -= forwards * towards_nose, down * unit
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
