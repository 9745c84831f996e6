"""AFLW-19: 24,386 faces of AFLW with 19 points, full (4,386) and frontal (1,314) test sets.

Two sources of the same labels. Protocol `official`: `AFLWinfo_release.mat` with bbox (left,
right, top, bottom), data (19 x, then 19 y), mask_new, nameList, and ra, the permutation whose
first 20,000 are train. Protocol `hrnet`: the csv files. Both count from 1.

The normaliser of NME_diag is the `box_size` column of the csv, which is the side of the square
box (200 x scale); from the `.mat` it is the longer side of `bbox`.

The landmarks that AFLW calls invisible (mask 0) do have locations here, so, as in the paper,
they count as visible; the mask is kept in the attributes. A pair of non-positive numbers
means that there is no label.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from luvli.data.formats.common import face
from luvli.data.formats.matlab import read_matlab
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets.definition import Entry, ReadItem, Request, SetInfo
from luvli.data.sets.source_files import image_finder, read_hrnet_lists

_MAT = "AFLWinfo_release.mat"
_CSV = "face_landmarks_aflw_{}.csv"
TRAIN = 20_000
"""how many entries of `ra` are train; the rest are test"""
_IMAGE_FOLDERS = (
    *("flickr", "data/flickr", "aflw/data/flickr", "aflw/flickr", "images/flickr", "images"),
)


def detect_aflw19(root: Path) -> str:
    """`official` when the .mat file is there, otherwise `hrnet`."""
    return "official" if (root / _MAT).is_file() else "hrnet"


def read_aflw19(request: Request) -> Iterator[ReadItem]:
    """One split; the test faces with all 19 landmarks in sight are the subset frontal."""
    if request.protocol == "hrnet":
        items = read_hrnet_lists(request, INFO, _CSV, _IMAGE_FOLDERS, INFO.subsets)
    else:
        items = _read_mat(request)
    for item in items:
        yield item._replace(read=partial(_unlabelled, item)) if isinstance(item, Entry) else item


def _unlabelled(entry: Entry) -> FaceRecord:
    """The face; a landmark at 0, 0 in the file, which is -1, -1 here, has no label."""
    record = entry.read()
    assert record is not None
    unlabelled = (np.nan_to_num(record.points) <= -1).all(axis=1)
    classes = np.where(unlabelled, Visibility.UNLABELLED, record.visibility)
    return record.with_changes(visibility=classes)


def _read_mat(request: Request) -> Iterator[ReadItem]:
    variables = ("nameList", "ra", "data", "bbox", "mask_new")
    names, order, points, boxes, masks = read_matlab(request.root / _MAT, *variables)
    find = image_finder(request.root, _IMAGE_FOLDERS)
    rows = np.ravel(order).astype(int) - 1
    for row in (rows[:TRAIN] if request.split == "train" else rows[TRAIN:]).tolist():
        name = str(np.ravel(np.ravel(names)[row])[0])
        face_id = f"{name}#{row}"
        yield Entry(
            f"AFLW-19 face {face_id}",
            face_id,
            partial(_face, points[row], boxes[row], masks[row]),
            find(name) if request.images else None,
            name,
            ["frontal"] if request.split == "test" and np.all(masks[row]) else [],
            names_image=True,
        )


def _face(points: Any, box: Any, mask: Any) -> FaceRecord:
    left, right, top, bottom = np.asarray(box, dtype=np.float64)
    return face(
        np.asarray(points, dtype=np.float64).reshape(2, 19).T - 1,
        box=np.array([left, top, right, bottom]) - 1,
        attributes={
            "mask": np.asarray(mask).astype(int).tolist(),
            "box_size": float(max(right - left, bottom - top)),
        },
    )


INFO = SetInfo(
    name="aflw19",
    title="AFLW-19",
    read=read_aflw19,
    layout="flickr/{0,2,3}/*.jpg with AFLWinfo_release.mat or face_landmarks_aflw_*.csv",
    licence="research only, no redistribution (ask TU Graz for the images)",
    confirmed="the columns of HRNet's list, that box_size is 200 x scale, and where points lie, "
    "on two faces that mmpose publishes with their images; counts are from the paper, "
    "AFLWinfo_release.mat was not seen.",
    table=("20,000", "4,386", "19", "yes", "no", "no"),
    markup="aflw19",
    protocols=("official", "hrnet"),
    subsets=("frontal",),
    expected={"train": 20_000, "test": 4386, "test/frontal": 1314},
    enlarge=1.25,
    detect=detect_aflw19,
)
