"""`predictions.parquet` of a report: `LabelledFaces` as one row for each face."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.formats.parquet import read_face_table
from luvli.errors import InputError, brief, require
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.files import PathLike, whole_file

_LISTS: dict[str, tuple[int, ...]] = {
    "points": (-1, 2), "covariance": (-1, 2, 2), "visibility": (-1,), "truth": (-1, 2),
    "visibility_class": (-1,), "label_box": (4,),
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
    same = {
        "markup": predictions.markup, "likelihood": predictions.likelihood,
        "visibility_trained": predictions.visibility_trained,
        "covariance_trained": predictions.covariance_trained,
    }  # fmt: skip
    columns: dict[str, Any] = {
        "face_id": list(faces.names),
        "image": list(faces.images),
        **{name: [value] * len(faces) for name, value in same.items()},
        "confidence": predictions.confidence,
        "expected_error": predictions.expected_error,
        **{name: lists(array) for name, array in arrays.items() if array is not None},
        **{f"subset:{name}": mask for name, mask in faces.subsets.items()},
        **{f"length:{name}": values for name, values in faces.lengths.items()},
    }
    if faces.paper_pixel is not None:
        columns["paper_pixel"] = faces.paper_pixel
    about = {name: getattr(faces, name) for name in ("method", "dataset", "subset", "notes")}
    table = arrow.table(columns).replace_schema_metadata({"luvli": json.dumps(about)})
    with whole_file(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def read_parquet(path: PathLike) -> LabelledFaces:
    """The inverse of `write_predictions`."""
    table = read_face_table(path)
    absent = {"face_id", "image", "truth", "visibility_class"} - set(table.column_names)
    if absent:
        raise InputError(
            f"{path} has no column {min(absent)!r}: it is not the predictions.parquet of "
            "a report; score it with luvli score --truth."
        )
    try:
        return _labelled_faces(table, path)
    except InputError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is not the predictions.parquet of a report ({brief(error)}): write it again."
        ) from error


def _labelled_faces(table: Any, path: PathLike) -> LabelledFaces:
    about = json.loads((table.schema.metadata or {}).get(b"luvli", b"{}"))
    arrays = {name: table_array(table, name, path) for name in _LISTS}
    points, labels = arrays["points"], arrays["truth"]
    if points is None or labels is None:
        raise InputError(f"{path} has faces without points or labels: write it again.")

    def word(column: str) -> str | None:
        known = set(table_words(table, column)) - {""}
        return known.pop() if len(known) == 1 else None

    def named(prefix: str, kind: type) -> dict[str, Any]:
        names = [name for name in table.column_names if name.startswith(prefix)]
        return {
            n.removeprefix(prefix): np.asarray(table_numbers(table, n), dtype=kind) for n in names
        }

    return LabelledFaces.from_arrays(
        points, labels, arrays["visibility_class"], arrays["covariance"], arrays["visibility"],
        confidence=table_numbers(table, "confidence"),
        expected_error=table_numbers(table, "expected_error"),
        markup=word("markup"),
        likelihood=word("likelihood") or "laplace",
        label_boxes=arrays["label_box"],
        names=table_words(table, "face_id"),
        images=table_words(table, "image"),
        subsets=named("subset:", bool),
        lengths=named("length:", float),
        paper_pixel=table_numbers(table, "paper_pixel"),
        notes=tuple(map(str, about.get("notes", ()))),
        **{name: str(about[name]) for name in ("method", "dataset", "subset") if name in about},
    )  # fmt: skip


def table_words(table: Any, column: str) -> tuple[str, ...]:
    """A column of words, "" for null; () where it is not there."""
    if column not in table.column_names:
        return ()
    return tuple("" if word is None else str(word) for word in table[column].to_pylist())


def table_numbers(table: Any, column: str) -> Floats | None:
    """A column of one number for each face, NaN for null; None where it is not there."""
    if column not in table.column_names:
        return None
    numbers = table[column].cast(require("pyarrow", "evaluate").float64())
    return np.asarray(numbers.to_numpy(), dtype=np.float64)


def table_array(table: Any, column: str, path: PathLike) -> Floats | None:
    """A column of flat lists of numbers in the shape of what it holds; None where it is not there.

    `path`: the file, for messages.
    """
    if column not in table.column_names or table[column].null_count:
        return None
    lists = table[column].combine_chunks()
    values = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    shape = _LISTS[column]
    if not len(table):
        return values.reshape(0, *(abs(side) for side in shape))
    lengths = set(lists.value_lengths().to_pylist())
    if len(lengths) > 1 or lengths.pop() % abs(int(np.prod(shape))):
        raise InputError(f"{path} has rows of {column!r} that do not fit together: write it again.")
    return values.reshape(len(table), *shape)
