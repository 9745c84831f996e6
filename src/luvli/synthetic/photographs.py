"""Photographs that lend rendered faces their skins and backgrounds.

They are named by a string that travels to worker processes: a folder, whose images may have `.pts`
files beside them, or a label file (`write_faces`), which also says where in each image the face is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np

from luvli.data.formats import read_labels, read_pts
from luvli.data.formats.common import face
from luvli.data.formats.json import faces_text
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.files import write_text
from luvli.image.read import IMAGE_SUFFIXES
from luvli.synthetic.arrays import Doubles

MIN_LANDMARKS = 55
"""located landmarks that a face needs to lend its skin"""
_BY_MODEL = "by_model"
"""attribute: the points are a model's own predictions"""


@lru_cache(maxsize=4)
def photographed_faces(source: str) -> tuple[FaceRecord, ...]:
    """The photographs of a folder, in order, or those that a label file names; never none."""
    place = Path(source)
    if place.is_file():
        faces = read_labels(place)
    elif place.is_dir():
        images = sorted(f for f in place.rglob("*") if f.suffix.lower() in IMAGE_SUFFIXES)
        faces = [_with_label_beside(image) for image in images]
    else:
        raise InputError(f"{source} is not a folder: give one with photographs.")
    for known in faces:
        if known.image is None or not known.image.is_file():
            raise InputError(f"{source} names {known.image}, which does not exist: take it out.")
    if not faces:
        raise InputError(f"{source} holds no photographs: give a folder with images.")
    return tuple(faces)


def _with_label_beside(image: Path) -> FaceRecord:
    label = image.with_suffix(".pts")
    points, classes = (
        read_pts(label, signed=False) if label.exists() else (np.full((68, 2), np.nan), None)
    )
    return face(points, str(image), classes)


def skin_points(photograph: FaceRecord) -> Doubles | None:
    """(68, 2) image pixels, NaN where a landmark has no location; None if too few have one."""
    located = np.isfinite(photograph.points).all(axis=1).sum()
    return photograph.points if photograph.markup == "ibug68" and located >= MIN_LANDMARKS else None


def face_box(photograph: FaceRecord) -> Doubles | None:
    """(4,) x0, y0, x1, y1 of the face in image pixels; None where nothing is known of it."""
    box = photograph.tight_box if photograph.box is None else photograph.box
    return box if np.isfinite(box).all() else None


def is_by_hand(photograph: FaceRecord) -> bool:
    """Whether people placed the points."""
    return not photograph.attributes.get(_BY_MODEL)


def write_faces(records: Iterable[FaceRecord], folder: Path) -> str:
    """A label file that names these faces, in `folder`; equal faces give equal names."""
    faces = [
        FaceRecord(
            points=record.points.round(2),
            visibility=record.visibility,
            image=record.image.resolve(),
            box=record.box,
            box_kind=record.box_kind,
            markup=record.markup,
            attributes={} if record.covariance is None else {_BY_MODEL: True},
        )
        for record in records
        if record.image is not None
    ]
    text = faces_text(sorted(faces, key=lambda face: str(face.image)))
    path = folder / f"photographs-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    write_text(path, text)
    return str(path.resolve())
