"""Labels from one form to another: point sets, files, folders of files."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from luvli.data.formats import LABEL_FORMATS, get_format, read_labels, write_labels
from luvli.data.formats.label_parquet import write_label_shards
from luvli.data.record import FaceRecord, Visibility, check_file_name
from luvli.errors import InputError, LossWarning
from luvli.files import PathLike
from luvli.markup import convert, sources

_FROM_WORST = (
    Visibility.UNLABELLED,
    Visibility.SELF_OCCLUDED,
    Visibility.EXTERNALLY_OCCLUDED,
    Visibility.UNOCCLUDED,
)


def change_markup(record: FaceRecord, target: str) -> FaceRecord:
    """The record's points as another point set, with the visibility of what they are made of.

    A landmark that is a mean of several takes the worst of their classes. Covariances are left
    out: the covariance of a mean needs correlations that nobody predicted.
    """
    if record.markup == target:
        return record
    classes = [
        min((Visibility(record.visibility[j]) for j in members), key=_FROM_WORST.index)
        for members in sources(record.markup, target)
    ]
    return record.with_changes(
        points=convert(record.points, record.markup, target),
        visibility=np.array(classes, dtype=np.int8),
        markup=target,
        covariance=None,
        visibility_probability=None,
    )


def read_label_tree(source: PathLike, format: str | None = None) -> list[FaceRecord]:
    """The faces of a label file, or of all label files under a folder, in natural order."""
    place = Path(source)
    if not place.is_dir():
        return read_labels(place, format)
    formats = LABEL_FORMATS.values() if format is None else [get_format(format)]
    suffixes = {known.suffix for known in formats} - ({".mat"} if format is None else set())
    files = [file for file in sorted(place.rglob("*")) if file.suffix.lower() in suffixes]
    if format is None and any(file.suffix == ".pts" for file in files):
        files = [file for file in files if file.suffix == ".pts"]
    if not files:
        raise InputError(f"{place} holds no label files ({', '.join(sorted(suffixes))}).")
    records = []
    for file in files:
        folder = file.parent.relative_to(place).as_posix()
        inside = "" if folder == "." else f"{folder}/"
        for record in read_labels(file, format):
            face_id = f"{inside}{record.face_id}" if record.face_id else ""
            records.append(record.with_changes(face_id=face_id))
    return records


def write_label_tree(
    target: PathLike, records: Sequence[FaceRecord], format: str | None = None
) -> list[Path]:
    """A label file, or for pts and LabelMe a folder with one for each face or image.

    The files of a folder are called after the face (pts) or the image (LabelMe). A warning
    that several files would repeat is given once, with their number. `parquet` makes a folder
    of files with the images inside.
    """
    place = Path(target)
    if format == "parquet":
        return write_label_shards(place, records)
    single = [name for name, known in LABEL_FORMATS.items() if known.single]
    if place.suffix or format not in (None, *single):
        write_labels(place, records, format)
        return [place]
    if format is None:
        choices = ", ".join(single)
        raise InputError(f"{place} has no suffix: name the format with --to, one of {choices}.")
    files: dict[Path, list[FaceRecord]] = {}
    for number, record in enumerate(records):
        name = _file_name(record, number, format) + get_format(format).suffix
        while format == "pts" and place / name in files:
            name = f"{name.removesuffix('.pts')}-2.pts"
        files.setdefault(place / name, []).append(record)
    losses = Counter[str]()
    for path, faces in files.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LossWarning)
            write_labels(path, faces, format)
        sentences = (str(loss.message).removeprefix(f"{path}: ") for loss in caught)
        losses.update(re.sub(r"\b\d+ are\b", "some are", sentence) for sentence in sentences)
    for sentence, count in losses.items():
        warnings.warn(f"{place} ({count:,} files): {sentence}", LossWarning, stacklevel=2)
    return list(files)


def _file_name(record: FaceRecord, number: int, format: str) -> str:
    """What the file of a face (pts) or of its image (LabelMe) is called, without its suffix."""
    stem = Path(record.image).stem if record.image else f"face{number}"
    name = (record.face_id or stem) if format == "pts" else stem
    check_file_name(name)
    return name.replace("#", "_")
