"""COCO keypoints.

COCO's flag is 2 for a landmark in sight, 1 for a located one that is hidden, 0 for one
without a label; these are our unoccluded, externally occluded and unlabelled. COCO has no
word for "self-occluded", which is also written as 0; an extra field `visibility_class`, which
other programs ignore, keeps the difference. Coordinates are pixel indices, as ours; only where
mmpose copied HRNet's lists (`center` and `scale` tell) do they count as those lists do, and so do
results for such a file.

Where no landmark of a file has the flag 2, as in mmpose's annotations of faces, 1 means no
more than "labelled", and is read as unoccluded.

COCO *results* are a list of {"image_id", "category_id", "keypoints": [x, y, score, ...],
"score"}: they name no images, so they are matched with annotations by `image_id`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from luvli.arrays import Floats
from luvli.data.formats.checked import parse_json, read_each
from luvli.data.formats.common import (
    corner_and_size,
    default_markup,
    edges_of,
    face,
    image_name,
    names_or_numbers,
    row_name,
    warn_losses,
    warn_lost,
)
from luvli.data.formats.lists import first_pixel
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, is_there, write_text
from luvli.image.source import image_size
from luvli.markup import get_markup, is_markup, markup_names

_CLASSES = {2: Visibility.UNOCCLUDED, 1: Visibility.EXTERNALLY_OCCLUDED, 0: Visibility.UNLABELLED}
_FLAGS = {kind: flag for flag, kind in _CLASSES.items()} | {Visibility.SELF_OCCLUDED: 0}
_IDS = ("image_id", "first_pixel")
"""attributes: what results for the same file must agree with"""


class _Image(BaseModel):
    id: int
    file_name: str


class _Category(BaseModel):
    id: int
    keypoints: list[str] = []

    @property
    def markup(self) -> str | None:
        """The point set with exactly these names."""
        names = tuple(self.keypoints)
        return next((name for name in markup_names() if get_markup(name).names == names), None)


class _Annotation(BaseModel):
    id: int | str = 0
    image_id: int
    category_id: int = 1
    keypoints: list[float] | None = None
    bbox: tuple[float, float, float, float] | None = None
    score: float | None = None
    visibility_class: list[int] | None = None
    face_id: str | None = None
    attributes: dict[str, Any] = {}
    box_size: float | None = None  # mmpose's AFLW: the normaliser
    center: Any = None
    scale: Any = None

    @property
    def first_pixel(self) -> float:
        """What the coordinates count from."""
        copied = self.center is not None and self.scale is not None
        return first_pixel(len(self.keypoints or ()) // 3) if copied else 0.0


class _File(BaseModel):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category] = []


def read_coco(path: PathLike, hidden_points: bool = False) -> list[FaceRecord]:
    """Read every annotation that has keypoints; plain boxes are passed over.

    `hidden_points` reads predictions: every keypoint that is not 0, 0, 0 counts as visible.
    """
    data = parse_json(path, _File, "a COCO keypoint file")
    annotations = [(one.id, one) for one in data.annotations if one.keypoints is not None]
    images = {image.id: image.file_name for image in data.images}
    categories = {category.id: category for category in data.categories}
    used = {flag for _, one in annotations for flag in (one.keypoints or ())[2::3]}
    flags = _CLASSES if 2 in used else {**_CLASSES, 1: Visibility.UNOCCLUDED}

    def read(one: _Annotation) -> FaceRecord:
        if one.image_id not in images:
            raise InputError(f"there is no image with id {one.image_id}.")
        rows, first = _rows(one.keypoints or []), one.first_pixel
        category = categories.get(one.category_id, _Category(id=0))
        if category.keypoints and len(category.keypoints) != len(rows):
            count = len(category.keypoints)
            raise InputError(f"{len(rows)} keypoints, but the category has {count} names.")
        if not np.isin(rows[:, 2], (0, 1, 2)).all():
            raise InputError("a visibility flag is not 0, 1 or 2.")
        classes = one.visibility_class or [flags[int(flag)] for flag in rows[:, 2]]
        if hidden_points:
            classes = (rows != 0).any(axis=1).astype(int).tolist()
        if len(classes) != len(rows) or not set(classes) <= set(Visibility):
            raise InputError("visibility_class does not fit the keypoints.")
        about = {"image_id": one.image_id, "box_size": one.box_size, "first_pixel": first or None}
        return face(
            rows[:, :2] - first,
            images[one.image_id],
            np.array(classes, dtype=np.int8),
            category.markup or default_markup(len(rows)),
            box=None if one.bbox is None else edges_of(*one.bbox) - first,
            face_id=one.face_id or "",
            attributes=one.attributes | {k: v for k, v in about.items() if v is not None},
            score=one.score,
        )

    return read_each(path, "annotation", annotations, read)


def _rows(keypoints: Sequence[float]) -> Floats:
    """(k, 3)"""
    if len(keypoints) % 3 or not len(keypoints):
        raise InputError(f"keypoints has {len(keypoints)} numbers, not three for each landmark.")
    return np.array(keypoints, dtype=np.float64).reshape(-1, 3)


def write_coco(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces, whole or not at all. Images that are there have their width and height."""
    warn_losses(path, records, "COCO")
    images = {name: i for i, name in enumerate(dict.fromkeys(map(image_name, records)), 1)}
    kinds = list(dict.fromkeys((r.markup, len(r.points)) for r in records))
    annotations = [
        {
            "id": number,
            "image_id": images[image_name(record)],
            "category_id": kinds.index((record.markup, len(record.points))) + 1,
            **annotation(record, record.points),
        }
        for number, record in enumerate(records, 1)
    ]
    data = {
        "images": [{"id": i, **_image(path, name)} for name, i in images.items()],
        "annotations": annotations,
        "categories": [category(i, *kind) for i, kind in enumerate(kinds, 1)],
    }
    write_text(path, json.dumps(data, allow_nan=False) + "\n")


