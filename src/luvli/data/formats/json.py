"""Our own JSON: everything a record holds, lossless.

    {"format": "luvli-faces", "version": 1, "faces": [
      {"image": "a.jpg", "markup": "ibug68", "points": [[x, y], null, ...],
       "visibility_class": [1, 0, ...],          -1 unlabelled, 0 self-occluded,
                                                  1 unoccluded, 2 externally occluded
       "visibility": [0.99, 0.02, ...],           a model's probability
       "covariance": [[[xx, xy], [xy, yy]], ...], "box": [x0, y0, x1, y1], ...}]}

The faces that `luvli predict` writes have no `visibility_class`; they read as visible where
the probability is above one half.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from luvli.data.formats.common import floats, image_name, listed, parse_json
from luvli.data.record import BoxKind, FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, write_text

Pair = tuple[float | None, float | None]


class _Face(BaseModel):
    image: str | None = None
    points: list[Pair | None]
    visibility_class: list[Literal[-1, 0, 1, 2]] | None = None
    visibility: list[float | None] | None = None
    covariance: list[tuple[Pair, Pair]] | None = None
    box: tuple[float | None, float | None, float | None, float | None] | None = None
    box_kind: BoxKind = "tight"
    markup: str = "ibug68"
    dataset: str = ""
    face_id: str = ""
    attributes: dict[str, Any] = {}
    score: float | None = None
    visibility_trained: bool = True


class _File(BaseModel):
    faces: list[_Face]


def read_json(path: PathLike) -> list[FaceRecord]:
    """Read the faces of a file in our JSON."""
    records = []
    for number, face in enumerate(parse_json(path, _File, "a luvli JSON file").faces):
        try:
            records.append(_record(face))
        except InputError as error:
            raise InputError(f"{path}, face {number}: {error}") from error
    return records


def write_json(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces to our JSON, whole or not at all; nothing is lost."""
    faces = [_fields(record) for record in records]
    body = ",\n ".join(json.dumps(face, separators=(",", ":"), allow_nan=False) for face in faces)
    write_text(path, f'{{"format":"luvli-faces","version":1,"faces":[\n {body}\n]}}\n')


def _fields(record: FaceRecord) -> dict[str, Any]:
    located = [bool(np.isfinite(point).all()) for point in record.points]
    fields = {
        "image": image_name(record) or None,
        "dataset": record.dataset,
        "face_id": record.face_id,
        "markup": record.markup,
        "box": listed(record.box),
        "box_kind": record.box_kind,
        "score": record.score,
        "attributes": dict(record.attributes),
        "points": [
            p if ok else None for p, ok in zip(record.points.tolist(), located, strict=True)
        ],
        "visibility_class": record.visibility.tolist(),
        "visibility": listed(record.visibility_probability),
        "covariance": listed(record.covariance),
    }
    return {name: value for name, value in fields.items() if value not in (None, "", {})}


def _record(face: _Face) -> FaceRecord:
    points = floats([pair or (None, None) for pair in face.points]).reshape(-1, 2)
    probability = None if face.visibility is None else floats(face.visibility)
    if face.visibility_class is not None:
        classes = np.array(face.visibility_class, dtype=np.int8)
    else:
        visible = np.isfinite(points).all(axis=1)
        if probability is not None and face.visibility_trained:
            if probability.shape != visible.shape:
                raise InputError(f"{len(points)} points but {len(probability)} visibilities.")
            visible &= probability > 0.5
        classes = np.where(visible, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED)
    return FaceRecord(
        points=points,
        visibility=classes,
        image=Path(face.image) if face.image else None,
        box=None if face.box is None else floats(face.box),
        box_kind=face.box_kind,
        markup=face.markup,
        dataset=face.dataset,
        face_id=face.face_id,
        attributes=face.attributes,
        covariance=None if face.covariance is None else floats(face.covariance),
        visibility_probability=probability,
        score=face.score,
    )
