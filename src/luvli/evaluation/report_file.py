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
_ABOUT = ("method", "dataset", "subset")


def write_predictions(path: PathLike, faces: LabelledFaces) -> None:
    """One row for each face: the columns of predicted faces, and the labels beside them."""
    arrow = require("pyarrow", "evaluate")
    parquet = require("pyarrow.parquet", "evaluate")
    predicted = faces.faces

    arrays = {
        "points": faces.points, "covariance": faces.covariance, "visibility": faces.visibility,
        "truth": faces.labels, "visibility_class": faces.label_visibility,
        "label_box": faces.label_boxes,
    }  # fmt: skip
    same = ("markup", "likelihood", "visibility_trained", "covariance_trained")
    columns: dict[str, Any] = {
        "face_id": faces.names,
        "image": faces.images,
        **{name: [getattr(predicted, name)] * len(faces) for name in same},
        "confidence": predicted.confidence,
        "expected_error": predicted.expected_error,
        "paper_pixel": faces.paper_pixel,
        **{
            n: list(array.reshape(len(faces), -1))
            for n, array in arrays.items()
            if array is not None
        },
        **{f"subset:{name}": mask for name, mask in faces.subsets.items()},
        **{f"length:{name}": values for name, values in faces.lengths.items()},
    }
    about = {name: getattr(faces, name) for name in (*_ABOUT, "notes")}
    table = arrow.table({name: each for name, each in columns.items() if each is not None})
    with whole_file(path) as temporary:
        table = table.replace_schema_metadata({"luvli": json.dumps(about)})
        parquet.write_table(table, temporary, compression="zstd")


def read_parquet(path: PathLike) -> LabelledFaces:
    """The inverse of `write_predictions`."""
    columns, about = read_columns(path)
    absent = {"face_id", "image", "truth", "visibility_class"} - set(columns)
    if absent:
        raise InputError(
            f"{path} has no column {min(absent)!r}: it is not the predictions.parquet of "
            "a report; score it with luvli score --truth."
        )
    try:
        return _labelled_faces(columns, json.loads(about))
    except InputError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is not the predictions.parquet of a report ({brief(error)}): write it again."
        ) from error


def _labelled_faces(columns: dict[str, Any], about: dict[str, Any]) -> LabelledFaces:
    def word(column: str) -> str | None:
        known = {str(each) for each in columns.get(column, ()) if each}
        return known.pop() if len(known) == 1 else None

    def numbers(column: str, kind: type = float) -> Any:
        return np.asarray(columns[column], dtype=kind) if column in columns else None

    def named(prefix: str, kind: type) -> dict[str, Any]:
        names = [name for name in columns if name.startswith(prefix)]
        return {name.removeprefix(prefix): numbers(name, kind) for name in names}

    return LabelledFaces.from_arrays(
        columns["points"], columns["truth"], columns["visibility_class"],
        columns.get("covariance"), columns.get("visibility"),
        confidence=numbers("confidence"),
        expected_error=numbers("expected_error"),
        markup=word("markup"),
        likelihood=word("likelihood") or "laplace",
        label_boxes=columns.get("label_box"),
        names=tuple(str(name or "") for name in columns["face_id"]),
        images=tuple(str(image or "") for image in columns["image"]),
        subsets=named("subset:", bool),
        lengths=named("length:", float),
        paper_pixel=numbers("paper_pixel"),
        notes=tuple(map(str, about.get("notes", ()))),
        **{name: str(about[name]) for name in _ABOUT if name in about},
    )  # fmt: skip


def read_columns(path: PathLike) -> tuple[dict[str, Any], str]:
    """The columns of a file or folder of faces, flat lists in the shape of what they hold, others
    as Python values; and what the file says about itself. Lists that some faces lack are left out.
    """
    table = read_face_table(path)
    columns: dict[str, Any] = {}
    for name in table.column_names:
        if name not in _LISTS:
            columns[name] = table[name].to_pylist()
        elif not table[name].null_count:
            columns[name] = _stacked(table[name].to_numpy(), _LISTS[name], f"{path}", name)
    return columns, (table.schema.metadata or {}).get(b"luvli", b"{}").decode()


def _stacked(rows: NDArray[Any], shape: tuple[int, ...], path: str, column: str) -> Floats:
    """(n, *shape) of n flat rows."""
    lengths = {len(row) for row in rows}
    if len(lengths) > 1 or any(length % abs(int(np.prod(shape))) for length in lengths):
        raise InputError(f"{path} has rows of {column!r} that do not fit together: write it again.")
    if not len(rows):
        return np.empty((0, *(abs(side) for side in shape)))
    flat = np.concatenate(rows.tolist()).astype(np.float64)
    return np.asarray(flat.reshape(len(rows), *shape))
