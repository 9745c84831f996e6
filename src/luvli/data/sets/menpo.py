"""Menpo 2D, the training release: `.pts` beside the images, 68 points or 39 for profiles.

The paper tests on the 6,679 faces with 68 points (split `frontal`). The 39 points of the
profile faces mean other places of the face, so they are a split of their own (`profile`,
markup `menpo39`) and never mix with the 68.

Counts differ by release: the challenge names 5,658 + 1,906 training faces (the 7,564 of the
paper's Table 1), the MenpoBenchmark project 6,653 + 2,290, and the paper tested on 6,679.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import label_pairs, read_labelled, walk
from luvli.errors import InputError

_POINTS = {"frontal": 68, "profile": 39}


def read_menpo(reading: Reading) -> None:
    """One split; the archive's folders may be nested in any way."""
    split = reading.split
    for folder, names in walk(reading.root):
        if any(name.endswith(".pts") for name in names):
            for label, image in label_pairs(folder, reading):
                read = partial(_face, label, split)
                reading.face(label, label.stem, read, image, subsets=[split])


def _face(label: Path, split: str) -> FaceRecord | None:
    record = read_labelled(label, signed=False)
    count = len(record.points)
    if count not in _POINTS.values():
        raise InputError(f"{label} has {count} points: Menpo has 68, or 39 for profiles.")
    return record if count == _POINTS[split] else None
