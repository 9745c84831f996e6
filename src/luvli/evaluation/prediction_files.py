"""Predictions and labels made by any program, read as `FaceRecord`s.

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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.formats import guess_format, read_csv, read_labels, read_menpo_mat, read_pts
from luvli.data.formats.coco import coco_first_pixels
from luvli.data.formats.common import face, image_name, load_arrays
from luvli.data.formats.json import POINT_KEYS, parse_faces
from luvli.data.formats.mediapipe import MESH_SIZES
from luvli.data.formats.parquet import read_face_table
from luvli.data.formats.pts import FIRST_PIXEL
from luvli.data.formats.tables import IMAGE_COLUMNS
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.evaluation.report_file import read_parquet, table_array, table_numbers, table_words
from luvli.files import read_text, unreadable
from luvli.image.read import IMAGE_SUFFIXES
from luvli.likelihood import covariance as algebra

_COVARIANCE = ("covariance", "covariances", "cov", "sigma")
_VISIBILITY = ("visibility", "visibilities", "vis_estimated", "vis")
_TRUTH = ("truth", "ground_truth", "gt")
_CLASSES = ("classes", "visibility_class", "vis_gt")
_NAMES = ("names", "name", "face_id", "images", *IMAGE_COLUMNS)
_NOWHERE = -1.0 - FIRST_PIXEL
"""-1 in a .pts file, both coordinates: a landmark without a location"""


@dataclass(frozen=True)
class FaceFile:
    """The faces of one side, predictions or labels, and what they are called there."""

    source: str
    """the file, for messages"""
    records: Sequence[FaceRecord]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.records:
            raise InputError(f"{self.source} has no faces: is it the right file?")
        sizes = {len(record.points) for record in self.records}
        if len(sizes) > 1:
            raise InputError(
                f"{self.source} mixes faces of {sorted(sizes)} points: score them one by one."
            )

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def points(self) -> Floats:
        """(n, k, 2) pixels, NaN where there is no location."""
        return np.stack([record.points for record in self.records])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Face ids; () where one is missing or stands twice."""
        return unique_names([record.face_id for record in self.records])

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Paths of the images; () where one is missing."""
        return self._all([image_name(record) for record in self.records])

    @cached_property
    def image_ids(self) -> tuple[str, ...]:
        """COCO's numbers of images; () where one is missing."""
        return self._all([str(r.attributes.get("image_id", "")) for r in self.records])

    @staticmethod
    def _all(words: list[str]) -> tuple[str, ...]:
        return tuple(words) if all(words) else ()


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, or none at all where one is missing or stands twice."""
    return tuple(names) if all(names) and len(set(names)) == len(names) else ()


# --- files and folders -------------------------------------------------------------------


def read_predictions(path: Path, signs: bool) -> tuple[FaceFile, FaceFile | None]:
    """Predictions of any format, and the labels if the same file holds them.

    `signs`: whether negative pairs in .pts mean occlusion. A participant of MenpoBenchmark's
    `.mat` is named behind the file: `semifrontal.mat#yang`.
    """
    file, _, field = str(path).partition("#")
    if field and file.endswith(".mat"):
        return FaceFile(str(path), read_menpo_mat(file, field)), FaceFile(
            file, read_menpo_mat(file)
        )
    if not path.exists():
        raise unreadable(path)
    if path.is_dir():
        return _read_folder(path, signs)
    suffix = path.suffix.lower()
    if suffix in (".npz", ".npy"):
        return _from_named_arrays(load_arrays(path), path)
    if suffix == ".parquet":
        return _read_parquet(path), None
    kind = guess_format(path) if suffix in (".json", ".csv") else ""
    if kind in _READERS:
        return _READERS[kind](path), None
    try:
        return FaceFile(str(path), read_labels(path)), None
    except InputError as error:
        if "no known label suffix" not in str(error):
            raise
        raise InputError(
            f"{path} is not npz, npy, csv, tsv, json, xml, txt, mat, parquet or a folder: "
            "convert it."
        ) from error


def read_truth(path: Path, signs: bool) -> FaceFile:
    """Labels of any format that predictions come in, and of every label format."""
    if not path.exists():
        raise unreadable(path)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return FaceFile(str(path), read_parquet(path).records())
    if path.is_dir() or suffix in (".npz", ".npy"):
        side, labels = read_predictions(path, signs)
        return labels or side
    return FaceFile(str(path), read_labels(path))


def _read_folder(folder: Path, signs: bool) -> tuple[FaceFile, FaceFile | None]:
    name = str(folder)
    if arrays := sorted(folder.glob("*.npy")):
        return _from_named_arrays({a.stem: load_arrays(a)["points"] for a in arrays}, folder)
    if files := sorted(folder.rglob("*.pts")):
        return _read_pts(files, folder, signs), None
    if next(folder.rglob("*.parquet"), None) is not None:  # of luvli predict --engine ray
        return _read_parquet(folder), None
    if tables := sorted(folder.rglob("*.csv")):  # OpenFace writes one for each image
        records = [(file, record) for file in tables for record in read_csv(file)]
        images = [r.with_changes(image=r.image or Path(file.stem)) for file, r in records]
        return FaceFile(name, images), None
    if labels := sorted(folder.rglob("*.json")):
        return FaceFile(name, [r for file in labels for r in read_labels(file)]), None
    raise InputError(
        f"{folder} holds no .pts (and no .npy, .parquet, .csv, .json) files: check the path."
    )


def _read_pts(files: Sequence[Path], folder: Path, signs: bool) -> FaceFile:
    records, hidden = [], 0
    for file in files:
        points, classes = read_pts(file, signed=signs)
        # -1, -1 is no place, even where signs are places
        classes[(points == _NOWHERE).all(axis=1)] = Visibility.SELF_OCCLUDED
        hidden += int((classes == Visibility.SELF_OCCLUDED).sum())
        beside = (file.with_suffix(suffix) for suffix in IMAGE_SUFFIXES)
        image = next((image.as_posix() for image in beside if image.is_file()), "")
        name = file.relative_to(folder).with_suffix("").as_posix()
        records.append(face(points, image, classes, face_id=name))
    note = (
        f"{folder}: {hidden:,} landmarks are called self-occluded, for which .pts has no location; "
        "where their labels are visible they count as failures. Write json, csv or parquet."
    )
    return FaceFile(str(folder), records, (note,) if hidden else ())


def _read_csv(path: Path) -> FaceFile:
    """Rows of points, ours or another program's; hidden landmarks keep their location."""
    records = read_csv(path, hidden_points=True)
    missing = sum(np.isnan(record.points).all() for record in records)
    note = f"{path}: {missing} rows without success have no prediction."
    return FaceFile(str(path), records, (note,) if missing else ())


