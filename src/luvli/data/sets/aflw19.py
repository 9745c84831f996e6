"""AFLW-19: 24,386 faces of AFLW with 19 points, full (4,386) and frontal (1,314) test sets.

HRNet's csv files, which count from 1. The normaliser of NME_diag is their `box_size` column, the
side of the square box (200 x scale).

The landmarks that AFLW calls invisible have locations here, so, as in the paper, they count as
visible. A pair of non-positive numbers means that there is no label.
"""

from __future__ import annotations

import numpy as np

from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import read_hrnet_lists

_CSV = "face_landmarks_aflw_{}.csv"
_IMAGE_FOLDERS = (
    *("flickr", "data/flickr", "aflw/data/flickr", "aflw/flickr", "images/flickr", "images"),
)


def read_aflw19(reading: Reading) -> None:
    """One split; the test faces with all 19 landmarks in sight are the subset frontal."""
    read_hrnet_lists(reading, _CSV, _IMAGE_FOLDERS, _without_labels)


def _without_labels(record: FaceRecord) -> FaceRecord:
    """The face; a landmark at 0, 0 in the file, which is -1, -1 here, has no label."""
    unlabelled = (np.nan_to_num(record.points) <= -1).all(axis=1)
    classes = np.where(unlabelled, Visibility.UNLABELLED, record.visibility)
    return record.with_changes(visibility=classes)
