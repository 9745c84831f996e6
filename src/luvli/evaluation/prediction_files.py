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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.formats import guess_format, read_csv, read_labels, read_menpo_mat, read_pts
from luvli.data.formats.coco import coco_first_pixels
from luvli.data.formats.common import IMAGE_COLUMNS, image_name, load_arrays
from luvli.data.formats.json import POINT_KEYS, parse_faces
from luvli.data.formats.mediapipe import CAVEAT, MESH_SIZES, mesh_to_ibug68
from luvli.data.formats.parquet import read_face_table
from luvli.data.formats.pts import FIRST_PIXEL
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.evaluation.curve import all_or_none
from luvli.evaluation.paper_units import crop_boxes
from luvli.evaluation.report_file import read_parquet, table_array, table_numbers, table_words
from luvli.files import read_text, unreadable
from luvli.image.read import IMAGE_SUFFIXES
from luvli.likelihood import covariance as algebra
from luvli.likelihood import family

_COVARIANCE = ("covariance", "covariances", "cov", "sigma")
_VISIBILITY = ("visibility", "visibilities", "vis_estimated", "vis")
_TRUTH = ("truth", "ground_truth", "gt")
_CLASSES = ("classes", "visibility_class", "vis_gt")
_NAMES = ("names", "name", "face_id", "images", *IMAGE_COLUMNS)
_NOWHERE = -1.0 - FIRST_PIXEL
"""-1 in a .pts file, both coordinates: a landmark without a location"""


@dataclass(frozen=True)
class UnmatchedFaces:
    """n faces with k landmarks; what is None or empty is not known."""

    source: str
    """the file, for messages"""
    points: Floats
    """(n, k, 2) pixels, NaN where there is no location"""
    names: tuple[str, ...] = ()
    covariance: Floats | None = None
    visibility: Floats | None = None
    classes: NDArray[np.int8] | None = None
    boxes: Floats | None = None
    crop_boxes: Floats | None = None
    """(n, 4) what the paper crops by, where it is not the tight boxes"""
    paper_pixel: Floats | None = None
    images: tuple[str, ...] = ()
    image_ids: tuple[str, ...] = ()
    """COCO's numbers of images"""
    subsets: tuple[tuple[str, ...], ...] = ()
    box_size: Floats | None = None
    """(n,) AFLW-19's normaliser"""
    markup: str | None = None
    dataset: str = ""
    notes: tuple[str, ...] = ()
    likelihood: str | None = None
    """the density that the covariances belong to; None: nobody said"""


def arrays_of_records(records: Sequence[FaceRecord], source: str) -> UnmatchedFaces:
    """The faces of a label file or of a data set."""
    if not records:
        raise InputError(f"{source} has no faces: is it the right file?")
    return UnmatchedFaces(
        source,
        _one_array([record.points for record in records], source),
        unique_names(r.face_id for r in records),
        covariance=all_or_none(r.covariance for r in records),
        visibility=all_or_none(r.visibility_probability for r in records),
        classes=np.stack([record.visibility for record in records]),
        boxes=all_or_none(r.box for r in records),
        crop_boxes=crop_boxes(records),
        images=tuple(map(image_name, records)),
        image_ids=tuple(str(r.attributes.get("image_id", "")) for r in records),
        subsets=tuple(tuple(r.attributes.get("subsets", ())) for r in records),
        box_size=all_or_none(r.attributes.get("box_size") for r in records),
        markup=records[0].markup,
        dataset=records[0].dataset if len({r.dataset for r in records}) == 1 else "",
        likelihood=one_likelihood(r.attributes.get("likelihood") for r in records),
    )


def _one_array(points: Sequence[Floats], source: str) -> Floats:
    sizes = {len(each) for each in points}
    if len(sizes) > 1:
        raise InputError(f"{source} mixes faces of {sorted(sizes)} points: score them one by one.")
    return np.stack(points)