def _read_coco(path: Path) -> FaceFile:
    """COCO annotations: the location of every keypoint, whatever its flag."""
    records = read_labels(path, "coco")
    annotations = json.loads(read_text(path))["annotations"]
    keypoints = [a["keypoints"] for a in annotations if a.get("keypoints") is not None]
    located = []
    for record, numbers, first in zip(records, keypoints, coco_first_pixels(path), strict=True):
        rows = np.reshape(numbers, (-1, 3)).astype(float)
        there = (rows != 0).any(axis=1)
        located.append(record.with_changes(points=rows[:, :2] - first, visibility=there))
    return FaceFile(str(path), located)


def _read_json(path: Path) -> FaceFile:
    """Our JSON of faces, also as `luvli predict` writes it, or a plain list or mapping."""
    faces = parse_faces(path)

    def trained(name: str) -> Any:
        untrained = any(each.get(f"{name}_trained") is False for each in faces)
        return None if untrained else [each.get(name) for each in faces]

    try:
        points = np.array(
            [[(None, None) if p is None else p for p in f["points"]] for f in faces], dtype=float
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is not a JSON of faces with equally many points ({error}): "
            "write it with luvli predict, or convert it to csv or npz."
        ) from error
    return _from_arrays(
        path, points, trained("covariance"), trained("visibility"),
        names=[str(each.get("face_id") or "") for each in faces],
        images=[str(each.get("image") or "") for each in faces],
        markups=[each.get("markup") for each in faces],
        likelihood=[each.get("likelihood") for each in faces],
    )  # fmt: skip


