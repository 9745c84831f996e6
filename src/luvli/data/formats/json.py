"""Our own JSON: everything a record holds, lossless.

    {"format": "luvli-faces", "version": 1, "faces": [
      {"image": "a.jpg", "markup": "ibug68", "points": [[x, y], null, ...],
       "visibility_class": [1, 0, ...],          -1 unlabelled, 0 self-occluded,
                                                  1 unoccluded, 2 externally occluded
       "visibility": [0.99, 0.02, ...],           a model's probability
       "covariance": [[[xx, xy], [xy, yy]], ...], "box": [x0, y0, x1, y1], ...}]}

Plain lists and objects of other programs are read as well: [{"image": "a.jpg", "points": [[x,
y], ...]}, ...] (the names of keys are those of `luvli.data.formats.tables`), [[[x, y], ...],
...], or {"a.jpg": [[x, y], ...], ...}. The lists of the paper's published code (`pts`, `img_paths`,
`pts_paths`, ...) hold the numbers of `.pts` files, signs and all, and mean what those mean.

The faces that `luvli predict` writes have no `visibility_class`; they read as visible where
the probability is above one half.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from luvli.data.formats.common import face, image_name, load_json, naming
from luvli.data.formats.pts import decode_pts
from luvli.data.formats.tables import IMAGE_COLUMNS
from luvli.data.record import BoxKind, FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, write_text

POINT_KEYS = (
    "points", "predicted", "predictions", "landmarks", "means", "mean", "pred", "preds", "pts",
    "keypoints",
)  # fmt: skip
"""what the key of a face's landmarks is called"""

_Number = float | None
_Pair = tuple[_Number, _Number]


class _About(BaseModel):
    """What a predicted face says besides, which becomes attributes."""

    frame: int | None = None
    time: float | None = None
    track: int | None = None
    confidence: float | None = None
    expected_error: float | None = None
    eyes_closed: float | None = None
    accepted: bool | None = None
    likelihood: str | None = None
    occlusion: list[_Number] | None = None


class _Face(_About):
    image: str | None = None
    points: list[_Pair | None]
    visibility_class: list[Literal[-1, 0, 1, 2]] | None = None
    visibility: list[_Number] | None = None
    covariance: list[tuple[_Pair, _Pair]] | None = None
    box: tuple[_Number, _Number, _Number, _Number] | None = None
    box_kind: BoxKind = "tight"
    markup: str | None = None
    dataset: str = ""
    face_id: str = ""
    attributes: dict[str, Any] = {}
    score: float | None = None
    visibility_trained: bool = True


def read_json(path: PathLike) -> list[FaceRecord]:
    """Read the faces of a file in our JSON, or of a plain list or object."""
    records = []
    for number, fields in enumerate(parse_faces(path)):
        with naming(path, f"face {number}"):
            records.append(_record(_Face.model_validate(fields)))
    return records


def _record(fields: _Face) -> FaceRecord:
    points = _floats([pair or (None, None) for pair in fields.points]).reshape(-1, 2)
    probability = None if fields.visibility is None else _floats(fields.visibility)
    if fields.visibility_class is not None:
        classes = np.array(fields.visibility_class, dtype=np.int8)
    else:
        visible = np.isfinite(points).all(axis=1)
        if probability is not None and fields.visibility_trained:
            if probability.shape != visible.shape:
                raise InputError(f"{len(points)} points but {len(probability)} visibilities.")
            visible &= probability > 0.5
        classes = np.where(visible, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED)
    return face(
        points,
        fields.image or "",
        classes,
        fields.markup,
        box=None if fields.box is None else _floats(fields.box),
        box_kind=fields.box_kind,
        dataset=fields.dataset,
        face_id=fields.face_id,
        attributes=fields.attributes
        | fields.model_dump(include=set(_About.model_fields), exclude_none=True),
        covariance=None if fields.covariance is None else _floats(fields.covariance),
        visibility_probability=probability,
        score=fields.score,
    )


def _floats(values: Any) -> NDArray[np.float64]:
    """NaN for null."""
    return np.array(values, dtype=np.float64)


def parse_faces(path: PathLike) -> list[dict[str, Any]]:
    """The faces of a JSON file as objects with `points`, in whichever form they come.

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp(), "a.json")
    >>> _ = file.write_text('{"a.jpg": [[1, 2], [3, 4]]}')
    >>> parse_faces(file)
    [{'image': 'a.jpg', 'points': [[1, 2], [3, 4]]}]
    """
    content = load_json(path)
    ours = isinstance(content, dict) and "faces" in content
    if ours:
        faces = content["faces"]
    elif isinstance(content, dict):
        faces = [{"image": name, "points": points} for name, points in content.items()]
    else:
        faces = content
    if not isinstance(faces, list) or not (faces or ours):
        raise InputError(f"{path} is not a JSON of faces: it should be a list, or hold one.")
    return [_plain(face, path) for face in faces]


def _plain(face: Any, path: PathLike) -> dict[str, Any]:
    if isinstance(face, list):
        return {"points": face}
    key = next((key for key in POINT_KEYS if isinstance(face, dict) and key in face), None)
    if key is None:
        raise InputError(
            f"{path} is not a JSON of faces: a face has none of the keys {', '.join(POINT_KEYS)}."
        )
    fields = {**face, "points": face[key]}
    if key == "pts" and "pts_paths" in face:
        fields = {**_of_pts(face[key], path), "dataset": str(face.get("dataset") or "")}
    image = next((str(face[name]) for name in IMAGE_COLUMNS if face.get(name)), None)
    return {**fields, "image": image} if image else fields


def _of_pts(numbers: Any, path: PathLike) -> dict[str, Any]:
    """Points and classes of a face in a list that holds the numbers of a .pts file."""
    try:
        raw = np.array(numbers, dtype=np.float64)
        if raw.ndim != 2 or raw.shape[1] != 2 or not np.isfinite(raw).all():
            raise ValueError("not pairs")
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} has pts that are not pairs of numbers: mend it.") from error
    points, visibility = decode_pts(raw, path)
    return {"points": _listed(points), "visibility_class": visibility.tolist()}


def write_json(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces to our JSON, whole or not at all; nothing is lost."""
    faces = [_fields(record) for record in records]
    body = ",\n ".join(json.dumps(face, separators=(",", ":"), allow_nan=False) for face in faces)
    write_text(path, f'{{"format":"luvli-faces","version":1,"faces":[\n {body}\n]}}\n')


def _fields(record: FaceRecord) -> dict[str, Any]:
    fields = {
        "image": image_name(record),
        "dataset": record.dataset,
        "face_id": record.face_id,
        "markup": record.markup,
        "box": _listed(record.box),
        "box_kind": record.box_kind,
        "score": record.score,
        "attributes": dict(record.attributes),
        "points": [None if x is None else [x, y] for x, y in _listed(record.points)],
        "visibility_class": record.visibility.tolist(),
        "visibility": _listed(record.visibility_probability),
        "covariance": _listed(record.covariance),
    }
    return {name: value for name, value in fields.items() if value not in (None, "", {})}


def _listed(array: NDArray[Any] | None) -> Any:
    """Nested lists for JSON, NaN as null."""
    if array is None:
        return None
    values = array.astype(object)
    values[np.isnan(array)] = None
    return values.tolist()
