"""WFLW: 98 points, 7,500 train and 2,500 test faces with six kinds of difficulty.

Protocol `official`: `list_98pt_rect_attr_{train,test}.txt` (or the plain `list_98pt_test.txt`,
without what follows the coordinates), each line 196 coordinates, a
rectangle x0 y0 x1 y1, six flags and the image. Protocol `hrnet`: the csv files, whose boxes
the paper uses; there is one csv for each test subset. Coordinates are taken as they stand:
nothing says that WFLW counts from 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import FaceRecord
from luvli.data.sets.definition import (
    Note,
    Problem,
    ReadItem,
    Request,
    SetInfo,
    all_visible,
    missing_image,
    named,
)
from luvli.data.sets.hrnet import read_hrnet_rows
from luvli.data.sets.source_files import ImageFolders, first_existing
from luvli.errors import InputError
from luvli.files import read_text

FLAGS = ("largepose", "expression", "illumination", "makeup", "occlusion", "blur")
"""the subsets, in the order of the flags in the official files"""
_SIZES = dict(zip(FLAGS, (326, 314, 698, 206, 736, 773), strict=True))

LISTS = ("list_98pt_rect_attr_{}.txt", "list_98pt_{}.txt")
"""with rectangle and flags, or plain; the first that is there is read"""
LIST_FOLDERS = (
    "WFLW_annotations/list_98pt_rect_attr_train_test",
    "list_98pt_rect_attr_train_test",
    "WFLW_annotations/list_98pt_test",
    "list_98pt_test",
    "WFLW_annotations",
    ".",
)
_CSV = "face_landmarks_wflw_{}.csv"
_IMAGE_FOLDERS = ("WFLW_images", "images")


def detect_wflw(root: Path) -> str:
    """`official` when the .txt lists are there, otherwise `hrnet`."""
    return "official" if _list_file(root, "train") or _list_file(root, "test") else "hrnet"


def read_wflw(request: Request) -> Iterator[ReadItem]:
    """One split; in the official files the train faces have subsets too."""
    reader = _read_lists if request.protocol == "official" else _read_csv
    images = ImageFolders(request.root / folder for folder in _IMAGE_FOLDERS)
    yield from reader(request, images)


def _list_file(root: Path, split: str) -> Path | None:
    return first_existing(
        root, [f"{folder}/{name.format(split)}" for name in LISTS for folder in LIST_FOLDERS]
    )


def _read_lists(request: Request, images: ImageFolders) -> Iterator[ReadItem]:
    path = _list_file(request.root, request.split)
    if path is None:
        wanted = request.root / LIST_FOLDERS[0] / LISTS[0].format(request.split)
        yield Problem(str(wanted), "missing file", f"{wanted} is missing: unpack the annotations.")
        return
    plain = "rect_attr" not in path.name
    if plain:
        yield Note(
            f"{path} has no rectangles and flags: boxes are tight, and no face has a subset."
        )
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        place = f"{path} line {number}"
        count = 196 if plain else 206
        words = line.split(maxsplit=count)
        try:
            values = np.array([float(word) for word in words[:count]])
            name = words[count].strip()
        except (ValueError, IndexError):
            yield Problem(
                place,
                "bad label",
                f"{place} does not hold {count} numbers and a file name: download the file again.",
            )
            continue
        subsets = [flag for flag, on in zip(FLAGS, values[200:206], strict=False) if on]
        yield from _face(
            request,
            images,
            name,
            number - 1,
            values[:196].reshape(98, 2),
            None if plain else values[196:200],
            subsets,
        )


def _read_csv(request: Request, images: ImageFolders) -> Iterator[ReadItem]:
    members: dict[str, set[tuple[str, bytes]]] = {}
    if request.split == "test":
        for flag in FLAGS:
            path = request.root / _CSV.format(f"test_{flag}")
            if path.is_file():
                rows = read_hrnet_rows(path, 98)
                members[flag] = {row.key for row in rows if not isinstance(row, Problem)}
            else:
                yield Problem(
                    str(path),
                    "missing file",
                    f"{path} is missing: without it no face belongs to the subset {flag}.",
                )
    source = request.root / _CSV.format(request.split)
    if not source.is_file():
        yield Problem(str(source), "missing file", f"{source} is missing: download it.")
        return
    for row in read_hrnet_rows(source, 98):
        if isinstance(row, Problem):
            yield row
            continue
        subsets = [flag for flag, keys in members.items() if row.key in keys]
        yield from _face(request, images, row.image, row.line - 2, row.points, row.box, subsets)


def _face(
    request: Request,
    images: ImageFolders,
    name: str,
    row: int,
    points: NDArray[np.float64],
    box: NDArray[np.float64] | None,
    subsets: list[str],
) -> Iterator[FaceRecord | Problem]:
    if not request.wants(*subsets):
        return
    face_id = f"{name}#{row}"
    image = images.find(name) if request.images else None
    if request.images and image is None:
        yield missing_image(f"WFLW face {face_id}", name)
        return
    try:
        yield FaceRecord(
            points=points,
            visibility=all_visible(points),
            image=image,
            box=box,
            box_kind="tight" if box is None else "given",
            markup="wflw98",
            dataset="wflw",
            face_id=face_id,
            attributes={"subsets": subsets, **named(image, name)},
        )
    except InputError as error:
        yield Problem(face_id, "bad label", f"WFLW face {face_id}: {error}")


INFO = SetInfo(
    name="wflw",
    title="WFLW",
    markup="wflw98",
    points="98",
    train=7500,
    test=2500,
    profile="yes",
    self_occlusion="no",
    external_occlusion="no",
    read=read_wflw,
    protocols=("official", "hrnet"),
    expected={
        protocol: {
            "train": 7500,
            "test": 2500,
            **{f"test/{flag}": size for flag, size in _SIZES.items()},
        }
        for protocol in ("official", "hrnet")
    },
    subsets=FLAGS,
    enlarge=1.25,
    licence="research only, no redistribution",
    layout="WFLW_images/ with WFLW_annotations/list_98pt_rect_attr_train_test/*.txt "
    "or face_landmarks_wflw_*.csv",
    detect=detect_wflw,
    confirmed="the columns of list_98pt_rect_attr_test.txt on its first line, and where the points "
    "lie on four faces that mmpose publishes with their images; counts are from its authors' "
    "description.",
)
