"""Reading and writing by the name of a format, or by what the file looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from luvli.data.formats.coco import read_coco, write_coco
from luvli.data.formats.common import default_markup
from luvli.data.formats.csv import read_csv, write_csv
from luvli.data.formats.cvat import read_cvat, write_cvat
from luvli.data.formats.json import read_json, write_json
from luvli.data.formats.labelme import read_labelme, write_labelme
from luvli.data.formats.pts import read_pts, write_pts
from luvli.data.record import FaceRecord
from luvli.errors import InputError, unknown_choice
from luvli.files import PathLike, read_text

LabelFormat = Literal["pts", "json", "csv", "coco", "cvat", "labelme"]
LABEL_FORMATS: tuple[str, ...] = get_args(LabelFormat)

_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif")


def read_labels(path: PathLike, format: str | None = None) -> list[FaceRecord]:
    """Read a label file of any known format; `format` is guessed when None.

    A `.pts` file becomes one record, with the image of the same name beside it if there
    is one.
    """
    name = format or guess_format(path)
    if name not in _READERS:
        raise unknown_choice("label format", name, LABEL_FORMATS)
    return _READERS[name](path)


def write_labels(path: PathLike, records: Sequence[FaceRecord], format: str | None = None) -> None:
    """Write a label file; `format` is taken from the suffix when None (.json is ours)."""
    suffixes = {".pts": "pts", ".csv": "csv", ".xml": "cvat", ".json": "json"}
    name = format or suffixes.get(Path(path).suffix.lower())
    if name is None or name not in _WRITERS:
        raise unknown_choice("label format", name or Path(path).suffix, LABEL_FORMATS)
    _WRITERS[name](path, records)


def guess_format(path: PathLike) -> LabelFormat:
    """The format of a label file by its suffix and, for JSON, its first keys."""
    suffix = Path(path).suffix.lower()
    if suffix == ".pts":
        return "pts"
    if suffix == ".csv":
        return "csv"
    if suffix == ".xml":
        return "cvat"
    if suffix == ".json":
        text = read_text(path)
        if '"shapes"' in text:
            return "labelme"
        return "coco" if '"annotations"' in text else "json"
    raise InputError(
        f"{path} has no known label suffix (.pts, .json, .csv, .xml): name its format, one of "
        f"{', '.join(LABEL_FORMATS)}."
    )


def _read_pts(path: PathLike) -> list[FaceRecord]:
    face = read_pts(path)
    beside = (Path(path).with_suffix(suffix) for suffix in _PICTURES)
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
    "cvat": read_cvat,
    "labelme": read_labelme,
}
_WRITERS: dict[str, Callable[[PathLike, Sequence[FaceRecord]], None]] = {
    "pts": _write_pts,
    "json": write_json,
    "csv": write_csv,
    "coco": write_coco,
    "cvat": write_cvat,
    "labelme": write_labelme,
}
