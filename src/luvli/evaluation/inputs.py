"""Predictions and labels made by any program, read and matched.

Predictions are not labels: a landmark that a model calls invisible still has a predicted
location, and it counts if the label says that the landmark is visible. That is why they are
read here, as arrays, and not as `FaceRecord`s.

Arrays may come under these names (the first found counts; case does not matter):

| what | names |
|---|---|
| points (n, k, 2) | points, predicted, predictions, landmarks, means, mean, pred, preds |
| covariance (n, k, 2, 2) | covariance, covariances, cov, sigma |
| its Cholesky factor (n, k, 3) as L11, L21, L22, or (n, k, 2, 2) | cholesky |
| probability of visibility (n, k) | visibility, visibilities, vis_estimated, vis |
| labels (n, k, 2) | truth, ground_truth, gt |
| visibility class of the labels (n, k) | classes, visibility_class, vis_gt |
| names (n) | names, name, image, images, face_id |

`ground_truth`, `means`, `cholesky`, `vis_gt` and `vis_estimated` are the arrays that the
published evaluation saves, in pixels of the 256 x 256 crop: one file holds both sides then.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.data.formats import guess_format, read_labels, read_pts
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets.base import IMAGE_SUFFIXES
from luvli.errors import InputError
from luvli.evaluation.faces import EvaluatedFaces, read_parquet
from luvli.files import PathLike, read_text, unreadable
from luvli.likelihood import covariance as algebra

Floats = NDArray[np.float64]

_POINTS = ("points", "predicted", "predictions", "landmarks", "means", "mean", "pred", "preds")
_COVARIANCE = ("covariance", "covariances", "cov", "sigma")
_VISIBILITY = ("visibility", "visibilities", "vis_estimated", "vis")
_TRUTH = ("truth", "ground_truth", "gt")
_CLASSES = ("classes", "visibility_class", "vis_gt")
_NAMES = ("names", "name", "image", "images", "face_id")
_HEATMAP_PIXEL = 4.0  # of the published arrays: a 256-pixel crop over 64 heat-map cells


@dataclass(frozen=True)
class Side:
    """One side of the comparison, before the two are matched."""

    source: str
    points: Floats
    names: tuple[str, ...] = ()
    covariance: Floats | None = None
    visibility: Floats | None = None
    classes: NDArray[np.int8] | None = None
    boxes: Floats | None = None
    heatmap_pixel: Floats | None = None
    images: tuple[str, ...] = ()
    subsets: tuple[tuple[str, ...], ...] = ()
    markup: str | None = None


def read_faces(
    predictions: PathLike,
    truth: PathLike | None = None,
    *,
    one_based: bool = False,
    signs: bool = True,
    given_boxes: bool = False,
    **about: Any,
) -> EvaluatedFaces:
    """Read predictions and labels from npz, npy folder, csv, json, parquet or a folder of .pts.

    `truth` may be left out when the predictions hold the labels too. `one_based` says that
    the predictions (other than .pts, which always do) count pixels from 1. `signs` reads a
    pair of negative coordinates in .pts as occlusion (MERL-RAV). `given_boxes` normalises by
    the boxes in the label file instead of tight ones. `about`: method, dataset, subset,
    markup.
    """
    given = {name: value for name, value in about.items() if value is not None}
    if truth is None and Path(predictions).suffix == ".parquet":
        return replace(read_parquet(predictions), **given)
    guess, held = _read_predictions(Path(predictions), signs)
    if one_based and Path(predictions).is_file():
        guess = replace(guess, points=guess.points - 1.0)
    labels = held if truth is None else _read_truth(Path(truth), signs)
    if labels is None:
        raise InputError(f"{predictions} holds no labels: give them with --truth.")
    if not given_boxes:
        labels = replace(labels, boxes=None)
    return _match(guess, labels, given)


# --- reading -----------------------------------------------------------------------------


def _read_predictions(path: Path, signs: bool) -> tuple[Side, Side | None]:
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
        side = Side(
            str(path), faces.predicted, faces.names, faces.covariance, faces.visibility,
            heatmap_pixel=faces.heatmap_pixel, images=faces.images, markup=faces.markup,
        )  # fmt: skip
        return side, None
    if suffix == ".csv":
        return _read_csv(path), None
    if suffix == ".json":
        return _read_json(path), None
    raise InputError(f"{path} is not npz, npy, csv, json, parquet or a folder: convert it.")


def _read_truth(path: Path, signs: bool) -> Side:
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
        return Side(
            str(path), faces.truth, faces.names, classes=faces.classes, boxes=faces.boxes,
            images=faces.images, subsets=members, markup=faces.markup,
        )  # fmt: skip
    if path.is_dir() or suffix in (".npz", ".npy"):
        side, held = _read_predictions(path, signs)
        return held or replace(side, covariance=None, visibility=None)
    guess_format(path)  # says which formats there are
    return _from_records(read_labels(path), path)


def _from_records(records: Sequence[FaceRecord], path: Path) -> Side:
    if not records:
        raise InputError(f"{path} has no faces: is it the right file?")
    sizes = {len(record.points) for record in records}
    if len(sizes) > 1:
        raise InputError(f"{path} mixes faces of {sorted(sizes)} points: score them one by one.")
    boxes = np.stack([np.full(4, np.nan) if r.box is None else r.box for r in records])
    return Side(
        str(path),
        np.stack([record.points for record in records]),
        _unique(r.face_id for r in records),
        classes=np.stack([record.visibility for record in records]),
        boxes=None if np.isnan(boxes).any() else boxes,
        images=tuple(r.image.as_posix() if r.image else "" for r in records),
        subsets=tuple(tuple(r.attributes.get("subsets", ())) for r in records),
        markup=records[0].markup,
    )


def _read_pts_folder(folder: Path, signs: bool) -> Side:
    files = sorted(folder.rglob("*.pts"))
    if not files:
        raise InputError(f"{folder} holds no .pts (and no .npy) files: check the path.")
    faces = [read_pts(file, signed=signs) for file in files]
    sizes = {len(face.points) for face in faces}
    if len(sizes) > 1:
        raise InputError(f"{folder} mixes files of {sorted(sizes)} points: score them one by one.")
    return Side(
        str(folder),
        np.stack([face.points for face in faces]),
        tuple(file.relative_to(folder).with_suffix("").as_posix() for file in files),
        classes=np.stack([face.visibility for face in faces]),
        images=tuple(_picture_beside(file) for file in files),
    )


def _picture_beside(file: Path) -> str:
    beside = (file.with_suffix(suffix) for suffix in IMAGE_SUFFIXES)
    return next((picture.as_posix() for picture in beside if picture.is_file()), "")


def _from_arrays(arrays: Mapping[str, NDArray[Any]], path: Path) -> tuple[Side, Side | None]:
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
    side = Side(
        str(path),
        points,
        () if names is None else tuple(str(name) for name in names),
        None if covariance is None else _shaped(covariance, (*shape, 2, 2), "covariance", path),
        None if probability is None else _shaped(probability, shape, "visibility", path),
        None if classes is None else _shaped(classes, shape, "classes", path).astype(np.int8),
        heatmap_pixel=np.full(shape[0], _HEATMAP_PIXEL) if published else None,
    )
    if labels is None:
        return side, None
    return side, Side(str(path), _located(labels, path), side.names, classes=side.classes)


def _read_csv(path: Path) -> Side:
    """Rows with x_0, y_0, ... (also x0, y0); covariance and visibility columns if there."""
    rows = list(csv.DictReader(io.StringIO(read_text(path))))
    header = {re.sub(r"[_ ]", "", name).lower(): name for name in (rows[0] if rows else {}) if name}
    count = 0
    while f"x{count}" in header and f"y{count}" in header:
        count += 1
    if not count:
        raise InputError(
            f"{path} has no columns x_0, y_0, ... with rows below: rename its columns."
        )

    def column(stem: str) -> Floats:
        names = [header.get(f"{stem}{j}") for j in range(count)]
        try:
            return np.array(
                [[float(row[n]) if n and row.get(n) else np.nan for n in names] for row in rows]
            )
        except ValueError as error:
            raise InputError(f"{path} has a cell that is not a number ({error}).") from error

    xx, xy, yy = column("xx"), column("xy"), column("yy")
    covariance = np.stack([xx, xy, xy, yy], axis=-1).reshape(len(rows), count, 2, 2)
    probability = column("visibility")

    def words(name: str) -> tuple[str, ...]:
        key = header.get(name)
        return tuple((row.get(key) or "") if key else "" for row in rows)

    return Side(
        str(path),
        np.stack([column("x"), column("y")], axis=-1),
        _unique(words("faceid")),
        None if np.isnan(covariance).all() else covariance,
        None if np.isnan(probability).all() else probability,
        images=words("image"),
    )


def _read_json(path: Path) -> Side:
    """Our JSON of faces, also as `luvli predict` writes it."""
    try:
        faces = json.loads(read_text(path))["faces"]
        points = np.stack(
            [np.array([p or (None, None) for p in face["points"]], dtype=float) for face in faces]
        )
        covariance = _all_or_none(faces, "covariance")
        untrained = any(face.get("visibility_trained") is False for face in faces)
        visibility = None if untrained else _all_or_none(faces, "visibility")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not a luvli JSON of faces with equally many points ({error}): "
            "write it with luvli predict, or convert it to csv or npz."
        ) from error
    return Side(
        str(path), points, _unique(str(face.get("face_id") or "") for face in faces),
        covariance, visibility, images=tuple(str(face.get("image") or "") for face in faces),
        markup=faces[0].get("markup"),
    )  # fmt: skip


def _all_or_none(faces: Sequence[Mapping[str, Any]], name: str) -> Floats | None:
    if any(face.get(name) is None for face in faces):
        return None
    return np.array([face[name] for face in faces], dtype=np.float64)


# --- matching ----------------------------------------------------------------------------


def _match(guess: Side, labels: Side, about: Mapping[str, Any]) -> EvaluatedFaces:
    if guess.points.shape[1] != labels.points.shape[1]:
        raise InputError(
            f"{guess.source} has {guess.points.shape[1]} landmarks and {labels.source} has "
            f"{labels.points.shape[1]}: both must have the same markup."
        )
    index, notes = _rows(guess, labels)
    there = index >= 0

    def taken(values: NDArray[Any] | None) -> Any:
        if values is None:
            return None
        out = np.full((len(index), *values.shape[1:]), np.nan)
        out[there] = values[index[there]]
        return out

    classes = labels.classes
    if classes is None:
        located = np.isfinite(labels.points).all(axis=2)
        classes = np.where(located, Visibility.UNOCCLUDED, Visibility.UNLABELLED).astype(np.int8)
    pixel = taken(guess.heatmap_pixel)
    parts = sorted({name for members in labels.subsets for name in members})
    return EvaluatedFaces(
        predicted=taken(guess.points),
        truth=np.where((classes > 0)[..., None], labels.points, np.nan),
        classes=classes,
        covariance=taken(guess.covariance),
        visibility=taken(guess.visibility),
        boxes=labels.boxes,
        heatmap_pixel=pixel,
        names=_display_names(labels) or guess.names,
        images=labels.images or guess.images,
        subsets={part: np.array([part in members for members in labels.subsets]) for part in parts},
        notes=tuple(notes),
        **({"markup": labels.markup or guess.markup} | dict(about)),
    )


def _rows(guess: Side, labels: Side) -> tuple[NDArray[np.intp], list[str]]:
    """For each label the row of its prediction, -1 where there is none."""
    n, m = len(labels.points), len(guess.points)
    for key in _KEYS:
        left, right = key(labels), key(guess)
        if left is None or right is None or not set(left) & set(right):
            continue
        where = {name: i for i, name in enumerate(right)}
        index = np.array([where.get(name, -1) for name in left], dtype=np.intp)
        missing = [name for name, i in zip(left, index, strict=True) if i < 0]
        notes = []
        if missing:
            notes.append(
                f"{len(missing)} of {n} faces have no prediction and count as failures "
                f"(the first is {missing[0]})."
            )
        if m > n - len(missing):
            notes.append(f"{m - n + len(missing)} predictions have no label and are left out.")
        return index, notes
    named = [side.source for side in (guess, labels) if any(key(side) for key in _KEYS)]
    if len(named) == 2:
        raise InputError(
            f"no face of {guess.source} has the name of a face of {labels.source} "
            f"({_example(guess)} and {_example(labels)}, for instance): name them alike."
        )
    if n != m:
        raise InputError(
            f"{guess.source} has {m} faces and {labels.source} has {n}: without names on both "
            "sides they must be the same faces in the same order."
        )
    return np.arange(n), ["Predictions and labels were matched by their order."]


def _face_ids(side: Side) -> tuple[str, ...] | None:
    return _if_unique(side.names)


def _image_paths(side: Side) -> tuple[str, ...] | None:
    return _if_unique(side.images)


def _stems(side: Side) -> tuple[str, ...] | None:
    """File names without folder and suffix, of the pictures or else of the names."""
    source = side.images if side.images and all(side.images) else side.names
    return _if_unique(tuple(Path(name).stem for name in source))


_KEYS: tuple[Callable[[Side], tuple[str, ...] | None], ...] = (_face_ids, _image_paths, _stems)


def _if_unique(names: Sequence[str]) -> tuple[str, ...] | None:
    ok = names and all(names) and len(set(names)) == len(names)
    return tuple(names) if ok else None


def _unique(names: Any) -> tuple[str, ...]:
    return _if_unique(tuple(names)) or ()


def _display_names(side: Side) -> tuple[str, ...]:
    return _face_ids(side) or _stems(side) or side.names


def _example(side: Side) -> str:
    return repr((_face_ids(side) or _stems(side) or ("",))[0])


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
