"""Our CSV: one row for each face, everything a record holds.

Columns: image, dataset, face_id, markup, box_x0, box_y0, box_x1, box_y1, box_kind, score; for
predicted faces those of `PREDICTED_COLUMNS`; attributes (JSON); then for each landmark j: x_j, y_j,
class_j, and, when a model made the labels, visibility_j, occlusion_j, xx_j, xy_j, yy_j. An empty
cell means "not known". All faces of a file have the same markup.

Tables of other programs are read too, as long as they have a header: see `numbered_columns` for
the names of columns. OpenFace's files are such tables; rows that it calls a failure (`success` 0)
are faces without a location.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.common import face, image_name, is_predicted, naming
from luvli.data.formats.tables import (
    IMAGE_COLUMNS,
    image_cell,
    numbered_columns,
    read_rows,
    read_word,
    word_cell,
    write_rows,
)
from luvli.data.record import BoxKind, FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, write_text

_BOX = ("box_x0", "box_y0", "box_x1", "box_y1")
LABEL_COLUMNS = ("image", "dataset", "face_id", "markup", *_BOX, "box_kind", "score")
PREDICTED_COLUMNS: dict[str, Any] = {
    "confidence": float, "expected_error": float, "eyes_closed": float,
    "accepted": lambda cell: cell == "True", "likelihood": str, "frame": int, "time": float,
    "track": int, "width": int, "height": int,
}  # fmt: skip
"""columns of predicted faces, which are attributes of a record, and what their cells hold"""
_AXES = ("x", "y", "class", "visibility", "occlusion", "xx", "xy", "yy")
"""what may stand in a column for each landmark, in this order"""


def write_csv(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces of one markup, whole or not at all; nothing is lost."""
    write_text(path, csv_text(records, str(path)))


def csv_text(records: Sequence[FaceRecord], name: str = "the table") -> str:
    """Faces of one markup as the text of a file; `name` is for the error."""
    kinds = {(record.markup, len(record.points)) for record in records}
    if len(kinds) > 1:
        names = ", ".join(sorted(markup for markup, _ in kinds))
        raise InputError(f"{name} was not written: a CSV holds one markup, these are {names}.")
    rows = [_cells(record) for record in records]
    used = {column for row in rows for column in row}
    predicted = PREDICTED_COLUMNS if any(map(is_predicted, records)) else ()
    header = [*LABEL_COLUMNS, *predicted, "attributes"]
    numbered = (f"{axis}_{j}" for _, count in kinds for j in range(count) for axis in _AXES)
    header += [column for column in numbered if column in used]
    text = io.StringIO()
    write_rows(text, [header, *([row.get(column, "") for column in header] for row in rows)])
    return text.getvalue()


def _cells(record: FaceRecord) -> dict[str, object]:
    """Column -> cell of a face."""
    about = dict(record.attributes)
    predicted = PREDICTED_COLUMNS if is_predicted(record) else ()
    row: dict[str, object] = {name: about.pop(name) for name in predicted if name in about}
    columns: dict[str, Any] = dict(zip("xy", record.points.T, strict=True))
    columns["visibility"] = record.visibility_probability
    columns["occlusion"] = about.pop("occlusion", None)
    if record.covariance is not None:
        columns["xx"], columns["xy"], _, columns["yy"] = record.covariance.reshape(-1, 4).T
    for axis, values in columns.items():
        if values is not None:
            row |= {f"{axis}_{j}": _cell(value) for j, value in enumerate(values)}
    row |= {f"class_{j}": int(kind) for j, kind in enumerate(record.visibility)}
    if record.box is not None:
        row |= dict(zip(_BOX, map(_cell, record.box), strict=True))
    return row | {
        "image": image_cell(image_name(record)),
        "dataset": word_cell(record.dataset),
        "face_id": word_cell(record.face_id),
        "markup": word_cell(record.markup),
        "box_kind": record.box_kind,
        "score": "" if record.score is None else repr(float(record.score)),
        "attributes": json.dumps(about) if about else "",
    }


