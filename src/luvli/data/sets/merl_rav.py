"""MERL-RAV: 19,314 faces of AFLW with 68 points and three visibility classes.

Labels: `<pose>/<trainset|testset>/labels/imageNNNNN[_k].pts` for the poses frontal, lefthalf,
righthalf, left and right, k telling the faces of one photograph apart. Images: those of
AFLW in `aflw/flickr/{0,2,3}/imageNNNNN.jpg`, or beside the labels in a tree that the data
set's own script has put together.

The published split was drawn by faces, not by photographs, so some photographs have faces
on both sides. It stays the default, with a warning. Two more splits take that apart:
`disjoint` is the test faces whose photograph has no face in train (to test any model that
was trained on the published train), `train_disjoint` the train faces whose photograph has
no face in test (to train for the full published test).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import Folder, first_existing, image_finder, read_labelled

# Pose -> the subsets of its faces: itself, and a group.
_POSES = {
    "frontal": ("frontal",),
    "lefthalf": ("lefthalf", "half-profile"),
    "righthalf": ("righthalf", "half-profile"),
    "left": ("left", "profile"),
    "right": ("right", "profile"),
}
_LABEL_FOLDERS = ("frontal", "merl_rav_labels/frontal", "merl_rav_organized/frontal")
_IMAGE_FOLDERS = tuple(
    f"{place}/{number}"
    for place in ("aflw/flickr", "aflw/data/flickr", "flickr", "../aflw/flickr",
                  "../aflw/data/flickr")
    for number in "023"
)  # fmt: skip


def read_merl_rav(reading: Reading) -> None:
    """One split; the subsets are the five poses, and half-profile and profile as groups."""
    frontal = first_existing(reading.root, _LABEL_FOLDERS)
    if frontal is None:
        reading.missing_folder(reading.root / "merl_rav_labels", "the five pose folders")
        return
    labels = frontal.parent
    sides = {side: {pose: _label_files(labels / pose / side) for pose in _POSES}
             for side in ("trainset", "testset")}  # fmt: skip
    taken_of = [
        {photograph(path) for paths in side.values() for path in paths} for side in sides.values()
    ]
    shared = taken_of[0] & taken_of[1]
    disjoint = reading.split.endswith("disjoint")
    if shared and not disjoint:
        reading.found.notes.append(
            f"MERL-RAV: {len(shared):,} photographs have faces in both train and test of the "
            'published split; split="disjoint" or "train_disjoint" leaves them out.'
        )
    find = image_finder(reading.root, _IMAGE_FOLDERS)
    side = "trainset" if reading.split.startswith("train") else "testset"
    for pose, paths in sides[side].items():
        if not reading.wants(*_POSES[pose]):
            continue
        if not paths:
            reading.missing_folder(labels / pose / side, "label files of this pose")
        for label in paths:
            if disjoint and photograph(label) in shared:
                continue
            image = _image(label, find, reading.root)
            read = partial(_face, _label_of(image, label), pose)
            name = f"aflw/flickr/{{0,2,3}}/{photograph(label)}.jpg"
            reading.face(label, label.stem, read, image, name, _POSES[pose])


def photograph(label: Path) -> str:
    """The AFLW photograph that a label belongs to.

    >>> photograph(Path("image00070_2.pts"))
    'image00070'
    """
    return re.sub(r"_\d+$", "", label.stem)


def _label_files(folder: Path) -> list[Path]:
    """In `labels/`, or straight in the folder for a tree that was put together."""
    return Folder(folder / "labels").ending(".pts") or Folder(folder).ending(".pts")


def _image(label: Path, find: Callable[[str], Path | None], root: Path) -> Path | None:
    """Beside the label, in AFLW's folders, or in the organised tree of the set's own project,
    whose labels may lie apart in `merl_rav_labels`."""
    beside = label.with_suffix(".jpg")
    if beside.is_file():
        return beside
    side = label.parent.parent if label.parent.name == "labels" else label.parent
    organised = root / "merl_rav_organized" / side.parent.name / side.name / f"{label.stem}.jpg"
    image = find(f"{photograph(label)}.jpg")
    return image or (organised if organised.is_file() else None)


def _label_of(image: Path | None, label: Path) -> Path:
    """The label beside an organised image, which counts in that image's pixels (it may be cut
    from the photograph); else the one of the label folder."""
    beside = label if image is None else image.with_suffix(".pts")
    return beside if beside.stem == label.stem and beside.is_file() else label


def _face(label: Path, pose: str) -> FaceRecord:
    about = {"pose": pose, "photograph": photograph(label)}
    return read_labelled(label, points=68).with_changes(attributes=about)
