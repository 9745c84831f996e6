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
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from luvli.data.formats.checked import load_json, naming, read_each
from luvli.data.formats.common import face, image_name
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

PREDICTED = ("image", "face_id", "markup", "points", "covariance", "likelihood", "visibility")
"""what a prediction of any program is scored by"""

_Number = float | None
_Pair = tuple[_Number, _Number]


class PredictedFields(BaseModel):
    """What a predicted face says besides, which becomes attributes."""

    confidence: float | None = None
    expected_error: float | None = None
    eyes_closed: float | None = None
    accepted: bool | None = None
    likelihood: str | None = None
    frame: int | None = None
    time: float | None = None
    track: int | None = None
    width: int | None = None
    height: int | None = None
    occlusion: list[_Number] | None = None


class FaceFields(PredictedFields):
    """A face as our JSON and CSV have it; numbers may be words."""

    image: str | None = None
    points: list[_Pair | None]
    visibility_class: list[Annotated[int, Field(ge=-1, le=2)] | None] | None = None
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

    def record(self) -> FaceRecord:
        """The face; a landmark without a class is unoccluded where it is visible."""
        points = _floats([pair or (None, None) for pair in self.points]).reshape(-1, 2)
        for name in ("visibility", "visibility_class"):
            values = getattr(self, name)
            if values is not None and len(values) != len(points):
                raise InputError(f"{len(points)} points but {len(values)} values of {name}.")
        visible = np.isfinite(points).all(axis=1)
        if self.visibility is not None and self.visibility_trained:
            visible &= _floats(self.visibility) > 0.5
        classes = np.where(visible, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED)
        if self.visibility_class is not None:
            stated = _floats(self.visibility_class)
            classes = np.where(np.isnan(stated), classes, stated)
        about = self.model_dump(include=set(PredictedFields.model_fields), exclude_none=True)
        return face(
            points,
            self.image or "",
            classes,
            self.markup,
            box=None if self.box is None else _floats(self.box),
            box_kind=self.box_kind,
            dataset=self.dataset,
            face_id=self.face_id,
            attributes=self.attributes | about,
            covariance=None if self.covariance is None else _floats(self.covariance),
            visibility_probability=None if self.visibility is None else _floats(self.visibility),
            score=self.score,
        )


def read_json(path: PathLike, hidden_points: bool = False) -> list[FaceRecord]:
    """Read the faces of a file in our JSON, or of a plain list or object.

    `hidden_points` reads predictions of any program: only `PREDICTED`, without classes, so that
    landmarks that a model calls hidden keep their location, and without what was not trained.
    """

    def read(fields: dict[str, Any]) -> FaceRecord:
        if hidden_points:
            trained = [n for n in PREDICTED if fields.get(f"{n}_trained") is not False]
            fields = {name: fields[name] for name in trained if name in fields}
            fields["visibility_trained"] = False  # so that it hides nothing
        return FaceFields.model_validate(fields).record()

    return read_each(path, "face", enumerate(parse_faces(path)), read)


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
    if key == "pts" and "pts_paths" in face:  # a list of the published code
        with naming(path, "pts"):
            points, visibility = decode_pts(_floats(face[key]), path)
        fields = {"points": _listed(points), "visibility_class": visibility.tolist(),
                  "dataset": str(face.get("dataset") or "")}  # fmt: skip
    image = next((str(face[name]) for name in IMAGE_COLUMNS if face.get(name)), None)
    return {**fields, "image": image} if image else fields


def write_json(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces to our JSON, whole or not at all; nothing is lost."""
    write_text(path, faces_text(records))


def faces_text(records: Sequence[FaceRecord]) -> str:
    """Faces as the text of a file."""
    faces = [_fields(record) for record in records]
    body = ",\n ".join(json.dumps(face, separators=(",", ":"), allow_nan=False) for face in faces)
    return f'{{"format":"luvli-faces","version":1,"faces":[\n {body}\n]}}\n'


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
