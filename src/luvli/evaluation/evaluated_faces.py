"""`EvaluatedFaces`: predictions and labels of a whole test set, side by side, as arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.data.record import FaceRecord
from luvli.errors import InputError, require
from luvli.evaluation.accuracy import measured
from luvli.faces import FaceLandmarks
from luvli.files import PathLike, unreadable, whole_file

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class EvaluatedFaces:
    """n faces with k landmarks: what was predicted, and what is true.

    Only `predicted` and `truth` are needed; what is None is not evaluated.
    """

    predicted: Floats
    """(n, k, 2) pixels; NaN where there is no prediction"""
    truth: Floats
    """(n, k, 2) the same pixels; NaN where there is no label"""
    classes: NDArray[np.int8]
    """(n, k) visibility classes of the labels: -1, 0, 1, 2 (`luvli.data.record.Visibility`)"""
    covariance: Floats | None = None
    """(n, k, 2, 2) pixels squared"""
    visibility: Floats | None = None
    """(n, k) predicted probability of visibility"""
    boxes: Floats | None = None
    """(n, 4) the data set's own boxes, used as normaliser if given; tight ones otherwise"""
    lengths: Mapping[str, Floats] = field(default_factory=dict)
    """(n,) normalisers of the data set itself, by name: box_size of AFLW-19"""
    heatmap_pixel: Floats | None = None
    """(n,) side of one heat-map pixel of the network in the pixels above, where known"""
    names: tuple[str, ...] = ()
    """(n) a name for each face"""
    images: tuple[str, ...] = ()
    """(n) paths of the pictures, "" where unknown"""
    subsets: Mapping[str, Bools] = field(default_factory=dict)
    """(n,) which faces belong to each named part of the test set"""
    markup: str | None = None
    method: str = "predictions"
    dataset: str = ""
    subset: str = "all"
    likelihood: Literal["laplace", "gauss"] = "laplace"
    """the density that the covariances belong to"""
    notes: tuple[str, ...] = ()
    """sentences about what was matched, missing or left out"""

    def __post_init__(self) -> None:
        n, k = self.truth.shape[:2]
        shapes: dict[str, tuple[int, ...]] = {
            "predicted": (n, k, 2),
            "truth": (n, k, 2),
            "classes": (n, k),
            "covariance": (n, k, 2, 2),
            "visibility": (n, k),
            "boxes": (n, 4),
            "heatmap_pixel": (n,),
        }
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise InputError(f"{name} must have shape {shape}, got {value.shape}.")
        if not self.names:
            object.__setattr__(self, "names", tuple(f"face {i}" for i in range(n)))
        if not self.images:
            object.__setattr__(self, "images", ("",) * n)
        if len(self.names) != n or len(self.images) != n:
            raise InputError(f"{n} faces need {n} names and images.")

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def landmarks(self) -> int:
        """k"""
        return int(self.truth.shape[1])

    @property
    def visible(self) -> Bools:
        """(n, k) the landmarks that are measured: v_j = 1 and a location."""
        return measured(self.truth, self.classes > 0)

    @property
    def failed(self) -> Bools:
        """(n,) faces with a visible landmark that has no prediction."""
        missing = ~np.isfinite(self.predicted).all(axis=2)
        return np.asarray((missing & self.visible).any(axis=1))

    def with_tight_boxes(self) -> EvaluatedFaces:
        """The same faces, normalised by the tight boxes of their labels."""
        return replace(self, boxes=None)

    def take(self, chosen: ArrayLike) -> EvaluatedFaces:
        """The faces picked by a mask or indices, without their subsets."""
        picked = np.asarray(chosen)
        index = np.arange(len(self))[picked if picked.size else picked.astype(np.intp)]
        arrays: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[index]
            for name in ("predicted", "truth", "classes", "covariance", "visibility", "boxes")
        }
        pixel = None if self.heatmap_pixel is None else self.heatmap_pixel[index]
        return replace(
            self,
            **arrays,
            heatmap_pixel=pixel,
            lengths={name: values[index] for name, values in self.lengths.items()},
            names=tuple(self.names[i] for i in index),
            images=tuple(self.images[i] for i in index),
            subsets={},
        )


