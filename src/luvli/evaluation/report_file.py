"""`predictions.parquet` of a report: `LabelledFaces` as one row for each face."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.data.formats.parquet import read_face_table
from luvli.errors import InputError, require
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.files import PathLike, whole_file

_LISTS: dict[str, tuple[int, ...]] = {
    "points": (-1, 2), "covariance": (-1, 2, 2), "visibility": (-1,), "occlusion": (-1,),
    "truth": (-1, 2), "visibility_class": (-1,), "box": (4,), "label_box": (4,),
}  # fmt: skip
"""columns of flat lists, and the shape of what they hold"""


def write_predictions(path: PathLike, faces: LabelledFaces) -> None:
    """One row for each face: the columns of predicted faces, and the labels beside them."""
    arrow = require("pyarrow", "evaluate")
    parquet = require("pyarrow.parquet", "evaluate")

    def lists(values: NDArray[Any]) -> Any:
        flat = values.reshape(len(values), -1)
        offsets = arrow.array(np.arange(len(flat) + 1, dtype=np.int32) * flat.shape[1])
        return arrow.ListArray.from_arrays(offsets, arrow.array(flat.ravel()))

    predictions = faces.faces
    arrays = {
        "points": predictions.points, "covariance": faces.covariance,
        "visibility": faces.visibility, "truth": faces.labels,
        "visibility_class": faces.label_visibility, "label_box": faces.label_boxes,
    }  # fmt: skip
    columns: dict[str, Any] = {
        "face_id": arrow.array(list(faces.names)),
        "image": arrow.array(list(faces.images)),
        "markup": arrow.array([predictions.markup] * len(faces), arrow.string()),
        "likelihood": arrow.array([predictions.likelihood] * len(faces), arrow.string()),
        "visibility_trained": arrow.array([predictions.visibility_trained] * len(faces)),
        "covariance_trained": arrow.array([predictions.covariance_trained] * len(faces)),
        "confidence": arrow.array(predictions.confidence),
        "expected_error": arrow.array(predictions.expected_error),
        **{name: lists(array) for name, array in arrays.items() if array is not None},
        **{f"subset:{name}": arrow.array(mask) for name, mask in faces.subsets.items()},
        **{f"length:{name}": arrow.array(values) for name, values in faces.lengths.items()},
    }
    if faces.paper_pixel is not None:
        columns["paper_pixel"] = arrow.array(faces.paper_pixel)
    about = {name: getattr(faces, name) for name in ("method", "dataset", "subset", "notes")}
    table = arrow.table(columns).replace_schema_metadata({"luvli": json.dumps(about)})
    with whole_file(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def read_parquet(path: PathLike) -> LabelledFaces:
    """The inverse of `write_predictions`."""
    table = read_face_table(path)
    names = set(table.column_names)
    absent = {"face_id", "image", "truth", "visibility_class"} - names
    if absent:
        raise InputError(
            f"{path} has no column {sorted(absent)[0]!r}: it is not the predictions.parquet of "
            "a report; score it with luvli score --truth."
        )
    try:
        about = dict(json.loads((table.schema.metadata or {}).get(b"luvli", b"{}")))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: what it says of itself cannot be read.") from error
    arrays = {name: table_array(table, name, path) for name in _LISTS}
    points, labels = arrays["points"], arrays["truth"]
    if points is None or labels is None:
        raise InputError(f"{path} has faces without points or labels: write it again.")

    def word(column: str) -> str | None:
        known = set(table_words(table, column, path)) - {""}
        return known.pop() if len(known) == 1 else None

    def named(prefix: str, kind: type) -> dict[str, Any]:
        return {
            name.removeprefix(prefix): np.asarray(table_numbers(table, name, path), dtype=kind)
            for name in table.column_names
            if name.startswith(prefix)
        }

    plain = {name: str(about[name]) for name in ("method", "dataset", "subset") if name in about}
    return LabelledFaces.from_arrays(
        points, labels, arrays["visibility_class"], arrays["covariance"], arrays["visibility"],
        confidence=table_numbers(table, "confidence", path),
        expected_error=table_numbers(table, "expected_error", path),
        markup=word("markup"),
        likelihood=word("likelihood") or "laplace",
        label_boxes=arrays["label_box"],
        names=table_words(table, "face_id", path),
        images=table_words(table, "image", path),
        subsets=named("subset:", bool),
        lengths=named("length:", float),
        paper_pixel=table_numbers(table, "paper_pixel", path),
        notes=tuple(map(str, about.get("notes", ()))),
        **plain,
    )  # fmt: skip


def table_words(table: Any, column: str, path: PathLike) -> tuple[str, ...]:
    """A column of words, "" for null; () where it is not there."""
    if column not in table.column_names:
        return ()
    words = table[column].to_pylist()
    if any(isinstance(word, list | dict | bytes) for word in words):
        raise InputError(f"{path}: the column {column!r} must hold words: write it again.")
    return tuple("" if word is None else str(word) for word in words)


def table_numbers(table: Any, column: str, path: PathLike) -> NDArray[np.float64] | None:
    """A column of one number for each face, NaN for null; None where it is not there."""
    if column not in table.column_names:
        return None
    arrow = require("pyarrow", "evaluate")
    try:
        return np.asarray(table[column].cast(arrow.float64()).to_numpy(), dtype=np.float64)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        raise _wrong_type(table, column, path, "numbers") from error


def table_array(table: Any, column: str, path: PathLike) -> NDArray[np.float64] | None:
    """A column of flat lists of numbers in the shape of what it holds; None where it is not there.

    `path`: the file, for messages.
    """
    if column not in table.column_names or table[column].null_count:
        return None
    arrow = require("pyarrow", "evaluate")
    try:
        lists = table[column].cast(arrow.list_(arrow.float64())).combine_chunks()
        values = lists.flatten().to_numpy(zero_copy_only=False)
        lengths = set(lists.value_lengths().to_pylist())
    except (arrow.ArrowException, AttributeError, TypeError, ValueError) as error:
        raise _wrong_type(table, column, path, "lists of numbers") from error
    shape = _LISTS[column]
    if not len(table):
        return np.asarray(values.reshape(0, *(abs(side) for side in shape)))
    if len(lengths) > 1 or None in lengths or lengths.pop() % abs(int(np.prod(shape))):
        raise InputError(f"{path} has rows of {column!r} that do not fit together: write it again.")
    return np.asarray(values.reshape(len(table), *shape))


def _wrong_type(table: Any, column: str, path: PathLike, wanted: str) -> InputError:
    kind = table.schema.field(column).type
    return InputError(
        f"{path}: the column {column!r} must hold {wanted}, it holds {str(kind)[:80]}: "
        "write it with luvli predict, evaluate or score."
    )
