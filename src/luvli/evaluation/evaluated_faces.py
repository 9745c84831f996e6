"""`EvaluatedFaces`: predictions and labels of a whole test set, side by side, as arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.data.formats.parquet import read_face_table
from luvli.data.record import FaceRecord
from luvli.errors import InputError, require
from luvli.evaluation.accuracy import measured
from luvli.evaluation.metric_records import TrainedPart
from luvli.evaluation.paper_units import CROP_PER_HEATMAP, crop_boxes, paper_pixels
from luvli.faces import FaceLandmarks
from luvli.files import PathLike, is_there, whole_file


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
    confidence: Floats | None = None
    """(n,) predicted probability that the alignment succeeded; NaN where there is no prediction"""
    expected_error: Floats | None = None
    """(n,) expected mean error in percent of the box"""
    boxes: Floats | None = None
    """(n, 4) the data set's own boxes, used as normaliser if given; tight ones otherwise"""
    lengths: Mapping[str, Floats] = field(default_factory=dict)
    """(n,) normalisers of the data set itself, by name: box_size of AFLW-19"""
    paper_pixel: Floats | None = None
    """(n,) side of one pixel of the paper's 256-pixel crop in the pixels above, where known:
    what is set beside the paper's figures is measured in it (`luvli.evaluation.paper_units`)"""
    names: tuple[str, ...] = ()
    """(n) a name for each face"""
    images: tuple[str, ...] = ()
    """(n) paths of the images, "" where unknown"""
    subsets: Mapping[str, Bools] = field(default_factory=dict)
    """(n,) which faces belong to each named part of the test set"""
    markup: str | None = None
    method: str = "predictions"
    dataset: str = ""
    subset: str = "all"
    likelihood: str = "laplace"
    """the density that the covariances belong to"""
    untrained: tuple[TrainedPart, ...] = ()
    """what the model never learnt: it is None above, and reports say so"""
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
            "paper_pixel": (n,),
            "confidence": (n,),
            "expected_error": (n,),
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
    def paper_heatmap_pixel(self) -> Floats | None:
        """(n,) side of one of the paper's heat-map pixels, where known."""
        return None if self.paper_pixel is None else self.paper_pixel * CROP_PER_HEATMAP

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
            for name in (
                "predicted", "truth", "classes", "covariance", "visibility", "boxes",
                "confidence", "expected_error",
            )
        }  # fmt: skip
        pixel = None if self.paper_pixel is None else self.paper_pixel[index]
        return replace(
            self,
            **arrays,
            paper_pixel=pixel,
            lengths={name: values[index] for name, values in self.lengths.items()},
            names=tuple(self.names[i] for i in index),
            images=tuple(self.images[i] for i in index),
            subsets={},
        )


def from_records(
    records: Sequence[FaceRecord], predictions: Sequence[FaceLandmarks], **about: Any
) -> EvaluatedFaces:
    """Labels and a model's predictions for them, in the same order.

    `about` are the plain fields of `EvaluatedFaces`: method, dataset, subset, likelihood,
    untrained, notes.
    """
    if not records or len(records) != len(predictions):
        raise InputError(
            f"{len(records)} labelled faces and {len(predictions)} predictions: "
            "there must be one prediction for each face, and at least one face."
        )
    laws = {face.likelihood for face in predictions if np.isfinite(face.points).any()}
    given = {"dataset": records[0].dataset, "untrained": ()} | about
    if len(laws) == 1:  # what the faces themselves say, unless told otherwise
        given.setdefault("likelihood", laws.pop())
    untrained = set(given["untrained"])
    if not all(face.visibility_trained for face in predictions):
        untrained.add("visibility")
    if not all(face.covariance_trained for face in predictions):
        untrained.add("covariance")
    parts = {name for record in records for name in record.attributes.get("subsets", ())}
    sizes = [record.attributes.get("box_size") for record in records]
    boxes = [np.full(4, np.nan) if record.box is None else record.box for record in records]

    def learnt(part: TrainedPart) -> Floats | None:
        if part in untrained:
            return None
        return np.stack([getattr(face, part) for face in predictions])

    def told(name: str) -> Floats | None:
        values = [getattr(face, name) for face in predictions]
        if all(value is None for value in values):
            return None
        return np.array([np.nan if value is None else value for value in values])

    return EvaluatedFaces(
        predicted=np.stack([face.points for face in predictions]),
        truth=np.stack([record.points for record in records]),
        classes=np.stack([record.visibility for record in records]),
        covariance=learnt("covariance"),
        visibility=learnt("visibility"),
        confidence=told("confidence"),
        expected_error=told("expected_error"),
        boxes=None if np.isnan(boxes).any() else np.stack(boxes),
        paper_pixel=paper_pixels(crop_boxes(records), given["dataset"]),
        lengths={} if None in sizes else {"box_size": np.array(sizes, dtype=np.float64)},
        names=tuple(record.name or f"face {i}" for i, record in enumerate(records)),
        images=tuple(absolute_path(record.image) for record in records),
        subsets={
            name: np.array([name in r.attributes.get("subsets", ()) for r in records])
            for name in sorted(parts)
        },
        markup=records[0].markup,
        **(given | {"untrained": tuple(sorted(untrained))}),
    )


