"""300-W: the images of LFPW, Helen, _AFW and iBUG with 68 points, and the 600 test images.

Protocol `split1` trains on 3,148 and tests on 689 faces (subsets `common` and `challenge`);
`split2` trains on all 3,837 of them and tests on the 600 of the 300-W competition (subsets
`indoor` and `outdoor`). Boxes: those of the iBUG detector where the `.mat` files of the
"Bounding Boxes" archive are there, the tight box otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats import read_pts
from luvli.data.formats.common import face
from luvli.data.formats.matlab import mat_field, read_matlab
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Entry, ReadItem, Request, SetInfo, bad_label, missing_folder
from luvli.data.sets.source_files import first_existing, read_pairs
from luvli.errors import InputError


class SourcePart(NamedTuple):
    """One folder of 300-W."""

    name: str
    size: int
    subsets: tuple[str, ...]
    places: tuple[str, ...]
    boxes: str | None = None


def _ibug_part(name: str, size: int, *subsets: str) -> SourcePart:
    head = name.split("/")[0]
    places = (name, name.replace(head, head.upper()), f"300W/{name}", f"300w/{name}")
    return SourcePart(
        name, size, (head, *subsets), places, f"bounding_boxes_{name.replace('/', '_')}.mat"
    )


def _test_part(folder: str, subset: str) -> SourcePart:
    parents = ("", "300W/", "300w/", "300W/300W/", "300w/300w/", "300W_test/")
    return SourcePart(subset, 300, (subset,), tuple(parent + folder for parent in parents))


_LFPW_TRAIN = _ibug_part("lfpw/trainset", 811)
_LFPW_TEST = _ibug_part("lfpw/testset", 224, "common")
_HELEN_TRAIN = _ibug_part("helen/trainset", 2000)
_HELEN_TEST = _ibug_part("helen/testset", 330, "common")
_AFW = _ibug_part("afw", 337)
_IBUG = _ibug_part("ibug", 135, "challenge")
_INDOOR = _test_part("01_Indoor", "indoor")
_OUTDOOR = _test_part("02_Outdoor", "outdoor")

_PARTS: Mapping[tuple[str, str], tuple[SourcePart, ...]] = {
    ("split1", "train"): (_LFPW_TRAIN, _HELEN_TRAIN, _AFW),
    ("split1", "test"): (_LFPW_TEST, _HELEN_TEST, _IBUG),
    ("split2", "train"): (_LFPW_TRAIN, _HELEN_TRAIN, _AFW, _LFPW_TEST, _HELEN_TEST, _IBUG),
    ("split2", "test"): (_INDOOR, _OUTDOOR),
}

_BOX_FOLDERS = ("Bounding Boxes", "Bounding_Boxes", "bounding_boxes", ".")


def read_w300(request: Request) -> Iterator[ReadItem]:
    """The faces of one split; a face belongs to the subsets of its folder."""
    for part in _PARTS[request.protocol, request.split]:
        if not request.wants(*part.subsets):
            continue
        folder = first_existing(request.root, part.places)
        if folder is None:
            yield missing_folder(request.root / part.places[0], f"{part.size:,} faces")
            continue
        boxes: Mapping[str, Floats] = {}
        file = first_existing(request.root, [f"{place}/{part.boxes}" for place in _BOX_FOLDERS])
        if part.boxes and file:
            try:
                boxes = read_detector_boxes(file)
            except InputError as error:
                yield bad_label(file, error)
        yield from read_pairs(folder, request, partial(_entry, part, boxes))


def _entry(part: SourcePart, boxes: Mapping[str, Floats], label: Path, image: Path | None) -> Entry:
    return Entry(
        label,
        f"{part.name}/{label.stem}",
        partial(_face, label, boxes.get(_key(label.stem))),
        image,
        f"{label.stem}.jpg or .png",
        part.subsets,
        box_file="Bounding Boxes/" if part.boxes else "",  # the 600 of the competition have none
    )


def _face(label: Path, box: Floats | None) -> FaceRecord:
    points, visibility = read_pts(label, points=68, signed=False)
    return face(points, "", visibility, box=box, box_kind="tight" if box is None else "detector")


def read_detector_boxes(path: Path) -> dict[str, Floats]:
    """Boxes (4,) of the iBUG detector by image name without suffix or blanks.

    The file is a Matlab cell {1, n} of structs imgName, bb_detector, bb_ground_truth with
    x0, y0, x1, y1 counted from 1. (That of iBUG also holds rows of _AFW at its end, so rows
    are matched by name.)
    """
    boxes: dict[str, Floats] = {}
    for cell in np.ravel(mat_field(path, read_matlab(path), "bounding_boxes")):
        row = np.ravel(cell)[0]
        name = str(np.ravel(row["imgName"])[0])
        boxes[_key(Path(name).stem)] = np.ravel(row["bb_detector"]).astype(np.float64) - 1
    return boxes


def _key(stem: str) -> str:
    return stem.replace(" ", "")  # a name or two of iBUG has a blank on one side only


def _count(protocol: str, split: str, *subsets: str) -> dict[str, int]:
    parts = _PARTS[protocol, split]
    sizes = {split: sum(part.size for part in parts)}
    for subset in subsets:
        sizes[f"{split}/{subset}"] = sum(part.size for part in parts if subset in part.subsets)
    return sizes


INFO = SetInfo(
    name="w300",
    title="300-W",
    read=read_w300,
    train=3837,
    test=600,
    protocols=("split1", "split2"),
    expected={
        "split1": {
            **_count("split1", "train", "lfpw", "helen", "afw"),
            **_count("split1", "test", "common", "challenge"),
        },
        "split2": {**_count("split2", "train"), **_count("split2", "test", "indoor", "outdoor")},
    },
    subsets=("common", "challenge", "indoor", "outdoor", "lfpw", "helen", "afw", "ibug"),
    licence="research only, no redistribution",
    layout="lfpw/, helen/ (each with trainset/ and testset/), afw/, ibug/, 300W/01_Indoor, "
    "300W/02_Outdoor and, if you have it, Bounding Boxes/",
    confirmed="labels of LFPW, HELEN and _AFW (train) on the real files; the 689 faces of split 1 "
    "and the 600 of split 2 on lists made from the real labels; the test images and the "
    "boxes' files were not seen.",
)