def one_likelihood(names: Iterable[object]) -> str | None:
    """The density that all of them name; None, which stands for the Laplacian, where they differ
    or say nothing."""
    named = set(names)
    name = str(named.pop() or "") if len(named) == 1 else ""
    if name:
        family(name)  # refuses an unknown one
    return name or None


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, or none at all where one is missing or stands twice."""
    listed = tuple(names)
    return listed if all(listed) and len(set(listed)) == len(listed) else ()


def located(values: Any, path: Path) -> tuple[Floats, tuple[str, ...]]:
    """Points (n, k, 2) from (n, k, 2), (n, k, 3) or flat (n, 2k), and a note for each change."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] % 2 == 0:  # x0, y0, x1, y1, ...
        array = array.reshape(len(array), -1, 2)
    if array.ndim == 3 and array.shape[1] in MESH_SIZES and array.shape[2] in (2, 3):
        return mesh_to_ibug68(array), (CAVEAT,)
    if array.ndim != 3 or array.shape[2] != 2 or not len(array):
        raise InputError(f"{path}: points must have shape (n, k, 2), got {np.shape(values)}.")
    return array, ()


# --- files and folders -------------------------------------------------------------------


def read_predictions(path: Path, signs: bool) -> tuple[UnmatchedFaces, UnmatchedFaces | None]:
    """Predictions of any format, and the labels if the same file holds them.

    `signs`: whether negative pairs in .pts mean occlusion. A participant of MenpoBenchmark's
    `.mat` is named behind the file: `semifrontal.mat#yang`.
    """
    file, _, field = str(path).partition("#")
    if field and file.endswith(".mat"):
        labels = arrays_of_records(read_menpo_mat(file), file)
        return _from_records(read_menpo_mat(file, field), path), labels
    if not path.exists():
        raise unreadable(path)
    if path.is_dir():
        return _read_folder(path, signs)
    suffix = path.suffix.lower()
    if suffix in (".npz", ".npy"):
        return _from_arrays(load_arrays(path), path)
    if suffix == ".parquet":
        return _read_parquet(path), None
    kind = guess_format(path) if suffix in (".json", ".csv") else ""
    if kind in _READERS:
        return _READERS[kind](path), None
    try:
        return _from_records(read_labels(path), path), None
    except InputError as error:
        if "no known label suffix" in str(error):
            raise InputError(
                f"{path} is not npz, npy, csv, tsv, json, xml, txt, mat, parquet or a folder: "
                "convert it."
            ) from error
        raise


def read_truth(path: Path, signs: bool) -> UnmatchedFaces:
    """Labels of any format that predictions come in, and of every label format."""
    if not path.exists():
        raise unreadable(path)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        faces = read_parquet(path)
        members = [
            [name for name, mask in faces.subsets.items() if mask[i]] for i in range(len(faces))
        ]
        return UnmatchedFaces(
            str(path), faces.labels, faces.names, classes=faces.label_visibility,
            boxes=faces.label_boxes, images=faces.images, subsets=tuple(map(tuple, members)),
            markup=faces.faces.markup, dataset=faces.dataset, paper_pixel=faces.paper_pixel,
        )  # fmt: skip
    if path.is_dir() or suffix in (".npz", ".npy"):
        side, labels = read_predictions(path, signs)
        return labels or replace(side, covariance=None, visibility=None)
    return arrays_of_records(read_labels(path), str(path))


def _from_records(records: Sequence[FaceRecord], path: Path) -> UnmatchedFaces:
    """Label formats know no probability: what they call hidden is no prediction of visibility."""
    return replace(arrays_of_records(records, str(path)), classes=None, boxes=None)