def absolute_path(image: PathLike | None) -> str:
    """The path of an image as it is kept in a report: from the root where the file is there,
    so that it is found from any folder; as given otherwise, "" for none."""
    if not image:
        return ""
    path = Path(image)
    there = is_there(path) and path.is_file()
    return path.resolve().as_posix() if there else path.as_posix()


# --- predictions.parquet -----------------------------------------------------------------

_ABOUT = ("markup", "method", "dataset", "subset", "likelihood")
_ARRAYS = {
    "points": "predicted", "covariance": "covariance", "visibility": "visibility",
    "truth": "truth", "visibility_class": "classes", "label_box": "boxes",
}  # fmt: skip
"""columns and the fields they hold; the first three are `luvli.data.formats.parquet`'s"""


_NUMBERS = ("paper_pixel", "confidence", "expected_error")
"""columns of one number for each face"""


def write_parquet(path: PathLike, faces: EvaluatedFaces) -> None:
    """One row for each face: the columns of predicted faces, and the labels beside them."""
    arrow = require("pyarrow", "evaluate")
    parquet = require("pyarrow.parquet", "evaluate")

    def lists(values: NDArray[Any]) -> Any:
        flat = values.reshape(len(values), -1)
        offsets = arrow.array(np.arange(len(flat) + 1, dtype=np.int32) * flat.shape[1])
        return arrow.ListArray.from_arrays(offsets, arrow.array(flat.ravel()))

    columns: dict[str, Any] = {
        "face_id": arrow.array(list(faces.names)),
        "image": arrow.array(list(faces.images)),
        "markup": arrow.array([faces.markup] * len(faces), arrow.string()),
        "visibility_trained": arrow.array(["visibility" not in faces.untrained] * len(faces)),
        "covariance_trained": arrow.array(["covariance" not in faces.untrained] * len(faces)),
    }
    for column, field_name in _ARRAYS.items():
        value = getattr(faces, field_name)
        if value is not None:
            columns[column] = lists(value)
    for name in _NUMBERS:
        if getattr(faces, name) is not None:
            columns[name] = arrow.array(getattr(faces, name))
    for name, mask in faces.subsets.items():
        columns[f"subset:{name}"] = arrow.array(mask)
    for name, values in faces.lengths.items():
        columns[f"length:{name}"] = arrow.array(values)
    about: dict[str, Any] = {name: getattr(faces, name) for name in _ABOUT}
    about |= {"notes": faces.notes, "untrained": faces.untrained}
    table = arrow.table(columns).replace_schema_metadata({"luvli": json.dumps(about)})
    with whole_file(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def read_parquet(path: PathLike) -> EvaluatedFaces:
    """The inverse of `write_parquet`."""
    table = read_face_table(path)
    missing = {"face_id", "truth", "visibility_class"} - set(table.column_names)
    if missing:
        raise InputError(
            f"{path} has no column {sorted(missing)[0]!r}: it is not the predictions.parquet of "
            "a report; score it with luvli score --truth."
        )
    try:
        about = dict(json.loads((table.schema.metadata or {}).get(b"luvli", b"{}")))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: what it says of itself cannot be read.") from error

    def named(prefix: str) -> dict[str, Any]:
        return {
            column.removeprefix(prefix): table[column].to_numpy()
            for column in table.column_names
            if column.startswith(prefix)
        }

    arrays = {
        field_name: table_array(table, column, path) for column, field_name in _ARRAYS.items()
    }
    numbers = {name: table[name].to_numpy() for name in _NUMBERS if name in table.column_names}
    return EvaluatedFaces(
        **arrays,
        **numbers,
        names=tuple(table["face_id"].to_pylist()),
        images=tuple(table["image"].to_pylist()),
        subsets=named("subset:"),
        lengths=named("length:"),
        **{name: about[name] for name in _ABOUT if name in about},
        notes=tuple(about.get("notes", ())),
        untrained=tuple(about.get("untrained", ())),
    )


def table_array(table: Any, column: str, path: PathLike) -> Any:
    """A column of flat lists in the shape of what it holds; None where it is not there.

    `path`: the file, for messages.
    """
    if column not in table.column_names or table[column].null_count:
        return None
    n = table.num_rows
    shape = {
        "points": (-1, 2), "truth": (-1, 2), "covariance": (-1, 2, 2), "box": (4,),
        "label_box": (4,),
    }.get(column, (-1,))  # fmt: skip
    lists = table[column].combine_chunks()
    values = lists.flatten().to_numpy(zero_copy_only=False)
    if not n:
        return values.reshape(0, *(abs(side) for side in shape))
    lengths = set(lists.value_lengths().to_pylist())
    if len(lengths) > 1 or lengths.pop() % abs(int(np.prod(shape))):
        raise InputError(f"{path} has rows of {column!r} that do not fit together: write it again.")
    return values.reshape(n, *shape)
