"""Label files: one module for each format, `read_X` and `write_X` in each.

`.pts` holds one face and no image name, so `read_pts` gives `LabelledPoints`; all others
hold many faces and give lists of `FaceRecord`. `read_labels` and `write_labels` choose by
the name of the format or by what the file looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from luvli.data.formats.coco import read_coco, read_coco_results, write_coco, write_coco_results
from luvli.data.formats.common import face, with_found_images, with_names_from
from luvli.data.formats.csv import read_csv, write_csv
from luvli.data.formats.cvat import read_cvat, write_cvat
from luvli.data.formats.dlib_xml import read_dlib, write_dlib
from luvli.data.formats.json import read_json, write_json
from luvli.data.formats.labelme import read_labelme, write_labelme
from luvli.data.formats.lists import (
    iterate_cofw68,
    iterate_hrnet,
    iterate_star,
    iterate_wflw,
    whole,
    write_hrnet_csv,
)
from luvli.data.formats.matlab import read_menpo_mat
from luvli.data.formats.pts import read_pts, write_pts
from luvli.data.formats.spiga import read_spiga, write_spiga
from luvli.data.record import FaceRecord
from luvli.errors import InputError, check_choice, unknown_choice
from luvli.files import PathLike, read_text
from luvli.image.read import IMAGE_SUFFIXES

__all__ = [
    "LABEL_FORMATS",
    "get_format",
    "guess_format",
    "read_coco",
    "read_csv",
    "read_json",
    "read_labels",
    "read_menpo_mat",
    "read_pts",
    "write_coco",
    "write_csv",
    "write_json",
    "write_labels",
    "write_pts",
]


def _read_pts(path: PathLike) -> list[FaceRecord]:
    points, classes = read_pts(path)
    beside = (Path(path).with_suffix(suffix) for suffix in IMAGE_SUFFIXES)
    image = next((str(image) for image in beside if image.is_file()), "")
    return [face(points, image, classes, face_id=Path(path).stem)]


def _write_pts(path: PathLike, records: Sequence[FaceRecord]) -> None:
    if len(records) != 1:
        raise InputError(f"{path} was not written: a .pts file holds one face, not {len(records)}.")
    write_pts(path, records[0].points, records[0].visibility)


class LabelFormat(NamedTuple):
    """One format of label files."""

    suffix: str
    read: Callable[[PathLike], list[FaceRecord]]
    write: Callable[[PathLike, Sequence[FaceRecord]], None] | None = None
    single: bool = False
    """one file for each face or image"""


LABEL_FORMATS = {
    "pts": LabelFormat(".pts", _read_pts, _write_pts, single=True),
    "json": LabelFormat(".json", read_json, write_json),
    "csv": LabelFormat(".csv", read_csv, write_csv),
    "coco": LabelFormat(".json", read_coco, write_coco),
    "coco-results": LabelFormat(".json", read_coco_results, write_coco_results),
    "cvat": LabelFormat(".xml", read_cvat, write_cvat),
    "labelme": LabelFormat(".json", read_labelme, write_labelme, single=True),
    "spiga": LabelFormat(".json", read_spiga, write_spiga),
    "dlib": LabelFormat(".xml", read_dlib, write_dlib),
    "hrnet": LabelFormat(".csv", whole(iterate_hrnet), write_hrnet_csv),
    "star": LabelFormat(".tsv", whole(iterate_star)),
    "wflw": LabelFormat(".txt", whole(iterate_wflw)),
    "cofw68": LabelFormat(".txt", whole(iterate_cofw68)),
    "menpo": LabelFormat(".mat", read_menpo_mat),
}
_BY_SUFFIX = {".pts": "pts", ".csv": "csv", ".xml": "cvat", ".json": "json"}
"""what is written where only the suffix is known"""


def get_format(name: str) -> LabelFormat:
    """The format called `name`; the error for an unknown one lists the choices."""
    return LABEL_FORMATS[check_choice("label format", name, LABEL_FORMATS)]


def read_labels(path: PathLike, format: str | None = None) -> list[FaceRecord]:
    """Read a label file of any known format; `format` is guessed when None.

    A `.pts` file becomes one record, with the image of the same name beside it if there
    is one. Images that other files name are looked for from the file (`with_found_images`).
    """
    name = format or guess_format(path)
    records = get_format(name).read(path)
    return records if name == "pts" else with_found_images(path, records)


def write_labels(path: PathLike, records: Sequence[FaceRecord], format: str | None = None) -> None:
    """Write a label file; `format` is taken from the suffix when None (.json is ours).

    Images that are there are named as they are seen from the file; for CVAT, which knows the
    names of what was uploaded to it, only those below the file's folder.
    """
    name = format or _BY_SUFFIX.get(Path(path).suffix.lower(), "")
    write = LABEL_FORMATS[name].write if name in LABEL_FORMATS else None
    if write is None:
        choices = [name for name, known in LABEL_FORMATS.items() if known.write]
        raise unknown_choice("label format to write", name or Path(path).suffix, choices)
    write(path, with_names_from(path, records, outside=name != "cvat"))


def guess_format(path: PathLike) -> str:
    """The format of a label file by its suffix and the first things in it."""
    suffix = Path(path).suffix.lower()
    suffixes = {known.suffix for known in LABEL_FORMATS.values()}
    if suffix not in suffixes:
        raise InputError(
            f"{path} has no known label suffix ({', '.join(sorted(suffixes))}): name its format, "
            f"one of {', '.join(LABEL_FORMATS)}."
        )
    named = [name for name, known in LABEL_FORMATS.items() if known.suffix == suffix]
    if len(named) == 1 and suffix != ".tsv":
        return named[0]
    text = read_text(path)
    first = text.partition("\n")[0]
    if suffix == ".csv":
        return "hrnet" if "center_w" in first else "csv"
    if suffix == ".tsv":
        cells = (text.splitlines() or [""])[-1].split("\t")  # the first may be a header
        return "star" if len(cells) in (6, 7) and "," in cells[2] else "csv"
    if suffix == ".xml":
        return "dlib" if "<dataset" in text else "cvat"
    if suffix == ".txt":
        return "cofw68" if len(first.split()) == 1 else "wflw"
    if '"luvli-faces"' in text[:100]:
        return "json"
    marks = {'"shapes"': "labelme", '"annotations"': "coco", '"imgpath"': "spiga",
             '"image_id"': "coco-results"}  # fmt: skip
    return next((name for mark, name in marks.items() if mark in text), "json")
