"""Predictions and labels made by any program, read as `FaceRecord`s.

Predictions are not labels: a landmark that a model calls invisible still has a predicted
location, and it counts if the label says that the landmark is visible. So JSON, CSV and COCO
predictions are read with `hidden_points`. Every other layout is one of `luvli.data.formats`.

Arrays are found by the names that people give them (below; case does not matter). `ground_truth`,
`means`, `cholesky`, `vis_gt` and `vis_estimated` are those that the published evaluation saves, in
pixels of the 256 x 256 crop: one file holds predictions and labels then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.data.formats import guess_format, read_coco, read_csv, read_json, read_labels
from luvli.data.formats.checked import load_arrays, naming
from luvli.data.formats.common import face, image_name
from luvli.data.formats.json import POINT_KEYS
from luvli.data.formats.mediapipe import MESH_SIZES
from luvli.data.formats.parquet import read_face_table
from luvli.data.formats.tables import IMAGE_COLUMNS
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.evaluation.labelled_parquet import CARRIED, label_of_row
from luvli.files import unreadable
from luvli.likelihood import covariance as algebra

_COVARIANCE = ("covariance", "covariances", "cov", "sigma")
_VISIBILITY = ("visibility", "visibilities", "vis_estimated", "vis")
_TRUTH = ("truth", "ground_truth", "gt")
_CLASSES = ("classes", "visibility_class", "vis_gt")
_NAMES = ("names", "name", "face_id", "images", *IMAGE_COLUMNS)
SUFFIXES = (".json", ".csv", ".tsv", ".xml", ".txt", ".mat", ".pts")
"""of `luvli.data.formats`"""
_READERS = {"json": read_json, "csv": read_csv, "coco": read_coco}
"""formats that can hold the location of a landmark beside the word that it is hidden"""


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
        names = tuple(map(image_name, self.records))
        return names if all(names) else ()

    @cached_property
    def image_ids(self) -> tuple[str, ...]:
        """COCO's numbers of images; () where one is missing."""
        numbers = tuple(str(record.attributes.get("image_id", "")) for record in self.records)
        return numbers if all(numbers) else ()


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, or none at all where one is missing or stands twice."""
    return tuple(names) if all(names) and len(set(names)) == len(names) else ()


def read_predictions(path: Path) -> tuple[FaceFile, FaceFile | None]:
    """Predictions of any format, and the labels if the same file holds them."""
    if not path.exists():
        raise unreadable(path)
    if path.is_dir():
        return _read_folder(path)
    suffix = path.suffix.lower()
    if suffix in (".npz", ".npy"):
        return _from_named_arrays(load_arrays(path), path)
    if suffix == ".parquet":
        return _read_parquet(path)
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path} is not npz, npy, csv, tsv, json, xml, txt, mat, parquet or a folder: "
            "convert it."
        )
    kind = guess_format(path) if suffix in (".json", ".csv") else ""
    if kind not in _READERS:
        return FaceFile(str(path), read_labels(path)), None
    records = _READERS[kind](path, hidden_points=True)
    missing = sum(not record.visible.any() for record in records)
    note = f"{path}: {missing} rows without success have no prediction."
    return FaceFile(str(path), records, (note,) if missing else ()), None


def read_truth(path: Path) -> FaceFile:
    """Labels of any format that predictions come in, and of every label format."""
    if path.is_dir() or path.suffix.lower() in (".npz", ".npy", ".parquet") or not path.exists():
        side, labels = read_predictions(path)
        return labels or side
    return FaceFile(str(path), read_labels(path))


def _read_folder(folder: Path) -> tuple[FaceFile, FaceFile | None]:
    if arrays := sorted(folder.glob("*.npy")):
        return _from_named_arrays({a.stem: load_arrays(a)["points"] for a in arrays}, folder)
    if files := sorted(folder.rglob("*.pts")):
        return _read_pts(files, folder), None
    if next(folder.rglob("*.parquet"), None) is not None:  # of luvli predict --engine ray
        return _read_parquet(folder)
    files = sorted(folder.rglob("*.csv")) or sorted(folder.rglob("*.json"))
    records = [(file, record) for file in files for record in read_labels(file)]
    if not files:
        raise InputError(
            f"{folder} holds no .pts (and no .npy, .parquet, .csv, .json) files: check the path."
        )
    # OpenFace writes one table for each image
    named = [r.with_changes(image=image_name(r) or Path(file.stem)) for file, r in records]
    return FaceFile(str(folder), named), None


def _read_pts(files: Sequence[Path], folder: Path) -> FaceFile:
    records = [
        record.with_changes(face_id=file.relative_to(folder).with_suffix("").as_posix())
        for file in files
        for record in read_labels(file)
    ]
    hidden = sum(int((r.visibility == Visibility.SELF_OCCLUDED).sum()) for r in records)
    note = (
        f"{folder}: {hidden:,} landmarks are called self-occluded, for which .pts has no location; "
        "where their labels are visible they count as failures. Write json, csv or parquet."
    )
    return FaceFile(str(folder), records, (note,) if hidden else ())


def _read_parquet(path: Path) -> tuple[FaceFile, FaceFile | None]:
    table = read_face_table(path)
    columns: dict[str, Any] = table.to_pydict()
    frames = columns.get("frame", [None])
    if "image" in columns and None not in frames:  # of a video: its name is that of all frames
        pairs = zip(columns["image"], frames, strict=True)
        columns["image"] = [f"{image}#{frame}" for image, frame in pairs]
    labels = None
    if b"luvli" in (table.schema.metadata or {}) and f"{CARRIED}points" in columns:  # of a report
        labels = FaceFile(str(path), list(map(label_of_row, table.to_pylist())))
    for name in ("covariance", "visibility"):
        if False in columns.get(f"{name}_trained", ()):
            columns.pop(name, None)
    if "covariance" in columns:
        columns["covariance"] = [c and np.reshape(c, (-1, 2, 2)) for c in columns["covariance"]]
    return _from_columns(path, **columns), labels


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
    words = {} if listed is None else {"face_id": [str(name) for name in listed]}
    visibility = pick(_VISIBILITY)
    if visibility is not None:
        visibility = visibility.reshape(visibility.shape[:2])  # of (n, k, 1)
    published = "vis_estimated" in lower and "means" in lower
    side = _from_columns(
        path, points, visibility, covariance=covariance, **words,
        paper_pixel=np.ones(len(points)) if published else None,
    )  # fmt: skip
    if labels is None:
        return side, None
    return side, _from_columns(path, labels, classes=pick(_CLASSES), **words)


def _from_columns(
    path: Path, points: ArrayLike, visibility: Any = None, classes: Any = None, **columns: Any
) -> FaceFile:
    """Faces of points (n, k, 2), a mesh (n, 478, 3) or flat (n, 2k), and of columns with one entry
    for each face, as our own files have them; None for what is not known."""
    places = np.asarray(points, dtype=np.float64)
    if places.ndim == 2 and places.shape[1] % 2 == 0:  # x0, y0, x1, y1, ...
        places = places.reshape(len(places), -1, 2)
    if places.ndim == 3 and places.shape[1] in MESH_SIZES:
        places = places[..., :2]
    if places.ndim != 3 or places.shape[2] != 2 or not len(places):
        raise InputError(f"{path}: points must have shape (n, k, 2), got {np.shape(points)}.")
    given = columns | {"visibility_probability": visibility, "classes": classes}
    for name, column in given.items():
        count = 0 if column is None or getattr(column, "ndim", 1) == 0 else len(column)
        if column is not None and count != len(places):
            raise InputError(
                f"{path}: {name} has {count} entries for {len(places)} faces: write one for each."
            )

    def entries(row: int, *names: str) -> dict[str, Any]:
        known = {name: given[name][row] for name in names if given.get(name) is not None}
        return {name: value for name, value in known.items() if value is not None}

    records = []
    fields = ("covariance", "visibility_probability", "classes", "face_id", "image", "markup")
    for row, place in enumerate(places):
        with naming(path, f"face {row}"):
            about = entries(row, "likelihood", "paper_pixel")
            records.append(face(place, attributes=about, **entries(row, *fields)))
    return FaceFile(str(path), records)
