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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from luvli.arrays import Floats
from luvli.data.formats.checked import read_each
from luvli.data.formats.common import image_name, is_predicted
from luvli.data.formats.json import FaceFields, PredictedFields
from luvli.data.formats.tables import (
    IMAGE_COLUMNS,
    image_cell,
    numbered_columns,
    read_rows,
    read_word,
    word_cell,
    write_rows,
)
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.files import PathLike, write_text

_BOX = ("box_x0", "box_y0", "box_x1", "box_y1")
LABEL_COLUMNS = ("image", "dataset", "face_id", "markup", *_BOX, "box_kind", "score")
PREDICTED_COLUMNS = tuple(name for name in PredictedFields.model_fields if name != "occlusion")
"""columns of predicted faces, which are attributes of a record"""
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
    rows = [face_cells(record) for record in records]
    predicted = any(map(is_predicted, records))
    header = csv_columns({column for row in rows for column in row}, predicted)
    text = io.StringIO()
    write_rows(text, [header, *([row.get(column) for column in header] for row in rows)])
    return text.getvalue()


def csv_columns(used: Iterable[str], predicted: bool) -> list[str]:
    """The columns of a table in their order, of which those for landmarks, and for anything else,
    are `used`."""
    fixed = [*LABEL_COLUMNS, *(PREDICTED_COLUMNS if predicted else ()), "attributes"]
    return [*fixed, *sorted(set(used) - set(fixed), key=_landmark_order)]


def _landmark_order(column: str) -> tuple[int, int, str]:
    axis, _, number = column.rpartition("_")
    return (int(number), _AXES.index(axis), "") if axis in _AXES else (-1, 0, column)


def face_cells(record: FaceRecord, points: Floats | None = None) -> dict[str, Any]:
    """Column -> cell of a face; None for what is not known. `points` (k, 2) are written for hidden
    landmarks too: a model has a location for all of them."""
    points = record.points if points is None else points
    about = dict(record.attributes)
    columns: dict[str, Any] = dict(zip("xy", points.T.tolist(), strict=True))
    columns["class"] = record.visibility.tolist()
    if record.visibility_probability is not None:
        columns["visibility"] = record.visibility_probability.tolist()
    columns["occlusion"] = about.pop("occlusion", ())
    if record.covariance is not None:
        columns["xx"], columns["xy"], _, columns["yy"] = record.covariance.reshape(-1, 4).T.tolist()
    row = {f"{axis}_{j}": v for axis, values in columns.items() for j, v in enumerate(values)}
    if record.box is not None:
        row |= zip(_BOX, record.box.tolist(), strict=True)
    row = {column: None if value != value else value for column, value in row.items()}  # NaN
    if is_predicted(record):
        row |= {name: about.pop(name) for name in PREDICTED_COLUMNS if name in about}
    row |= {name: word_cell(getattr(record, name)) for name in ("dataset", "face_id", "markup")}
    return row | {
        "image": image_cell(image_name(record)),
        "box_kind": record.box_kind,
        "score": record.score,
        "attributes": json.dumps(about) if about else None,
    }


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

    def read(cells: Mapping[str, str]) -> FaceRecord:
        fields = _fields(cells, columns) | {"visibility_trained": not hidden_points}
        return FaceFields.model_validate(fields).record()

    named = (
        (n, {renamed.get(c, c): cell for c, cell in zip(header, row, strict=False) if cell.strip()})
        for n, row in rows
    )
    # an image without a face, as `luvli predict` notes it, has no other cell
    return read_each(path, "line", ((n, cells) for n, cells in named if {*cells} - {"image"}), read)


def _fields(cells: Mapping[str, str], columns: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The fields of a face by their names in our JSON; cells are left as words."""
    words = {name: read_word(cell.strip()) for name, cell in cells.items()}
    lists = {
        axis: [words.get(name) for name in names]
        for axis, names in {**columns, "box": _BOX}.items()
        if axis == "box" or len(names) == len(columns["x"])
    }
    known = {axis: values for axis, values in lists.items() if any(values)}
    names = words.keys() & {"image", *LABEL_COLUMNS, *PREDICTED_COLUMNS}
    fields: dict[str, Any] = {name: words[name] for name in names}
    fields |= {name: known.get(name) for name in ("box", "visibility", "occlusion")}
    located = words.get("success") != "0"
    pairs = zip(lists["x"], lists["y"], strict=True)
    fields["points"] = [pair if located else None for pair in pairs]
    fields["visibility_class"] = known.get("class")
    if "xx" in known:
        entries = zip(known["xx"], known["xy"], known["yy"], strict=True)
        fields["covariance"] = [((xx, xy), (xy, yy)) for xx, xy, yy in entries]
    return fields | {"attributes": json.loads(words.get("attributes", "{}"))}
