"""Our CSV: one row for each face, everything a record holds.

Columns: image, dataset, face_id, markup, box_x0, box_y0, box_x1, box_y1, box_kind, score,
attributes (JSON); then for each landmark j: x_j, y_j, class_j, and, when a model made the
labels, visibility_j, xx_j, xy_j, yy_j. An empty cell means "not known". All faces of a file
have the same markup.

Tables of other programs are read too, as long as they have a header: see
`luvli.data.formats.columns` for the names of columns. OpenFace's files are such tables; rows
that it calls a failure (`success` 0) are faces without a location.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.data.formats.cells import image_cell, read_word, word_cell, write_rows
from luvli.data.formats.columns import (
    FACE_COLUMNS,
    IMAGE_COLUMNS,
    column_named,
    numbered_columns,
)
from luvli.data.formats.common import default_markup, image_name
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, read_text, write_text

_BOX = ("box_x0", "box_y0", "box_x1", "box_y1")
_ABOUT = ("image", "dataset", "face_id", "markup", *_BOX, "box_kind", "score", "attributes")


def write_csv(
    path: PathLike,
    records: Sequence[FaceRecord],
    points: Sequence[NDArray[np.float64]] | None = None,
) -> None:
    """Write faces of one markup, whole or not at all; nothing is lost.

    `points` (k, 2) of each face, if given, are written for hidden landmarks too: a model has a
    location for all of them. As labels they read as hidden again.
    """
    write_text(path, csv_text(records, str(path), points))


def csv_text(
    records: Sequence[FaceRecord],
    name: str = "the table",
    points: Sequence[NDArray[np.float64]] | None = None,
) -> str:
    """Faces of one markup as the text of a file; `name` is for the error."""
    kinds = {(record.markup, len(record.points)) for record in records}
    if len(kinds) > 1:
        names = ", ".join(sorted(name for name, _ in kinds))
        raise InputError(f"{name} was not written: a CSV holds one markup, these are {names}.")
    count = kinds.pop()[1] if kinds else 0
    predicted = any(record.covariance is not None for record in records)
    probable = any(record.visibility_probability is not None for record in records)
    header = list(_ABOUT)
    for j in range(count):
        header += [f"x_{j}", f"y_{j}", f"class_{j}"]
        header += [f"visibility_{j}"] if probable else []
        header += [f"xx_{j}", f"xy_{j}", f"yy_{j}"] if predicted else []
    text = io.StringIO()
    places = [record.points for record in records] if points is None else points
    rows = map(_row, records, places)
    write_rows(text, [header, *([row.get(name, "") for name in header] for row in rows)])
    return text.getvalue()


def read_csv(path: PathLike, hidden_points: bool = False) -> list[FaceRecord]:
    """Read faces; `class_j` may be missing (then a landmark with a place is unoccluded).

    `hidden_points` reads predictions: classes are ignored, so that landmarks that a model
    calls hidden keep their location.
    """
    source = Path(path)
    text = io.StringIO(read_text(source, newline=""), newline="")  # names may hold any of them
    rows = csv.DictReader(text, delimiter=_delimiter(source))
    try:
        header = list(rows.fieldnames or [])
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file ({error}): export it again.") from error
    if header == list(_ABOUT):
        return []  # written from no faces at all
    columns = numbered_columns(header)
    count = len(columns.get("x", ()))
    if not count or len(columns["y"]) != count:
        raise InputError(
            f"{path} has no columns x_0, y_0, x_1, y_1, ... in its first line: name its columns so."
        )
    about = {
        "image": column_named(header, *IMAGE_COLUMNS),
        "face_id": column_named(header, *FACE_COLUMNS),
        "success": column_named(header, "success"),
    }
    records = []
    try:
        for row in rows:
            if not any(value for name, value in row.items() if name != about["image"]):
                continue  # an image without a face, as `luvli predict` notes it
            try:
                records.append(_record(row, columns, about, hidden_points))
            except (ValueError, TypeError) as error:  # InputError is a ValueError
                raise InputError(f"{path}, line {rows.line_num}: {error}") from error
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file ({error}): export it again.") from error
    return records


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _row(record: FaceRecord, points: NDArray[np.float64]) -> dict[str, Any]:
    box = record.box if record.box is not None else np.full(4, np.nan)
    row: dict[str, Any] = {
        "image": image_cell(image_name(record)),
        "dataset": word_cell(record.dataset),
        "face_id": word_cell(record.face_id),
        "markup": word_cell(record.markup),
        "box_kind": record.box_kind,
        "score": "" if record.score is None else repr(float(record.score)),
        "attributes": json.dumps(dict(record.attributes)) if record.attributes else "",
        **{name: _cell(edge) for name, edge in zip(_BOX, box, strict=True)},
    }
    for j, (x, y) in enumerate(points):
        row |= {f"x_{j}": _cell(x), f"y_{j}": _cell(y), f"class_{j}": int(record.visibility[j])}
        if record.visibility_probability is not None:
            row[f"visibility_{j}"] = _cell(record.visibility_probability[j])
        if record.covariance is not None:
            (xx, xy), (_, yy) = record.covariance[j]
            row |= {f"xx_{j}": _cell(xx), f"xy_{j}": _cell(xy), f"yy_{j}": _cell(yy)}
    return row


def _record(
    row: Mapping[str, str | None],
    columns: Mapping[str, Sequence[str]],
    about: Mapping[str, str | None],
    hidden_points: bool,
) -> FaceRecord:
    count = len(columns["x"])

    def column(axis: str) -> NDArray[np.float64]:
        names = columns.get(axis, ())
        if len(names) != count:
            return np.full(count, np.nan)
        return np.array([_number(row.get(name)) for name in names])

    def text(name: str) -> str:
        return read_word((row.get(about.get(name) or name) or "").strip())

    points = np.stack([column("x"), column("y")], axis=1)
    if text("success") == "0":
        points[:] = np.nan
    classes = np.full(count, np.nan) if hidden_points else column("class")
    guessed = np.where(
        np.isfinite(points).all(axis=1), Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED
    )
    classes = np.where(np.isnan(classes), guessed, classes)
    if not np.isin(classes, list(Visibility)).all():
        raise InputError("a visibility class is not one of -1, 0, 1, 2.")
    box = np.array([_number(row.get(name)) for name in _BOX])
    xx, xy, yy = column("xx"), column("xy"), column("yy")
    covariance = np.stack([xx, xy, xy, yy], axis=1).reshape(-1, 2, 2)
    probability = column("visibility")
    attributes = json.loads(text("attributes")) if text("attributes") else {}
    if not isinstance(attributes, dict):
        raise InputError("the attributes are not a JSON object.")
    kind = text("box_kind") or "tight"
    if kind not in ("tight", "given", "detector"):
        raise InputError(f"unknown box_kind {kind!r}; choose one of tight, given, detector.")
    return FaceRecord(
        points=points,
        visibility=classes.astype(np.int8),
        image=Path(text("image")) if text("image") else None,
        box=None if np.isnan(box).all() else box,
        box_kind=kind,  # type: ignore[arg-type]  # checked above
        markup=text("markup") or default_markup(count),
        dataset=text("dataset"),
        face_id=text("face_id"),
        attributes=attributes,
        covariance=None if np.isnan(covariance).all() else covariance,
        visibility_probability=None if np.isnan(probability).all() else probability,
        score=None if not text("score") else float(text("score")),
    )


def _cell(value: float) -> str:
    return "" if np.isnan(value) else repr(float(value))


def _number(cell: str | None) -> float:
    return float(cell) if cell and cell.strip() else float("nan")
