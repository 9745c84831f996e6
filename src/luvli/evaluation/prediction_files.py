"""Predictions and labels made by any program, read as arrays.

Predictions are not labels: a landmark that a model calls invisible still has a predicted
location, and it counts if the label says that the landmark is visible. That is why they are
read here, as arrays, and not as `FaceRecord`s.

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
| names (n) | names, name, image, images, face_id |

A csv needs a header: x_0, y_0, ... (x0, point_x_0, landmark_0_x and the like are understood,
counted from 0 or 1), with `image` or `face_id` to match by, and, if there, visibility_0, ...
and xx_0, xy_0, yy_0, ... A json is ours, a list of objects with `image` and points, or an
object from image name to points.

`ground_truth`, `means`, `cholesky`, `vis_gt` and `vis_estimated` are the arrays that the
published evaluation saves, in pixels of the 256 x 256 crop: one file holds both sides then.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.data.formats import guess_format, read_labels, read_pts
from luvli.data.record import FaceRecord
from luvli.data.sets.source_files import IMAGE_SUFFIXES
from luvli.errors import InputError
from luvli.evaluation.evaluated_faces import read_parquet
from luvli.files import read_text, unreadable
from luvli.likelihood import covariance as algebra

Floats = NDArray[np.float64]

_POINTS = (
    "points", "predicted", "predictions", "landmarks", "means", "mean", "pred", "preds", "pts",
    "keypoints",
)  # fmt: skip
_COVARIANCE = ("covariance", "covariances", "cov", "sigma")
_VISIBILITY = ("visibility", "visibilities", "vis_estimated", "vis")
_TRUTH = ("truth", "ground_truth", "gt")
_CLASSES = ("classes", "visibility_class", "vis_gt")
_NAMES = ("names", "name", "image", "images", "face_id")


@dataclass(frozen=True)
class FaceArrays:
    """Predictions or labels of many faces, before the two are matched."""

    source: str
    points: Floats
    names: tuple[str, ...] = ()
    covariance: Floats | None = None
    visibility: Floats | None = None
    classes: NDArray[np.int8] | None = None
    boxes: Floats | None = None
    paper_pixel: Floats | None = None
    images: tuple[str, ...] = ()
    subsets: tuple[tuple[str, ...], ...] = ()
    markup: str | None = None


def read_predictions(path: Path, signs: bool) -> tuple[FaceArrays, FaceArrays | None]:
    """Predictions of any format, and the labels if the same file holds them.

    `signs`: whether negative pairs in .pts mean occlusion.
    """
    if not path.exists():
        raise unreadable(path)
    if path.is_dir():
        arrays = sorted(path.glob("*.npy"))
        if arrays:
            return _from_arrays({a.stem: _load(a) for a in arrays}, path)
        return _read_pts_folder(path, signs), None
    suffix = path.suffix.lower()
    if suffix == ".npz":
        with _load(path) as content:
            return _from_arrays({key: content[key] for key in content.files}, path)
    if suffix == ".npy":
        return _from_arrays({"points": _load(path)}, path)
    if suffix == ".parquet":
        faces = read_parquet(path)
        side = FaceArrays(
            str(path), faces.predicted, faces.names, faces.covariance, faces.visibility,
            paper_pixel=faces.paper_pixel, images=faces.images, markup=faces.markup,
        )  # fmt: skip
        return side, None
    if suffix == ".csv":
        return _read_csv(path), None
    if suffix == ".json":
        return _read_json(path), None
    raise InputError(f"{path} is not npz, npy, csv, json, parquet or a folder: convert it.")


def read_truth(path: Path, signs: bool) -> FaceArrays:
    """Labels of any format."""
    if not path.exists():
        raise unreadable(path)
    suffix = path.suffix.lower()
    if path.is_dir() and not any(path.glob("*.npy")):
        return _read_pts_folder(path, signs)
    if suffix == ".parquet":
        faces = read_parquet(path)
        members = tuple(
            tuple(name for name, mask in faces.subsets.items() if mask[i])
            for i in range(len(faces))
        )
        return FaceArrays(
            str(path), faces.truth, faces.names, classes=faces.classes, boxes=faces.boxes,
            images=faces.images, subsets=members, markup=faces.markup,
        )  # fmt: skip
    if path.is_dir() or suffix in (".npz", ".npy"):
        side, held = read_predictions(path, signs)
        return held or replace(side, covariance=None, visibility=None)
    guess_format(path)  # says which formats there are
    return _from_records(read_labels(path), path)


def _from_records(records: Sequence[FaceRecord], path: Path) -> FaceArrays:
    if not records:
        raise InputError(f"{path} has no faces: is it the right file?")
    sizes = {len(record.points) for record in records}
    if len(sizes) > 1:
        raise InputError(f"{path} mixes faces of {sorted(sizes)} points: score them one by one.")
    boxes = np.stack([np.full(4, np.nan) if r.box is None else r.box for r in records])
    return FaceArrays(
        str(path),
        np.stack([record.points for record in records]),
        unique_names(r.face_id for r in records),
        classes=np.stack([record.visibility for record in records]),
        boxes=None if np.isnan(boxes).any() else boxes,
        images=tuple(r.image.as_posix() if r.image else "" for r in records),
        subsets=tuple(tuple(r.attributes.get("subsets", ())) for r in records),
        markup=records[0].markup,
    )


def _read_pts_folder(folder: Path, signs: bool) -> FaceArrays:
    files = sorted(folder.rglob("*.pts"))
    if not files:
        raise InputError(f"{folder} holds no .pts (and no .npy) files: check the path.")
    faces = [read_pts(file, signed=signs) for file in files]
    sizes = {len(face.points) for face in faces}
    if len(sizes) > 1:
        raise InputError(f"{folder} mixes files of {sorted(sizes)} points: score them one by one.")
    return FaceArrays(
        str(folder),
        np.stack([face.points for face in faces]),
        tuple(file.relative_to(folder).with_suffix("").as_posix() for file in files),
        classes=np.stack([face.visibility for face in faces]),
        images=tuple(_image_beside(file) for file in files),
    )


def _image_beside(file: Path) -> str:
    beside = (file.with_suffix(suffix) for suffix in IMAGE_SUFFIXES)
    return next((image.as_posix() for image in beside if image.is_file()), "")


def _from_arrays(
    arrays: Mapping[str, NDArray[Any]], path: Path
) -> tuple[FaceArrays, FaceArrays | None]:
    """The prediction in a set of named arrays, and the labels if they are there too."""
    lower = {key.lower(): value for key, value in arrays.items()}

    def pick(names: Sequence[str]) -> NDArray[Any] | None:
        return next((lower[name] for name in names if name in lower), None)

    labels = pick(_TRUTH)
    points = pick(_POINTS)
    if points is None:
        points = labels
    if points is None and len(arrays) == 1:
        points = next(iter(arrays.values()))
    if points is None:
        raise InputError(
            f"{path} has no array of points: name it 'points' (it holds {', '.join(arrays)})."
        )
    points = _located(points, path)
    shape = points.shape[:2]
    names = pick(_NAMES)
    covariance = pick(_COVARIANCE)
    if covariance is None and "cholesky" in lower:
        covariance = _squared(lower["cholesky"], path)
    probability = pick(_VISIBILITY)
    published = "vis_estimated" in lower and "means" in lower
    classes = pick(_CLASSES)
    side = FaceArrays(
        str(path),
        points,
        () if names is None else tuple(str(name) for name in names),
        None if covariance is None else _shaped(covariance, (*shape, 2, 2), "covariance", path),
        None if probability is None else _shaped(probability, shape, "visibility", path),
        None if classes is None else _shaped(classes, shape, "classes", path).astype(np.int8),
        paper_pixel=np.ones(shape[0]) if published else None,
    )
    if labels is None:
        return side, None
    return side, FaceArrays(str(path), _located(labels, path), side.names, classes=side.classes)


def _read_csv(path: Path) -> FaceArrays:
    """One row for each face, see the module's text."""
    rows = list(csv.DictReader(io.StringIO(read_text(path))))
    header = [name for name in (rows[0] if rows else {}) if name]
    numbered = _numbered_columns(header)
    count = len(numbered.get("x", ()))
    if not count or len(numbered.get("y", ())) != count:
        raise InputError(f"{path} has no columns x_0, y_0, ... with rows below: name its columns.")

    def column(stem: str) -> Floats:
        names = numbered.get(stem, [])
        if len(names) != count:
            return np.full((len(rows), count), np.nan)
        try:
            return np.array(
                [[float(row[n]) if row.get(n) else np.nan for n in names] for row in rows]
            )
        except ValueError as error:
            raise InputError(f"{path} has a cell that is not a number ({error}).") from error

    xx, xy, yy = column("xx"), column("xy"), column("yy")
    covariance = np.stack([xx, xy, xy, yy], axis=-1).reshape(len(rows), count, 2, 2)
    probability = column("visibility")

    def words(*names: str) -> tuple[str, ...]:
        key = next((n for n in header if n.strip().lower() in names), None)
        return tuple((row.get(key) or "") if key else "" for row in rows)

    return FaceArrays(
        str(path),
        np.stack([column("x"), column("y")], axis=-1),
        unique_names(words("face_id", "name")),
        None if np.isnan(covariance).all() else covariance,
        None if np.isnan(probability).all() else probability,
        images=words("image", "image_name", "image_path", "file", "filename"),
    )