def _image(path: PathLike, name: str) -> dict[str, Any]:
    for place in (Path(path).parent / name, Path(name)):
        if name and is_there(place):
            width, height = image_size(place)
            return {"file_name": name, "width": width, "height": height}
    return {"file_name": name}


def category(number: int, markup: str, count: int) -> dict[str, Any]:
    """The category of faces with these landmarks."""
    return {
        "id": number,
        "name": "face",
        "supercategory": "person",
        "keypoints": names_or_numbers(markup, count),
        "skeleton": get_markup(markup).skeleton if is_markup(markup) else [],
    }


def annotation(record: FaceRecord, points: Floats) -> dict[str, Any]:
    """The fields of one face, without ids. `points` (k, 2) are written for hidden landmarks too: a
    model has a location for all of them. They keep the flag 0 and read as hidden again."""
    flags = [_FLAGS[Visibility(kind)] for kind in record.visibility]
    places = np.nan_to_num(points).tolist()
    fields = {
        "iscrowd": 0,
        "keypoints": [v for (x, y), flag in zip(places, flags, strict=True) for v in (x, y, flag)],
        "num_keypoints": int(record.visible.sum()),
        "score": record.score,
        "face_id": record.face_id or None,
        "attributes": {k: v for k, v in record.attributes.items() if k not in _IDS} or None,
    }
    box = corner_and_size(record)
    if np.isfinite(box).all():
        fields |= {"bbox": box, "area": box[2] * box[3]}
    plain = (record.visibility == Visibility.UNOCCLUDED).any()
    if (record.visibility == Visibility.SELF_OCCLUDED).any() or not plain:
        fields["visibility_class"] = record.visibility.tolist()
    return {name: value for name, value in fields.items() if value is not None}


def read_coco_results(path: PathLike) -> list[FaceRecord]:
    """Predictions in COCO's form of results; they name no images and no classes."""
    results = parse_json(path, list[_Annotation], "a COCO result file")

    def read(result: _Annotation) -> FaceRecord:
        points = _rows(result.keypoints or [])[:, :2]
        return face(points, attributes={"image_id": result.image_id}, score=result.score)

    return read_each(path, "result", enumerate(results), read)


def write_coco_results(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Predictions as COCO results; image ids are those of `attributes`, else running numbers."""
    warn_lost(path, "COCO results hold no names of images and no covariances.")
    numbers = {name: i for i, name in enumerate(dict.fromkeys(map(row_name, records)), 1)}
    results = []
    for record in records:
        probability = record.visibility_probability
        scores = np.ones(len(record.points)) if probability is None else probability
        first = record.attributes.get("first_pixel", 0.0)
        rows = np.column_stack([np.nan_to_num(record.points + first), scores])
        results.append({
            "image_id": record.attributes.get("image_id", numbers[row_name(record)]),
            "category_id": 1,
            "keypoints": rows.ravel().tolist(),
            "score": 1.0 if record.score is None else record.score,
        })  # fmt: skip
    write_text(path, json.dumps(results) + "\n")
