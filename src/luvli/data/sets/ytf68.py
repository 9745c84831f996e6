"""Frames of YouTube Faces with 68 points that a model made; not a set of the paper.

`training_frames_keypoints.csv` and `test_frames_keypoints.csv` (an image, then x and y of
68 points as whole pixels) beside the folders `training` and `test`. The labels follow their
own habits at brows and nose bridge, sit about one pixel right of and below iBUG practice,
and people of test also stand in training: fit for pre-training, not for measuring.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from luvli.data.record import FaceRecord
from luvli.data.sets.definition import (
    Problem,
    ReadItem,
    Request,
    SetInfo,
    all_visible,
    missing_image,
)
from luvli.data.sets.source_files import Folder

SHIFT = (0.0, 0.0)
"""Pixels added to x and y. Zero keeps the labels as they stand; a training that measures
their offset against iBUG labels puts the correction here."""

FOLDERS = {"train": "training", "test": "test"}


def read_ytf68(request: Request) -> Iterator[ReadItem]:
    """The frames of one split; face ids start with the person's name."""
    folder = FOLDERS[request.split]
    path = request.root / f"{folder}_frames_keypoints.csv"
    if not path.is_file():
        yield Problem(str(path), "missing file", f"{path} is missing: copy it there.")
        return
    images = set(Folder(request.root / folder).names)
    with path.open(newline="", encoding="utf-8") as stream:
        rows = csv.reader(stream)
        next(rows, None)
        for row in rows:
            place = f"{path} line {rows.line_num}"
            if request.images and row[0] not in images:
                yield missing_image(place, f"{folder}/{row[0]}")
                continue
            try:
                points = np.array([float(word) for word in row[1:]]).reshape(68, 2) + SHIFT
            except ValueError:
                yield Problem(
                    place, "bad label", f"{place} does not hold 68 pairs of numbers: mend it."
                )
                continue
            yield FaceRecord(
                points=points,
                visibility=all_visible(points),
                image=request.root / folder / row[0] if request.images else None,
                dataset="ytf68",
                face_id=Path(row[0]).stem,
                attributes={"subsets": []},
            )


INFO = SetInfo(
    name="ytf68",
    title="YouTube 68",
    markup="ibug68",
    points="68",
    train=3462,
    test=770,
    profile="no",
    self_occlusion="no",
    external_occlusion="no",
    read=read_ytf68,
    licence="research only",
    layout="training/, test/ and *_frames_keypoints.csv",
    confirmed="all of it, on the real files.",
)