def _cell(value: float) -> str:
    return "" if np.isnan(value) else repr(float(value))


def read_csv(path: PathLike, hidden_points: bool = False) -> list[FaceRecord]:
    """Read faces; `class_j` may be missing (then a landmark with a place is unoccluded).

    `hidden_points` reads predictions: classes are ignored, so that landmarks that a model
    calls hidden keep their location.
    """
    rows = read_rows(path, "\t" if Path(path).suffix.lower() == ".tsv" else ",")
    _, header = next(rows, (1, []))
    if tuple(header) == (*LABEL_COLUMNS, "attributes"):
        return []  # written from no faces at all
    columns = numbered_columns(header)
    if not columns or len(columns["x"]) != len(columns["y"]):
        raise InputError(
            f"{path} has no columns x_0, y_0, x_1, y_1, ... in its first line: name its columns so."
        )
    if hidden_points:
        columns.pop("class", None)
    lower = {column.strip().lower(): column for column in reversed(header)}
    image = next((lower[name] for name in IMAGE_COLUMNS if name in lower), "image")
    face_id = next((lower[name] for name in ("face_id", "name") if name in lower), "face_id")
    renamed = {image: "image", face_id: "face_id", lower.get("success", ""): "success"}
    records = []
    for line, values in rows:
        row = {renamed.get(name, name): value for name, value in zip(header, values, strict=False)}
        if not any(value for name, value in row.items() if name != "image"):
            continue  # an image without a face, as `luvli predict` notes it
        with naming(path, f"line {line}"):
            records.append(_record(row, columns))
    return records


def _record(row: Mapping[str, str], columns: Mapping[str, Sequence[str]]) -> FaceRecord:
    count = len(columns["x"])

    def column(axis: str) -> Floats:
        names = columns.get(axis, ())
        return _numbers(row, names) if len(names) == count else np.full(count, np.nan)

    def text(name: str) -> str:
        return read_word(row.get(name, "").strip())

    points = np.stack([column("x"), column("y")], axis=1)
    if text("success") == "0":
        points[:] = np.nan
    located = np.isfinite(points).all(axis=1)
    default = np.where(located, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED)
    classes = np.where(np.isnan(column("class")), default, column("class"))
    if not np.isin(classes, list(Visibility)).all():
        raise InputError("a visibility class is not one of -1, 0, 1, 2.")
    attributes = json.loads(text("attributes") or "{}")
    if not isinstance(attributes, dict):
        raise InputError("the attributes are not a JSON object.")
    attributes |= {name: read(text(name)) for name, read in PREDICTED_COLUMNS.items() if text(name)}
    if (occlusion := _known(column("occlusion"))) is not None:
        attributes["occlusion"] = occlusion.tolist()
    kind, kinds = text("box_kind") or "tight", get_args(BoxKind)
    if kind not in kinds:
        raise InputError(f"unknown box_kind {kind!r}; choose one of {', '.join(kinds)}.")
    xx, xy, yy = column("xx"), column("xy"), column("yy")
    return face(
        points,
        text("image"),
        classes.astype(np.int8),
        text("markup"),
        box=_known(_numbers(row, _BOX)),
        box_kind=kind,
        dataset=text("dataset"),
        face_id=text("face_id"),
        attributes=attributes,
        covariance=_known(np.stack([xx, xy, xy, yy], axis=1).reshape(-1, 2, 2)),
        visibility_probability=_known(column("visibility")),
        score=float(text("score")) if text("score") else None,
    )


def _numbers(row: Mapping[str, str], names: Sequence[str]) -> Floats:
    """NaN for empty cells."""
    return np.array([float(row.get(name, "").strip() or "nan") for name in names])


def _known(values: Floats) -> Floats | None:
    return None if np.isnan(values).all() else values
