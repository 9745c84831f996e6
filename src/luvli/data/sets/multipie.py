"""Multi-PIE: the 812 frontal images on which the paper draws its mean uncertainties.

Camera 05_1, light 05, recording 01, sessions 1 to 4. Labels:
`MPie_Labels/labels/051/SSS_NN_01_051_05_lm.mat`, variable `pts` (68, 2), counted from 1.
Images: `Multi-PIE/data/sessionNN/multiview/SSS/01/05_1/SSS_NN_01_051_05.png`, or both kinds
of files together in one folder.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from luvli.data.formats.common import face
from luvli.data.formats.matlab import read_matlab_floats
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import Folder, first_existing

_LABEL = re.compile(r"(?P<subject>\d{3})_(?P<session>0[1-4])_01_051_05_lm\.mat")
_LABEL_FOLDERS = ("MPie_Labels/labels/051", "labels/051", ".")
_IMAGE_FOLDERS = ("Multi-PIE/data", "data", ".")


def read_multipie(reading: Reading) -> None:
    """The frontal neutral faces; other labels are counted in a note."""
    folder = first_existing(reading.root, _LABEL_FOLDERS)
    labels = Folder(folder).ending("_lm.mat") if folder else []
    if not labels:
        reading.missing_folder(reading.root / _LABEL_FOLDERS[0], "the label files *_lm.mat")
    matches = [(label, match) for label in labels if (match := _LABEL.fullmatch(label.name))]
    for label, match in matches:
        stem, session = label.name.removesuffix("_lm.mat"), f"session{match['session']}"
        tree = f"{session}/multiview/{match['subject']}/01/05_1/{stem}.png"
        places = [f"{stem}.png", *(f"{place}/{tree}" for place in _IMAGE_FOLDERS)]
        image = first_existing(reading.root, places) if reading.images else None
        reading.face(label, stem, partial(_face, label), image, f"{stem}.png", [session])
    if others := len(labels) - len(matches):
        why = "labels of other recordings or sessions are left out."
        reading.found.notes.append(f"{folder}: {others} {why}")


def _face(label: Path) -> FaceRecord:
    return face(read_matlab_floats(label, "pts", (68, 2)) - 1)