_NUMBERED = (
    re.compile(r"^(?:[a-z]+_)?(x|y|xx|xy|yy|visibility)_?(\d+)$"),
    re.compile(r"^(?:[a-z]+_)?(\d+)_?(x|y)$"),
)


def _numbered_columns(header: Sequence[str]) -> dict[str, list[str]]:
    """Columns by what they hold, in the order of the landmark's number: x, y, xx, ..."""
    found: dict[str, dict[int, str]] = {}
    for name in header:
        for pattern in _NUMBERED:
            match = pattern.match(name.strip().lower())
            if match:
                word, digits = sorted(match.groups(), key=str.isdigit)
                found.setdefault(word, {})[int(digits)] = name
                break
    return {word: [names[j] for j in sorted(names)] for word, names in found.items()}


def _read_json(path: Path) -> FaceArrays:
    """Our JSON of faces, also as `luvli predict` writes it, or a plain list or mapping."""
    try:
        faces = _listed_faces(json.loads(read_text(path)))
        points = np.stack(
            [np.array([p or (None, None) for p in face["points"]], dtype=float) for face in faces]
        )
        covariance = _all_or_none(faces, "covariance")
        untrained = any(face.get("visibility_trained") is False for face in faces)
        visibility = None if untrained else _all_or_none(faces, "visibility")
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not a JSON of faces with equally many points ({error}): "
            "write it with luvli predict, or convert it to csv or npz."
        ) from error
    return FaceArrays(
        str(path),
        _located(points, path),
        unique_names(str(face.get("face_id") or "") for face in faces),
        covariance,
        visibility,
        images=tuple(str(face.get("image") or "") for face in faces),
        markup=faces[0].get("markup"),
    )