def _read_folder(folder: Path, signs: bool) -> tuple[UnmatchedFaces, UnmatchedFaces | None]:
    if arrays := sorted(folder.glob("*.npy")):
        return _from_arrays({a.stem: load_arrays(a)["points"] for a in arrays}, folder)
    if files := sorted(folder.rglob("*.pts")):
        return _read_pts(files, folder, signs), None
    if next(folder.rglob("*.parquet"), None) is not None:  # of luvli predict --engine ray
        return _read_parquet(folder), None
    if tables := sorted(folder.rglob("*.csv")):  # OpenFace writes one for each image
        records = [
            record.with_changes(image=record.image or Path(table.stem))
            for table in tables
            for record in read_csv(table)
        ]
        return _from_records(records, folder), None
    if labels := sorted(folder.rglob("*.json")):
        return _from_records([r for f in labels for r in read_labels(f)], folder), None
    raise InputError(
        f"{folder} holds no .pts (and no .npy, .parquet, .csv, .json) files: check the path."
    )


def _read_pts(files: Sequence[Path], folder: Path, signs: bool) -> UnmatchedFaces:
    faces = [read_pts(file, signed=signs) for file in files]
    points = _one_array([face.points for face in faces], str(folder))
    classes = np.stack([face.visibility for face in faces])
    nowhere = (points == _NOWHERE).all(axis=2)  # is no place, even where signs are places
    points[nowhere], classes[nowhere] = np.nan, Visibility.SELF_OCCLUDED
    hidden = int((classes == Visibility.SELF_OCCLUDED).sum())
    note = (
        f"{folder}: {hidden:,} landmarks are called self-occluded, for which .pts has no location; "
        "where their labels are visible they count as failures. Write json, csv or parquet."
    )
    beside = [[file.with_suffix(suffix) for suffix in IMAGE_SUFFIXES] for file in files]
    return UnmatchedFaces(
        str(folder),
        points,
        tuple(file.relative_to(folder).with_suffix("").as_posix() for file in files),
        classes=classes,
        images=tuple(next((i.as_posix() for i in each if i.is_file()), "") for each in beside),
        notes=(note,) if hidden else (),
    )


def _read_csv(path: Path) -> UnmatchedFaces:
    """Rows of points, ours or another program's; hidden landmarks keep their location."""
    faces = _from_records(read_csv(path, hidden_points=True), path)
    missing = int(np.isnan(faces.points).all(axis=(1, 2)).sum())
    failed = (f"{path}: {missing} rows without success have no prediction.",) if missing else ()
    points, notes = located(faces.points, path)
    markup = faces.markup if points.shape == faces.points.shape else None  # a mesh became 68
    return replace(faces, points=points, markup=markup, notes=failed + notes)


def _read_coco(path: Path) -> UnmatchedFaces:
    """COCO annotations: the location of every keypoint, whatever its flag."""
    faces = _from_records(read_labels(path, "coco"), path)
    annotations = json.loads(read_text(path))["annotations"]
    keypoints = [a["keypoints"] for a in annotations if a.get("keypoints")]
    rows = np.array(keypoints, dtype=np.float64).reshape(len(faces.points), -1, 3)
    nowhere = (rows == 0).all(axis=2, keepdims=True)
    first = np.array(coco_first_pixels(path))[:, None, None]
    return replace(faces, points=np.where(nowhere, np.nan, rows[..., :2] - first))


def _read_json(path: Path) -> UnmatchedFaces:
    """Our JSON of faces, also as `luvli predict` writes it, or a plain list or mapping."""
    faces = parse_faces(path)

    def stacked(name: str) -> Floats | None:
        untrained = any(face.get(f"{name}_trained") is False for face in faces)
        return None if untrained else all_or_none(face.get(name) for face in faces)

    try:
        points = np.array(
            [[(None, None) if p is None else p for p in f["points"]] for f in faces], dtype=float
        )
        covariance, visibility = stacked("covariance"), stacked("visibility")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is not a JSON of faces with equally many points ({error}): "
            "write it with luvli predict, or convert it to csv or npz."
        ) from error
    points, notes = located(points, path)
    return UnmatchedFaces(
        str(path),
        points,
        unique_names(str(face.get("face_id") or "") for face in faces),
        covariance,
        visibility,
        likelihood=one_likelihood(face.get("likelihood") for face in faces),
        images=tuple(str(face.get("image") or "") for face in faces),
        markup=faces[0].get("markup"),
        notes=notes,
    )


