"""Predictions and labels made by any program, read as arrays.

Predictions are not labels: a landmark that a model calls invisible still has a predicted
location, and it counts if the label says that the landmark is visible. That is why our own
JSON, CSV, COCO and parquet files are read here as they stand when they hold predictions.
Every other layout is one of `luvli.data.formats` and is read there, for both sides.

Arrays may come under these names (the first found counts; case does not matter):

| what | names |
|---|---|
| points (n, k, 2) or (n, 2k) | points, predicted, predictions, landmarks, means, mean, pred,
|  | preds, pts, keypoints |
| covariance (n, k, 2, 2) | covariance, covariances, cov, sigma |
| its Cholesky factor (n, k, 3) as L11, L21, L22, or (n, k, 2, 2) | cholesky |
| probability of visibility (n, k) | visibility, visibilities, vis_estimated, vis |
| labels (n, k, 2) | truth, ground_truth, gt |
| visibility class of the labels (n, k) | classes, visibility_class, vis_gt |
| names (n) | names, name, face_id, and those of images: image, images, imgpath, ... |

`ground_truth`, `means`, `cholesky`, `vis_gt` and `vis_estimated` are the arrays that the
published evaluation saves, in pixels of the 256 x 256 crop: one file holds both sides then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.formats import guess_format, read_csv, read_labels, read_menpo_mat, read_pts
from luvli.data.formats.coco import coco_first_pixels
from luvli.data.formats.common import IMAGE_COLUMNS, load_arrays
from luvli.data.formats.json import POINT_KEYS, parse_faces
from luvli.data.formats.parquet import read_face_table
from luvli.data.formats.pts import FIRST_PIXEL
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.evaluation.report_file import read_parquet, table_array, table_numbers, table_words
from luvli.evaluation.unmatched_faces import (
    UnmatchedFaces,
    arrays_of_records,
    located,
    one_likelihood,
    unique_names,
)
from luvli.files import read_text, unreadable
from luvli.image.read import IMAGE_SUFFIXES
from luvli.likelihood import covariance as algebra

_COVARIANCE = ("covariance", "covariances", "cov", "sigma")
_VISIBILITY = ("visibility", "visibilities", "vis_estimated", "vis")
_TRUTH = ("truth", "ground_truth", "gt")
_CLASSES = ("classes", "visibility_class", "vis_gt")
_NAMES = ("names", "name", "face_id", "images", *IMAGE_COLUMNS)
_ARRAYS = (".npz", ".npy", ".parquet")
_NOWHERE = -1.0 - FIRST_PIXEL
"""-1 in a .pts file, both coordinates: a landmark without a location"""


def read_predictions(path: Path, signs: bool) -> tuple[UnmatchedFaces, UnmatchedFaces | None]:
    """Predictions of any format, and the labels if the same file holds them.

    `signs`: whether negative pairs in .pts mean occlusion. A participant of MenpoBenchmark's
    `.mat` is named behind the file: `semifrontal.mat#yang`.
    """
    file, _, field = str(path).partition("#")
    if field and file.endswith(".mat"):
        faces = arrays_of_records(read_menpo_mat(file, field), str(path))
        return _as_predictions(faces), arrays_of_records(read_menpo_mat(file), file)
    if not path.exists():
        raise unreadable(path)
    if path.is_dir():
        return _read_folder(path, signs)
    suffix = path.suffix.lower()
    if suffix in _ARRAYS:
        return _read_arrays(path)
    if suffix == ".json":
        kind = guess_format(path)
        if kind == "coco":
            return _read_coco(path), None
        if kind == "json":
            return _read_json(path), None
    if suffix == ".csv" and guess_format(path) == "csv":
        return _read_csv(path), None
    try:
        records = read_labels(path)
    except InputError as error:
        if "no known label suffix" in str(error):
            raise InputError(
                f"{path} is not npz, npy, csv, tsv, json, xml, txt, mat, parquet or a folder: "
                "convert it."
            ) from error
        raise
    return _as_predictions(arrays_of_records(records, str(path))), None


def read_truth(path: Path, signs: bool) -> UnmatchedFaces:
    """Labels of any format that predictions come in, and of every label format."""
    if not path.exists():
        raise unreadable(path)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _labels_of_report(path)
    if path.is_dir() or suffix in _ARRAYS:
        side, held = read_predictions(path, signs)
        return held or replace(side, covariance=None, visibility=None)
    return arrays_of_records(read_labels(path), str(path))


def _as_predictions(faces: UnmatchedFaces) -> UnmatchedFaces:
    """Label formats know no probability: what they call hidden is no prediction of visibility."""
    return replace(faces, classes=None, boxes=None)


# --- folders -----------------------------------------------------------------------------


def _read_folder(folder: Path, signs: bool) -> tuple[UnmatchedFaces, UnmatchedFaces | None]:
    arrays = sorted(folder.glob("*.npy"))
    if arrays:
        return _from_arrays({a.stem: load_arrays(a)["points"] for a in arrays}, folder)
    files = sorted(folder.rglob("*.pts"))
    if files:
        return _from_pts(files, folder, signs), None
    if next(folder.rglob("*.parquet"), None) is not None:  # of luvli predict --engine ray
        return _from_parquet(folder), None
    tables = sorted(folder.rglob("*.csv"))
    if tables:  # OpenFace writes one for each image, named after it
        records = [
            record.with_changes(image=record.image or Path(table.stem))
            for table in tables
            for record in read_csv(table)
        ]
        return _as_predictions(arrays_of_records(records, str(folder))), None
    labels = sorted(folder.rglob("*.json"))
    if labels:
        return arrays_of_records([r for f in labels for r in read_labels(f)], str(folder)), None
    raise InputError(
        f"{folder} holds no .pts (and no .npy, .parquet, .csv, .json) files: check the path."
    )


def _from_pts(files: Sequence[Path], folder: Path, signs: bool) -> UnmatchedFaces:
    faces = [read_pts(file, signed=signs) for file in files]
    sizes = {len(face.points) for face in faces}
    if len(sizes) > 1:
        raise InputError(f"{folder} mixes files of {sorted(sizes)} points: score them one by one.")
    points = np.stack([face.points for face in faces])
    classes = np.stack([face.visibility for face in faces])
    nowhere = (points == _NOWHERE).all(axis=2)  # is no place, even where signs are places
    points[nowhere], classes[nowhere] = np.nan, Visibility.SELF_OCCLUDED
    hidden = int((classes == Visibility.SELF_OCCLUDED).sum())
    note = (
        f"{folder}: {hidden:,} landmarks are called self-occluded, for which .pts has no location; "
        "where their labels are visible they count as failures. Write json, csv or parquet."
    )
    return UnmatchedFaces(
        str(folder),
        points,
        tuple(file.relative_to(folder).with_suffix("").as_posix() for file in files),
        classes=classes,
        images=tuple(_image_beside(file) for file in files),
        notes=(note,) if hidden else (),
    )


def _image_beside(file: Path) -> str:
    beside = (file.with_suffix(suffix) for suffix in IMAGE_SUFFIXES)
    return next((image.as_posix() for image in beside if image.is_file()), "")


# --- tables and JSON ---------------------------------------------------------------------


def _read_csv(path: Path) -> UnmatchedFaces:
    """Rows of points, ours or another program's; hidden landmarks keep their location."""
    records = read_csv(path, hidden_points=True)
    faces = _as_predictions(arrays_of_records(records, str(path)))
    missing = np.isnan(faces.points).all(axis=(1, 2))
    if missing.any():
        note = f"{path}: {int(missing.sum())} rows without success have no prediction."
        faces = replace(faces, notes=(note,))
    points, notes = located(faces.points, path)
    markup = faces.markup if points.shape == faces.points.shape else None  # a mesh became 68
    return replace(faces, points=points, markup=markup, notes=faces.notes + notes)


