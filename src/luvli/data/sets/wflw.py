"""WFLW: 98 points, 7,500 train and 2,500 test faces with six kinds of difficulty.

Protocol `hrnet`: the csv files, whose boxes the paper crops by; there is one csv for each test
subset. Protocol `official`: `list_98pt_rect_attr_{train,test}.txt` (or the plain
`list_98pt_test.txt`, without what follows the coordinates), each line 196 coordinates, a
rectangle x0 y0 x1 y1, six flags and the image. Coordinates are taken as they stand:
nothing says that WFLW counts from 1.
"""

from __future__ import annotations

from pathlib import Path

from luvli.data.formats.lists import iterate_wflw
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import read_hrnet_lists, read_listed

_LISTS = ("list_98pt_rect_attr_{}.txt", "list_98pt_{}.txt")
"""with rectangle and flags, or plain; the first that is there is read"""
_IMAGE_FOLDERS = ("WFLW_images", "images")
_CSV = "face_landmarks_wflw_{}.csv"


def detect_wflw(root: Path) -> str:
    """`hrnet` when the csv files are there, otherwise `official`."""
    has_csv = any((root / _CSV.format(split)).is_file() for split in ("train", "test"))
    listed = _list_file(root, "train") or _list_file(root, "test")
    return "official" if listed and not has_csv else "hrnet"


def _list_file(root: Path, split: str) -> Path | None:
    return next((path for name in _LISTS for path in root.rglob(name.format(split))), None)


def read_wflw(reading: Reading) -> None:
    """One split; in the official files the train faces have subsets too."""
    if reading.protocol == "hrnet":
        read_hrnet_lists(reading, _CSV, _IMAGE_FOLDERS)
        return
    path = _list_file(reading.root, reading.split)
    if path is None:
        wanted = reading.root / "WFLW_annotations" / _LISTS[0].format(reading.split)
        reading.missing_file(wanted, "unpack the annotations")
        return
    if "rect_attr" not in path.name:
        why = "has no rectangles and flags: boxes are tight, and no face has a subset."
        reading.found.notes.append(f"{path} {why}")
    read_listed(reading, iterate_wflw(path), path, _IMAGE_FOLDERS)