_READERS = {"coco": _read_coco, "json": _read_json, "csv": _read_csv}


def _read_parquet(path: Path) -> UnmatchedFaces:
    table = read_face_table(path)

    def words(column: str) -> tuple[str, ...]:
        return table_words(table, column, path)

    def trained(name: str) -> Floats | None:
        flag = f"{name}_trained"
        if flag in table.column_names and False in table[flag].to_pylist():
            return None
        return table_array(table, name, path)

    frames, images = words("frame"), words("image")
    if frames and all(frames):  # faces of a video: its name does not tell them apart
        images = tuple(f"{image}#{frame}" for image, frame in zip(images, frames, strict=True))
    markups = {word for word in words("markup") if word}
    points, notes = located(table_array(table, "points", path), path)
    return UnmatchedFaces(
        str(path),
        points,
        unique_names(words("face_id")),
        trained("covariance"),
        trained("visibility"),
        likelihood=one_likelihood(words("likelihood")),
        paper_pixel=table_numbers(table, "paper_pixel", path),
        images=images,
        markup=markups.pop() if len(markups) == 1 else None,
        notes=notes,
    )


def _from_arrays(
    arrays: Mapping[str, NDArray[Any]], path: Path
) -> tuple[UnmatchedFaces, UnmatchedFaces | None]:
    """The prediction in a set of named arrays, and the labels if they are there too."""
    lower = {key.lower(): value for key, value in arrays.items()}

    def pick(names: Sequence[str]) -> NDArray[Any] | None:
        return next((lower[name] for name in names if name in lower), None)

    labels, points = pick(_TRUTH), pick((*POINT_KEYS, *_TRUTH))
    if points is None and len(arrays) == 1:
        points = next(iter(arrays.values()))
    if points is None:
        raise InputError(
            f"{path} has no array of points: name it 'points' (it holds {', '.join(arrays)})."
        )
    places, notes = located(points, path)

    def shaped(values: NDArray[Any] | None, name: str, *more: int) -> Floats | None:
        if values is None:
            return None
        array = np.asarray(values, dtype=np.float64)
        shape = (*places.shape[:2], *more)
        if array.shape == (*shape, 1):
            array = array[..., 0]
        if array.shape != shape:
            raise InputError(f"{path}: {name} must have shape {shape}, got {array.shape}.")
        return array

    names, covariance = pick(_NAMES), pick(_COVARIANCE)
    if covariance is None and "cholesky" in lower:
        covariance = _squared(lower["cholesky"], path)
    classes = shaped(pick(_CLASSES), "classes")
    published = "vis_estimated" in lower and "means" in lower
    side = UnmatchedFaces(
        str(path),
        places,
        () if names is None else tuple(str(name) for name in names),
        shaped(covariance, "covariance", 2, 2),
        shaped(pick(_VISIBILITY), "visibility"),
        None if classes is None else classes.astype(np.int8),
        paper_pixel=np.ones(len(places)) if published else None,
        notes=notes,
    )
    if labels is None:
        return side, None
    truth = UnmatchedFaces(str(path), located(labels, path)[0], side.names, classes=side.classes)
    return side, truth


def _squared(values: NDArray[Any], path: Path) -> Floats:
    """Sigma = L L^T from (n, k, 3) L11, L21, L22 or (n, k, 2, 2) factors."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape[-2:] == (2, 2):
        array = array[..., [0, 1, 1], [0, 0, 1]]
    if array.shape[-1] != 3:
        raise InputError(f"{path}: cholesky must be (n, k, 3) or (n, k, 2, 2), got {array.shape}.")
    return np.asarray(algebra.from_cholesky(array))