def from_records(
    records: Sequence[FaceRecord],
    predictions: Sequence[FaceLandmarks],
    heatmap_pixel: ArrayLike | None = None,
    **about: Any,
) -> EvaluatedFaces:
    """Labels and a model's answers for them, in the same order.

    `heatmap_pixel` (n,) is the side of one heat-map pixel in image pixels (crop side / 64);
    `about` are the plain fields of `EvaluatedFaces`: method, dataset, subset,
    likelihood, notes.
    """
    if not records or len(records) != len(predictions):
        raise InputError(
            f"{len(records)} labelled faces and {len(predictions)} predictions: "
            "there must be one prediction for each face, and at least one face."
        )
    trained = all(face.visibility_trained for face in predictions)
    parts = {name for record in records for name in record.attributes.get("subsets", ())}
    sizes = [record.attributes.get("box_size") for record in records]
    boxes = [np.full(4, np.nan) if record.box is None else record.box for record in records]
    return EvaluatedFaces(
        predicted=np.stack([face.points for face in predictions]),
        truth=np.stack([record.points for record in records]),
        classes=np.stack([record.visibility for record in records]),
        covariance=np.stack([face.covariance for face in predictions]),
        visibility=np.stack([face.visibility for face in predictions]) if trained else None,
        boxes=None if np.isnan(boxes).any() else np.stack(boxes),
        heatmap_pixel=None if heatmap_pixel is None else np.asarray(heatmap_pixel, np.float64),
        lengths={} if None in sizes else {"box_size": np.array(sizes, dtype=np.float64)},
        names=tuple(record.name or f"face {i}" for i, record in enumerate(records)),
        images=tuple(record.image.as_posix() if record.image else "" for record in records),
        subsets={
            name: np.array([name in r.attributes.get("subsets", ()) for r in records])
            for name in sorted(parts)
        },
        markup=records[0].markup,
        **about,
    )


# --- predictions.parquet -----------------------------------------------------------------

_ABOUT = ("markup", "method", "dataset", "subset", "likelihood")


def write_parquet(path: PathLike, faces: EvaluatedFaces) -> None:
    """One row for each face; arrays are flat lists, and the header tells their shapes."""
    arrow = require("pyarrow", "train")
    parquet = require("pyarrow.parquet", "train")

    def lists(values: NDArray[Any]) -> Any:
        flat = values.reshape(len(values), -1)
        return arrow.FixedSizeListArray.from_arrays(arrow.array(flat.ravel()), flat.shape[1])

    columns: dict[str, Any] = {
        "name": arrow.array(list(faces.names)),
        "image": arrow.array(list(faces.images)),
        "predicted": lists(faces.predicted),
        "truth": lists(faces.truth),
        "classes": lists(faces.classes),
    }
    for name in ("covariance", "visibility", "boxes", "heatmap_pixel"):
        value = getattr(faces, name)
        if value is not None:
            columns[name] = lists(value)
    for name, mask in faces.subsets.items():
        columns[f"subset:{name}"] = arrow.array(mask)
    for name, values in faces.lengths.items():
        columns[f"length:{name}"] = arrow.array(values)
    about = {name: getattr(faces, name) for name in _ABOUT} | {"notes": list(faces.notes)}
    table = arrow.table(columns).replace_schema_metadata({"luvli": json.dumps(about)})
    with whole_file(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def read_parquet(path: PathLike) -> EvaluatedFaces:
    """The inverse of `write_parquet`."""
    parquet = require("pyarrow.parquet", "train")
    source = Path(path)
    if not source.is_file():
        raise unreadable(source)
    try:
        table = parquet.read_table(source)
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise InputError(
            f"{source} is not a readable parquet file ({type(error).__name__}): write it again."
        ) from error
    missing = {"name", "predicted", "truth", "classes"} - set(table.column_names)
    if missing:
        raise InputError(f"{source} has no column {sorted(missing)[0]!r}: is it a luvli report's?")
    about = json.loads((table.schema.metadata or {}).get(b"luvli", b"{}"))
    n = table.num_rows

    def array(name: str, *shape: int) -> Any:
        if name not in table.column_names:
            return None
        return table[name].combine_chunks().flatten().to_numpy(False).reshape(n, *shape)

    def named(prefix: str) -> dict[str, Any]:
        return {
            column.removeprefix(prefix): table[column].to_numpy()
            for column in table.column_names
            if column.startswith(prefix)
        }

    k = len(table["classes"][0]) if n else 0
    return EvaluatedFaces(
        predicted=array("predicted", k, 2),
        truth=array("truth", k, 2),
        classes=array("classes", k),
        covariance=array("covariance", k, 2, 2),
        visibility=array("visibility", k),
        boxes=array("boxes", 4),
        heatmap_pixel=array("heatmap_pixel"),
        names=tuple(table["name"].to_pylist()),
        images=tuple(table["image"].to_pylist()) if "image" in table.column_names else (),
        subsets=named("subset:"),
        lengths=named("length:"),
        **{name: about[name] for name in _ABOUT if name in about},
        notes=tuple(about.get("notes", ())),
    )
