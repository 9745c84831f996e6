"""The text files of the COFW68 benchmark: four lines for each face.

The number of the image in COFW_test.mat (from 1), then all x, then all y, then the occlusion
of each landmark (1: hidden by something). Matlab wrote them, so pixels count from 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from luvli.data.formats.common import default_markup, warn_if_predictions
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError, brief
from luvli.files import PathLike, read_text, write_text

FIRST_PIXEL = 1.0
"""What the file calls the centre of the first pixel."""


def read_cofw68_text(path: PathLike) -> list[FaceRecord]:
    """Read the faces; their ids are those of the data set `cofw68`: 0001, 0002, ..."""
    lines = [line.split() for line in read_text(path).splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path} has no faces: is it a result of the COFW68 benchmark?")
    records = []
    for start in range(0, len(lines), 4):
        part = lines[start : start + 4]
        try:
            number = int(float(part[0][0]))
            x, y, occluded = (np.array([float(word) for word in line]) for line in part[1:])
            if len(part[0]) != 1 or not len(x) == len(y) == len(occluded):
                raise ValueError("its lines differ in length")
        except (ValueError, IndexError, OverflowError) as error:
            raise InputError(
                f"{path}, line {start + 1}: not a number and three lines of equally many numbers "
                f"({brief(error)}): is it a result of the COFW68 benchmark?"
            ) from error
        records.append(
            FaceRecord(
                points=np.stack([x, y], axis=1) - FIRST_PIXEL,
                visibility=np.where(
                    occluded > 0, Visibility.EXTERNALLY_OCCLUDED, Visibility.UNOCCLUDED
                ),
                markup=default_markup(len(x)),
                dataset="cofw68",
                face_id=f"{number:04d}",
            )
        )
    return records


def write_cofw68_text(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces whose id is the number of an image of COFW's test set."""
    warn_if_predictions(path, records, "the COFW68 benchmark")
    lines = []
    for record in records:
        if not record.face_id.isdecimal():
            raise InputError(
                f"{path} was not written: face {record.name!r} is not the number of a COFW image."
            )
        if not np.isfinite(record.points).all():
            raise InputError(f"{path} was not written: {record.name} has no place for a landmark.")
        places = record.points + FIRST_PIXEL
        hidden = record.visibility == Visibility.EXTERNALLY_OCCLUDED
        lines.append(str(int(record.face_id)))
        lines += [" ".join(f"{value:.3f}" for value in axis) for axis in places.T]
        lines.append(" ".join("1" if flag else "0" for flag in hidden))
    write_text(path, "\n".join(lines) + "\n")
