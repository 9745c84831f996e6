"""The London and Canada sets: frontal portraits that anyone may use (CC BY 4.0).

`points189.json` beside the images has 189 points of a template of its own, of which 63 of the 68
landmarks can be read; the others (tip and floor of the nose, inner corners of the mouth) stay
unlabelled. London (Face Research Lab): `neutral_NNN_03.jpg` and `smiling_NNN_03.jpg` of 102 people,
only neutral ones have templates. Canada (a university): `NNNf.jpg` and `NNNm.jpg`, neutral.
DeBruine and Jones, 2017, doi 10.6084/m9.figshare.5047666.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.checked import load_json
from luvli.data.formats.common import face
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Reading
from luvli.data.sets.other_points import as_ibug68
from luvli.data.sets.source_files import Folder, natural_key
from luvli.errors import InputError

_LABELS = "points189.json"

# Edges of the lips from corner to corner, and the landmarks on each that stand in the columns of
# the upper lip's left peak, middle and right peak.
_COLUMNS = (89, 90, 91)
_LIPS = (
    ((87, 94, 95, 96, 97, 98, 93), (61, 62, 63)),
    ((87, 99, 100, 101, 102, 103, 93), (67, 66, 65)),
    ((87, 104, 105, 106, 107, 108, 93), (58, 57, 56)),
)
# First point of each side's outline, and the outer corner of its eye. The template's people began
# the outline at the root of the ear: 0.052 of the eyes' distance below the eyes on average, but by
# 0.085 more or less.
_OUTLINES = ((109, 18), (112, 27))
_ROOT_OF_EAR = 0.052


def landmarks_of_template(template: Floats) -> Floats:
    """(189, 2) points of the template as (68, 2); NaN where it has none.

    The template counts from the corner of the image, half a pixel before the first pixel's centre:
    as it stands, its points lie 0.4 px to the right of their mirror images'.
    """
    template = template.copy()
    across = template[27] - template[18]
    distance = np.linalg.norm(across)
    across /= distance
    down = np.array([-across[1], across[0]])
    for first, corner in _OUTLINES:  # straight up or down the temple, to the usual height
        aside = (template[first] - template[corner]) @ across
        template[first] = template[corner] + across * aside + down * _ROOT_OF_EAR * distance
    points = as_ibug68(template, "london")
    columns = template[list(_COLUMNS)] @ across
    for line, landmarks in _LIPS:
        edge = template[list(line)]
        points[list(landmarks)] = [_at_column(edge, across, column) for column in columns]
    return points - 0.5


def _at_column(line: Floats, across: Floats, column: float) -> Floats:
    """Where a `line` (n, 2) that runs `across` the face meets a column of it."""
    places = line @ across
    return np.array([np.interp(column, places, line[:, axis]) for axis in (0, 1)])


def read_london(reading: Reading) -> None:
    """The neutral portraits, which have templates, and the smiling ones, which have none."""

    def name(stem: str, labelled: bool) -> tuple[str, Sequence[str]] | None:
        mood, _, number = stem.partition("_")
        moods = {"neutral": 1, "smiling": 2}
        return (f"{number.split('_')[0]}_{moods[mood]}", [mood]) if mood in moods else None

    _read(reading, name)


def read_canada(reading: Reading) -> None:
    """The portraits that have a template."""
    _read(reading, lambda stem, labelled: (stem, []) if labelled else None)


def _read(reading: Reading, name: Callable[[str, bool], tuple[str, Sequence[str]] | None]) -> None:
    """Portraits with the landmarks of their templates; all are unlabelled where there is none.

    `name`: stem of an image, and whether it has a template -> what ends its id, and its subsets.
    """
    path = reading.root / _LABELS
    if not path.is_file():
        reading.missing_file(path, "copy it there")
        return
    templates = load_json(path)
    images = {image.name: image for image in Folder(reading.root).images}
    for image in sorted({*templates, *images}, key=natural_key):
        if known := name(Path(image).stem, image in templates):
            face_id, subsets = f"{reading.info.name}-{known[0]}", known[1]
            read = partial(_face, path, templates.get(image))
            reading.face(path, face_id, read, images.get(image), image, subsets)


def _face(path: Path, template: Any) -> FaceRecord:
    if template is None:
        return face(np.full((68, 2), np.nan))
    try:
        return face(landmarks_of_template(np.array(template, dtype=np.float64).reshape(189, 2)))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} has a template without 189 points: copy it again.") from error
