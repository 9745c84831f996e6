"""Reading and writing by the name of a format, or by what the file looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from luvli.data.formats.coco import (
    read_coco,
    read_coco_results,
    write_coco,
    write_coco_results,
)
from luvli.data.formats.cofw68_text import read_cofw68_text, write_cofw68_text
from luvli.data.formats.common import default_markup
from luvli.data.formats.csv import read_csv, write_csv
from luvli.data.formats.cvat import read_cvat, write_cvat
from luvli.data.formats.dlib_xml import read_dlib, write_dlib
from luvli.data.formats.image_names import with_found_images, with_names_from
from luvli.data.formats.json import read_json, write_json
from luvli.data.formats.labelme import read_labelme, write_labelme
from luvli.data.formats.lists import (
    read_hrnet_csv,
    read_star_tsv,
    read_wflw_list,
    write_hrnet_csv,
    write_star_tsv,
    write_wflw_list,
)
from luvli.data.formats.menpo_mat import read_menpo_mat
from luvli.data.formats.pts import read_pts, write_pts
from luvli.data.formats.spiga import read_spiga, write_spiga
from luvli.data.record import FaceRecord
from luvli.errors import InputError, unknown_choice
from luvli.files import PathLike, read_text
from luvli.image.read import IMAGE_SUFFIXES

LabelFormat = Literal[
    "pts", "json", "csv", "coco", "coco-results", "cvat", "labelme", "spiga", "dlib", "hrnet",
    "star", "wflw", "cofw68", "menpo",
]  # fmt: skip
LABEL_FORMATS: tuple[str, ...] = get_args(LabelFormat)
SINGLE_FORMATS = {"pts": ".pts", "labelme": ".json"}
"""formats with one file for each face or image, and what those files end with"""
FORMAT_SUFFIXES = {
    "json": ".json", "csv": ".csv", "coco": ".json", "coco-results": ".json", "cvat": ".xml",
    "spiga": ".json", "dlib": ".xml", "hrnet": ".csv", "star": ".tsv", "wflw": ".txt",
    "cofw68": ".txt",
} | SINGLE_FORMATS  # fmt: skip
"""what a written file ends with"""


def read_labels(path: PathLike, format: str | None = None) -> list[FaceRecord]:
    """Read a label file of any known format; `format` is guessed when None.

    A `.pts` file becomes one record, with the image of the same name beside it if there
    is one. Images that other files name are looked for from the file (`with_found_images`).
    """
    name = format or guess_format(path)
    if name not in _READERS:
        raise unknown_choice("label format", name, LABEL_FORMATS)
    records = _READERS[name](path)
    return records if name == "pts" else with_found_images(path, records)


def write_labels(path: PathLike, records: Sequence[FaceRecord], format: str | None = None) -> None:
    """Write a label file; `format` is taken from the suffix when None (.json is ours).

    Images that are there are named as they are seen from the file; for CVAT, which knows the
    names of what was uploaded to it, only those below the file's folder.
    """
    suffixes = {
        ".pts": "pts", ".csv": "csv", ".xml": "cvat", ".json": "json", ".tsv": "star",
        ".txt": "wflw",
    }  # fmt: skip
    name = format or suffixes.get(Path(path).suffix.lower())
    if name is None or name not in _WRITERS:
        raise unknown_choice("label format to write", name or Path(path).suffix, _WRITERS)
    _WRITERS[name](path, with_names_from(path, records, outside=name != "cvat"))


def guess_format(path: PathLike) -> LabelFormat:
    """The format of a label file by its suffix and the first things in it."""
    suffix = Path(path).suffix.lower()
    if suffix == ".pts":
        return "pts"
    if suffix == ".mat":
        return "menpo"
    guess = {".csv": _of_csv, ".tsv": _of_tsv, ".xml": _of_xml, ".json": _of_json, ".txt": _of_txt}
    if suffix in guess:
        return guess[suffix](read_text(path))
    raise InputError(
        f"{path} has no known label suffix (.pts, {', '.join(guess)}, .mat): name its format, one "
        f"of {', '.join(LABEL_FORMATS)}."
    )


def _of_csv(text: str) -> LabelFormat:
    return "hrnet" if "center_w" in text.partition("\n")[0] else "csv"


def _of_tsv(text: str) -> LabelFormat:
    lines = text.splitlines()
    cells = lines[-1].split("\t") if lines else []  # the first may be a header
    return "star" if len(cells) in (6, 7) and "," in cells[2] else "csv"


def _of_xml(text: str) -> LabelFormat:
    return "dlib" if "<dataset" in text else "cvat"


def _of_txt(text: str) -> LabelFormat:
    return "cofw68" if len(text.partition("\n")[0].split()) == 1 else "wflw"


def _of_json(text: str) -> LabelFormat:
    if '"luvli-faces"' in text[:100]:
        return "json"
    if '"shapes"' in text:
        return "labelme"
    if '"annotations"' in text:
        return "coco"
    if '"imgpath"' in text:
        return "spiga"
    return "coco-results" if '"image_id"' in text else "json"


def _read_pts(path: PathLike) -> list[FaceRecord]:
    face = read_pts(path)
    beside = (Path(path).with_suffix(suffix) for suffix in IMAGE_SUFFIXES)
    return [
        FaceRecord(
            points=face.points,
            visibility=face.visibility,
            image=next((image for image in beside if image.is_file()), None),
            markup=default_markup(len(face.points)),
            face_id=Path(path).stem,
        )
    ]


def _write_pts(path: PathLike, records: Sequence[FaceRecord]) -> None:
    if len(records) != 1:
        raise InputError(f"{path} was not written: a .pts file holds one face, not {len(records)}.")
    write_pts(path, records[0].points, records[0].visibility)


_READERS: dict[str, Callable[[PathLike], list[FaceRecord]]] = {
    "pts": _read_pts,
    "json": read_json,
    "csv": read_csv,
    "coco": read_coco,
    "coco-results": read_coco_results,
    "cvat": read_cvat,
    "labelme": read_labelme,
    "spiga": read_spiga,
    "dlib": read_dlib,
    "hrnet": read_hrnet_csv,
    "star": read_star_tsv,
    "wflw": read_wflw_list,
    "cofw68": read_cofw68_text,
    "menpo": read_menpo_mat,
}
_WRITERS: dict[str, Callable[[PathLike, Sequence[FaceRecord]], None]] = {
    "pts": _write_pts,
    "json": write_json,
    "csv": write_csv,
    "coco": write_coco,
    "coco-results": write_coco_results,
    "cvat": write_cvat,
    "labelme": write_labelme,
    "spiga": write_spiga,
    "dlib": write_dlib,
    "hrnet": write_hrnet_csv,
    "star": write_star_tsv,
    "wflw": write_wflw_list,
    "cofw68": write_cofw68_text,
}
