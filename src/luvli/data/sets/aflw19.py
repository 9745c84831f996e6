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
from numpy.typing import NDArray

from luvli.data.formats.matlab import read_matlab
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets.definition import (
    Problem,
    ReadItem,
    Request,
    SetInfo,
    attempt,
    missing_image,
    named,
)
from luvli.data.sets.hrnet import read_hrnet_rows
from luvli.data.sets.source_files import ImageFolders, mat_field
from luvli.errors import InputError

MAT = "AFLWinfo_release.mat"
_CSV = "face_landmarks_aflw_{}.csv"
TRAIN = 20_000
"""how many entries of `ra` are train; the rest are test"""
_IMAGE_FOLDERS = (
    "flickr",
    "data/flickr",
    "aflw/data/flickr",
    "aflw/flickr",
    "images/flickr",
    "images",
)


def detect_aflw19(root: Path) -> str:
    """`official` when the .mat file is there, otherwise `hrnet`."""
    return "official" if (root / MAT).is_file() else "hrnet"


def read_aflw19(request: Request) -> Iterator[ReadItem]:
    """One split; the test faces with all 19 landmarks in sight are the subset frontal."""
    reader = _read_mat_release if request.protocol == "official" else _read_csv
    images = ImageFolders(request.root / folder for folder in _IMAGE_FOLDERS)
    yield from reader(request, images)


def _read_mat_release(request: Request, images: ImageFolders) -> Iterator[ReadItem]:
    path = request.root / MAT
    content = attempt(path, partial(read_matlab, path))
    if isinstance(content, Problem):
        yield content
        return
    names, order, points, boxes, masks = (
        mat_field(path, content, name) for name in ("nameList", "ra", "data", "bbox", "mask_new")
    )
    rows = np.ravel(order).astype(int) - 1
    wanted = rows[:TRAIN] if request.split == "train" else rows[TRAIN:]
    for row in wanted.tolist():
        name = str(np.ravel(np.ravel(names)[row])[0])
        left, right, top, bottom = np.asarray(boxes[row], dtype=np.float64)
        mask = np.asarray(masks[row]).astype(int)
        yield from _face(
            request,
            images,
            name=name,
            face_id=f"{name}#{row}",
            raw=np.asarray(points[row], dtype=np.float64).reshape(2, 19).T,
            box=np.array([left, top, right, bottom]),
            frontal=request.split == "test" and bool(mask.all()),
            attributes={
                "mask": mask.tolist(),
                "box_size": float(max(right - left, bottom - top)),
            },
        )


def _read_csv(request: Request, images: ImageFolders) -> Iterator[ReadItem]:
    frontal: set[tuple[str, bytes]] = set()
    if request.split == "test":
        path = request.root / _CSV.format("test_frontal")
        if path.is_file():
            frontal = {row.key for row in read_hrnet_rows(path, 19) if not isinstance(row, Problem)}
        else:
            yield Problem(
                str(path),
                "missing file",
                f"{path} is missing: without it no face counts as frontal.",
            )
    source = request.root / _CSV.format(request.split)
    if not source.is_file():
        yield Problem(str(source), "missing file", f"{source} is missing: download it.")
        return
    for row in read_hrnet_rows(source, 19):
        if isinstance(row, Problem):
            yield row
            continue
        yield from _face(
            request,
            images,
            name=row.image,
            face_id=f"{row.image}#{row.line - 2}",
            raw=row.points,
            box=row.box,
            frontal=row.key in frontal,
            attributes={"box_size": row.box_size},
        )


def _face(
    request: Request,
    images: ImageFolders,
    *,
    name: str,
    face_id: str,
    raw: NDArray[np.float64],
    box: NDArray[np.float64],
    frontal: bool,
    attributes: dict[str, Any],
) -> Iterator[FaceRecord | Problem]:
    subsets = ["frontal"] if frontal else []
    if not request.wants(*subsets):
        return
    image = images.find(name) if request.images else None
    if request.images and image is None:
        yield missing_image(f"AFLW-19 face {face_id}", name)
        return
    labelled = (raw > 0).any(axis=1)
    try:
        yield FaceRecord(
            points=raw - 1,
            visibility=np.where(labelled, Visibility.UNOCCLUDED, Visibility.UNLABELLED),
            image=image,
            box=box - 1,
            box_kind="given",
            markup="aflw19",
            dataset="aflw19",
            face_id=face_id,
            attributes={**attributes, "subsets": subsets, **named(image, name)},
        )
    except InputError as error:
        yield Problem(face_id, "bad label", f"AFLW-19 face {face_id}: {error}")


INFO = SetInfo(
    name="aflw19",
    title="AFLW-19",
    markup="aflw19",
    points="19",
    train=20_000,
    test=4386,
    profile="yes",
    self_occlusion="no",
    external_occlusion="no",
    read=read_aflw19,
    protocols=("official", "hrnet"),
    expected={
        protocol: {"train": 20_000, "test": 4386, "test/frontal": 1314}
        for protocol in ("official", "hrnet")
    },
    subsets=("frontal",),
    enlarge=1.25,
    licence="research only, no redistribution (ask TU Graz for the images)",
    layout="flickr/{0,2,3}/*.jpg with AFLWinfo_release.mat or face_landmarks_aflw_*.csv",
    detect=detect_aflw19,
    confirmed="the columns of HRNet's list, that box_size is 200 x scale, and where points lie, "
    "on two faces that mmpose publishes with their images; counts are from the paper, "
    "AFLWinfo_release.mat was not seen.",
)
