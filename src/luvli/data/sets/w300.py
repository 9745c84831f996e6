"""300-W: the images of LFPW, Helen, _AFW and iBUG with 68 points, and the 600 test images.

Protocol `split1` trains on 3,148 and tests on 689 faces (subsets `common` and `challenge`);
`split2` trains on all 3,837 of them and tests on the 600 of the 300-W competition (subsets
`indoor` and `outdoor`). Boxes: those of the iBUG detector where the `.mat` files of the
"Bounding Boxes" archive are there, the tight box otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.matlab import read_matlab
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import first_existing, label_pairs, read_labelled

_Folders = Mapping[str, tuple[str, ...]]
"""folder -> the subsets of its faces"""
_TRAIN: _Folders = {"lfpw/trainset": ("lfpw",), "helen/trainset": ("helen",), "afw": ("afw",)}
_TEST: _Folders = {
    "lfpw/testset": ("lfpw", "common"),
    "helen/testset": ("helen", "common"),
    "ibug": ("ibug", "challenge"),
}
_COMPETITION: _Folders = {"01_Indoor": ("indoor",), "02_Outdoor": ("outdoor",)}
_PARTS: Mapping[tuple[str, str], _Folders] = {
    ("split1", "train"): _TRAIN,
    ("split1", "test"): _TEST,
    ("split2", "train"): {**_TRAIN, **_TEST},
    ("split2", "test"): _COMPETITION,
}
_BOX_FOLDERS = ("Bounding Boxes", "Bounding_Boxes", "bounding_boxes", ".")


def read_w300(reading: Reading) -> None:
    """The faces of one split; a face belongs to the subsets of its folder."""
    boxes_of_faces: list[Floats | None] = []
    for folder, subsets in _PARTS[reading.protocol, reading.split].items():
        if not reading.wants(*subsets):
            continue
        head, _, rest = folder.partition("/")
        parents = ("", "300W/", "300w/", "300W/300W/", "300w/300w/", "300W_test/")
        places = [f"{head.upper()}/{rest}", *(parent + folder for parent in parents)]
        place = first_existing(reading.root, [folder, *places])
        if place is None:
            reading.missing_folder(reading.root / folder, "images and .pts files")
            continue
        name, boxes = f"bounding_boxes_{folder.replace('/', '_')}.mat", {}
        file = first_existing(reading.root, [f"{parent}/{name}" for parent in _BOX_FOLDERS])
        with reading.reporting(file or name):
            boxes = read_detector_boxes(file) if file else {}
        part = subsets[0] if folder in _COMPETITION else folder
        for label, image in label_pairs(place, reading):
            box = boxes.get(_key(label.stem))
            read, face_id = partial(_face, label, box), f"{part}/{label.stem}"
            reading.face(label, face_id, read, image, subsets=subsets)
            if folder not in _COMPETITION:  # whose 600 have no boxes
                boxes_of_faces.append(box)
    reading.count_boxes(boxes_of_faces, "Bounding Boxes/")


def _face(label: Path, box: Floats | None) -> FaceRecord:
    record = read_labelled(label, points=68, signed=False)
    return record.with_changes(box=box, box_kind="detector")


def read_detector_boxes(path: Path) -> dict[str, Floats]:
    """Boxes (4,) of the iBUG detector by image name without suffix or blanks.

    The file is a Matlab cell {1, n} of structs imgName, bb_detector, bb_ground_truth with
    x0, y0, x1, y1 counted from 1. (That of iBUG also holds rows of _AFW at its end, so rows
    are matched by name.)
    """
    boxes: dict[str, Floats] = {}
    for cell in np.ravel(read_matlab(path, "bounding_boxes")[0]):
        row = np.ravel(cell)[0]
        name = str(np.ravel(row["imgName"])[0])
        boxes[_key(Path(name).stem)] = np.ravel(row["bb_detector"]).astype(np.float64) - 1
    return boxes


def _key(stem: str) -> str:
    return stem.replace(" ", "")  # a name or two of iBUG has a blank on one side only