def _read_json(path: Path) -> UnmatchedFaces:
    """Our JSON of faces, also as `luvli predict` writes it, or a plain list or mapping."""
    faces = parse_faces(path)
    try:
        points = np.stack(
            [np.array([_pair(p) for p in face["points"]], dtype=float) for face in faces]
        )
        covariance = _all_or_none(faces, "covariance")
        untrained = _untrained(faces)
        visibility = None if "visibility" in untrained else _all_or_none(faces, "visibility")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not a JSON of faces with equally many points ({error}): "
            "write it with luvli predict, or convert it to csv or npz."
        ) from error
    points, notes = located(points, path)
    return UnmatchedFaces(
        str(path),
        points,
        unique_names(str(face.get("face_id") or "") for face in faces),
        None if "covariance" in untrained else covariance,
        visibility=visibility,
        likelihood=one_likelihood(face.get("likelihood") for face in faces),
        images=tuple(str(face.get("image") or "") for face in faces),
        markup=faces[0].get("markup"),
        notes=notes,
    )


def _pair(point: Any) -> Any:
    return (np.nan, np.nan) if point is None else [np.nan if v is None else v for v in point]


def _untrained(faces: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    parts = ("covariance", "visibility")
    return tuple(
        part for part in parts if any(face.get(f"{part}_trained") is False for face in faces)
    )


def _all_or_none(faces: Sequence[Mapping[str, Any]], name: str) -> Floats | None:
    if any(face.get(name) is None for face in faces):
        return None
    return np.array([face[name] for face in faces], dtype=np.float64)


def _read_coco(path: Path) -> UnmatchedFaces:
    """COCO annotations as predictions: the location of every keypoint, whatever its flag."""
    records: list[FaceRecord] = read_labels(path, "coco")
    content = json.loads(read_text(path))
    keypoints = [a["keypoints"] for a in content["annotations"] if a.get("keypoints")]
    faces = _as_predictions(arrays_of_records(records, str(path)))
    rows = np.array(keypoints, dtype=np.float64).reshape(len(records), -1, 3)
    nowhere = (rows == 0).all(axis=2, keepdims=True)
    first = np.array(coco_first_pixels(path))[:, None, None]
    return replace(faces, points=np.where(nowhere, np.nan, rows[..., :2] - first))


# --- arrays ------------------------------------------------------------------------------


def _read_arrays(path: Path) -> tuple[UnmatchedFaces, UnmatchedFaces | None]:
    if path.suffix.lower() == ".parquet":
        return _from_parquet(path), None
    return _from_arrays(load_arrays(path), path)


def _from_parquet(path: Path) -> UnmatchedFaces:
    table = read_face_table(path)
    columns = set(table.column_names)

    def words(column: str) -> tuple[str, ...]:
        return table_words(table, column, path)

    frames = words("frame")
    images = words("image")
    if frames and all(frames):  # faces of a video: its name does not tell them apart
        images = tuple(f"{image}#{frame}" for image, frame in zip(images, frames, strict=True))
    flags = [column for column in ("covariance_trained", "visibility_trained") if column in columns]
    untrained = _untrained(table.select(flags).to_pylist())
    markups = {word for word in words("markup") if word}
    points, notes = located(table_array(table, "points", path), path)
    return UnmatchedFaces(
        str(path),
        points,
        unique_names(words("face_id")),
        None if "covariance" in untrained else table_array(table, "covariance", path),
        visibility=None if "visibility" in untrained else table_array(table, "visibility", path),
        likelihood=one_likelihood(words("likelihood")),
        paper_pixel=table_numbers(table, "paper_pixel", path),
        images=images,
        markup=markups.pop() if len(markups) == 1 else None,
        notes=notes,
    )


def _labels_of_report(path: Path) -> UnmatchedFaces:
    faces = read_parquet(path)
    members = tuple(
        tuple(name for name, mask in faces.subsets.items() if mask[i]) for i in range(len(faces))
    )
    return UnmatchedFaces(
        str(path), faces.labels, faces.names, classes=faces.label_visibility,
        boxes=faces.label_boxes, images=faces.images, subsets=members, markup=faces.markup_name,
        dataset=faces.dataset,
        paper_pixel=faces.paper_pixel,
    )  # fmt: skip


def _from_arrays(
    arrays: Mapping[str, NDArray[Any]], path: Path
) -> tuple[UnmatchedFaces, UnmatchedFaces | None]:
    """The prediction in a set of named arrays, and the labels if they are there too."""
    lower = {key.lower(): value for key, value in arrays.items()}

    def pick(names: Sequence[str]) -> NDArray[Any] | None:
        return next((lower[name] for name in names if name in lower), None)

    labels = pick(_TRUTH)
    points = pick(POINT_KEYS)
    if points is None:
        points = labels
    if points is None and len(arrays) == 1:
        points = next(iter(arrays.values()))
    if points is None:
        raise InputError(
            f"{path} has no array of points: name it 'points' (it holds {', '.join(arrays)})."
        )
    array, notes = located(points, path)
    shape = array.shape[:2]
    names = pick(_NAMES)
    covariance = pick(_COVARIANCE)
    if covariance is None and "cholesky" in lower:
        covariance = _squared(lower["cholesky"], path)
    probability = pick(_VISIBILITY)
    published = "vis_estimated" in lower and "means" in lower
    classes = pick(_CLASSES)
    side = UnmatchedFaces(
        str(path),
        array,
        () if names is None else tuple(str(name) for name in names),
        None if covariance is None else _shaped(covariance, (*shape, 2, 2), "covariance", path),
        None if probability is None else _shaped(probability, shape, "visibility", path),
        None if classes is None else _shaped(classes, shape, "classes", path).astype(np.int8),
        paper_pixel=np.ones(shape[0]) if published else None,
        notes=notes,
    )
    if labels is None:
        return side, None
    truth = UnmatchedFaces(str(path), located(labels, path)[0], side.names, classes=side.classes)
    return side, truth


def _squared(values: NDArray[Any], path: Path) -> Floats:
    """Sigma = L L^T from (n, k, 3) L11, L21, L22 or (n, k, 2, 2) factors."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape[-1] == 3:
        return np.asarray(algebra.from_cholesky(array))
    if array.shape[-2:] == (2, 2):
        rows, columns = np.array([0, 1, 1]), np.array([0, 0, 1])
        return np.asarray(algebra.from_cholesky(array[..., rows, columns]))
    raise InputError(f"{path}: cholesky must be (n, k, 3) or (n, k, 2, 2), got {array.shape}.")


def _shaped(values: NDArray[Any], shape: tuple[int, ...], name: str, path: Path) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.shape == (*shape, 1):
        array = array[..., 0]
    if array.shape != shape:
        raise InputError(f"{path}: {name} must have shape {shape}, got {array.shape}.")
    return array