_READERS = {"coco": _read_coco, "json": _read_json, "csv": _read_csv}


def _read_parquet(path: Path) -> FaceFile:
    table = read_face_table(path)

    def trained(name: str) -> Floats | None:
        flag = f"{name}_trained"
        untrained = flag in table.column_names and False in table[flag].to_pylist()
        return None if untrained else table_array(table, name, path)

    frames, images = (table_words(table, name) for name in ("frame", "image"))
    if frames and all(frames):  # faces of a video: its name does not tell them apart
        images = tuple(f"{image}#{frame}" for image, frame in zip(images, frames, strict=True))
    return _from_arrays(
        path, table_array(table, "points", path), trained("covariance"), trained("visibility"),
        names=table_words(table, "face_id"), images=images, markups=table_words(table, "markup"),
        likelihood=table_words(table, "likelihood"),
        paper_pixel=table_numbers(table, "paper_pixel"),
    )  # fmt: skip


def _from_named_arrays(
    arrays: Mapping[str, NDArray[Any]], path: Path
) -> tuple[FaceFile, FaceFile | None]:
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
    covariance, listed = pick(_COVARIANCE), pick(_NAMES)
    if covariance is None and "cholesky" in lower:
        factor = np.asarray(lower["cholesky"], dtype=np.float64)
        three = factor[..., [0, 1, 1], [0, 0, 1]] if factor.shape[-2:] == (2, 2) else factor
        covariance = np.asarray(algebra.from_cholesky(three))
    names = [] if listed is None else [str(name) for name in listed]
    published = "vis_estimated" in lower and "means" in lower
    pixel = np.ones(len(points)) if published else None
    side = _from_arrays(path, points, covariance, pick(_VISIBILITY), names=names, paper_pixel=pixel)
    if labels is None:
        return side, None
    return side, _from_arrays(path, labels, names=names, classes=pick(_CLASSES))


def _from_arrays(
    path: Path, points: Any, covariance: Any = None, visibility: Any = None, *, classes: Any = None,
    names: Sequence[str] = (), images: Sequence[str] = (), markups: Sequence[Any] = (),
    likelihood: Sequence[Any] = (), paper_pixel: Floats | None = None,
) -> FaceFile:  # fmt: skip
    """Records of points (n, k, 2), a mesh (n, 478, 3) or flat (n, 2k), and what is known of each
    face besides; None and () for what is not."""
    places = np.asarray(points, dtype=np.float64)
    if places.ndim == 2 and places.shape[1] % 2 == 0:  # x0, y0, x1, y1, ...
        places = places.reshape(len(places), -1, 2)
    if places.ndim == 3 and places.shape[1] in MESH_SIZES:
        places = places[..., :2]
    if places.ndim != 3 or places.shape[2] != 2 or not len(places):
        raise InputError(f"{path}: points must have shape (n, k, 2), got {np.shape(points)}.")
    n, k = places.shape[:2]
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
        "covariance": (covariance, (n, k, 2, 2)),
        "visibility_probability": (visibility, (n, k)),
        "classes": (classes, (n, k)),
    }
    columns: dict[str, Any] = {}
    for name, (values, shape) in shapes.items():
        if values is None or any(value is None for value in values):
            continue
        array = np.asarray(values, dtype=np.float64)
        if array.size != np.prod(shape) or array.shape[:2] != shape[:2]:
            raise InputError(f"{path}: {name} must have shape {shape}, got {array.shape}.")
        columns[name] = array.reshape(shape)
    columns |= {name: list(words) for name, words in (("face_id", names), ("image", images),
                ("markup", markups)) if len(words)}  # fmt: skip
    records = []
    for i, place in enumerate(places):
        fields = {name: values[i] for name, values in columns.items() if values[i] is not None}
        if not fields.get("markup"):
            fields.pop("markup", None)
        about = {"likelihood": likelihood[i]} if len(likelihood) and likelihood[i] else {}
        if paper_pixel is not None:
            about["paper_pixel"] = paper_pixel[i]
        records.append(face(place, attributes=about, **fields))
    return FaceFile(str(path), records)