def _listed_faces(content: Any) -> list[dict[str, Any]]:
    """Faces as a list of objects with `points`, whatever of the three forms they come in."""
    if isinstance(content, dict) and "faces" not in content:
        return [{"image": name, "points": points} for name, points in content.items()]
    faces = content["faces"] if isinstance(content, dict) else content
    key = next(name for name in _POINTS if name in faces[0]) if faces else "points"
    return [{**face, "points": face[key]} for face in faces]


def _all_or_none(faces: Sequence[Mapping[str, Any]], name: str) -> Floats | None:
    if any(face.get(name) is None for face in faces):
        return None
    return np.array([face[name] for face in faces], dtype=np.float64)


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, or none at all where one is missing or stands twice."""
    listed = tuple(names)
    return listed if all(listed) and len(set(listed)) == len(listed) else ()


# --- arrays ------------------------------------------------------------------------------


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{path} is not a readable numpy file ({error}): save plain number arrays."
        ) from error


def _located(values: NDArray[Any], path: Path) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] % 2 == 0:  # x0, y0, x1, y1, ...
        array = array.reshape(len(array), -1, 2)
    if array.ndim != 3 or array.shape[2] != 2 or not len(array):
        raise InputError(f"{path}: points must have shape (n, k, 2), got {np.shape(values)}.")
    return array


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
