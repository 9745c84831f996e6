"""Result files: a function for each format that takes rows one by one, so that a million need no
more memory than one; its file appears whole at the end.

    write_json_file(path, rows, measures=False)

json, csv and coco are the formats of `luvli.data.formats` and are read by the same readers, and by
`luvli.read`; parquet has one row for each face, image without a face and failure; pts has one file
for each face.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from luvli.data.formats import write_pts
from luvli.data.formats.coco import annotation, category
from luvli.data.formats.csv import csv_columns, face_cells
from luvli.data.formats.parquet import face_schema
from luvli.data.formats.tables import image_cell, write_rows
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import require
from luvli.faces import FaceLandmarks, Faces
from luvli.files import NOT_UTF8, PathLike, utf8, whole_file
from luvli.measures.measure import Measures
from luvli.prediction.parts import Part
from luvli.prediction.rows import Row, count_rows, damaged, rounded
from luvli.prediction.settings import check_format

SUMMARY = b"luvli.summary"
"""metadata of a Parquet part: what came of it, so that a summary reads its end alone"""
AT_A_TIME = 1000
"""rows of a Parquet row group"""


def write_results(path: PathLike, rows: Iterable[Row], format: str, measures: bool = False) -> None:
    """Write all rows to one file, rounded, whole or not at all."""
    check_format(format)
    rows = (row._replace(faces=rounded(row.faces, measures)) for row in rows)
    WRITERS[format](Path(path), rows, measures)


# -- what is said of a face ------------------------------------------------------------------


def face_dicts(faces: Faces, measures: bool = False) -> list[dict[str, Any]]:
    """A JSON object for each face; with `measures` also those, as the server gives them."""
    fields = faces.to_dicts()
    if measures and fields:
        known = faces.measures
        for i, face in enumerate(fields):
            face["measures"] = Measures({name: each[i] for name, each in known.items()}).to_dict()
    return fields


def measure_cells(faces: Faces, wanted: bool = True) -> list[dict[str, float | None]]:
    """The measures of each face as columns NAME and NAME_std, with the digits that say something;
    None where one is not known."""
    cells: list[dict[str, float | None]] = [{} for _ in faces]
    for name, measure in faces.measures.items() if wanted and cells else ():
        for column, numbers in ((name, measure.value), (f"{name}_std", measure.std)):
            for cell, number in zip(cells, np.round(numbers, 5).tolist(), strict=True):
                cell[column] = None if np.isnan(number) else number
    return cells


def record(face: FaceLandmarks, row: Row, measures: bool = False) -> FaceRecord:
    """A predicted face as a labelled one; frame, time, track and trust become attributes."""
    about = {
        "frame": row.frame,
        "time": row.time,
        **{name: getattr(face, name) for name in
           ("track", "confidence", "expected_error", "eyes_closed", "accepted")},
        "likelihood": None if face.likelihood == "laplace" else face.likelihood,
        "occlusion": face.occlusion.tolist() if face.occlusion_trained else None,
        "measures": face_dicts(Faces.stack([face]), True)[0]["measures"] if measures else None,
    }  # fmt: skip
    attributes = {name: value for name, value in about.items() if value is not None}
    return FaceRecord.from_landmarks(face, Path(row.image), attributes=attributes)


def row_fields(row: Row) -> dict[str, Any]:
    """Where a row is from, as columns; None for what is not known."""
    width, height = (side or None for side in row.size)
    return {"image": row.image, "frame": row.frame, "time": row.time, "width": width,
            "height": height}  # fmt: skip


# -- text ------------------------------------------------------------------------------------


def json_record(row: Row, measures: bool = False) -> str:
    """A row as one JSON object: its name and its faces, or the sentence why not."""
    fields: dict[str, Any] = {"image": row.image}
    if row.frame is not None:
        fields |= {"frame": row.frame, "time": row.time}
    fields["faces"] = face_dicts(row.faces, measures)
    for face in fields["faces"]:
        face.pop("time", None)
    if row.error:
        fields["error"] = row.error
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


@contextmanager
def text_file(path: Path) -> Iterator[TextIO]:
    """A file to write text to, which appears whole at the end."""
    with (
        whole_file(path) as temporary,
        temporary.open("w", encoding="utf-8", errors=NOT_UTF8, newline="") as stream,
    ):
        yield stream


def write_json_file(path: Path, rows: Iterable[Row], measures: bool) -> None:
    """Our JSON; images without a face are listed, and the sentences about those that failed."""
    from pydantic_core import to_json

    lists: dict[str, dict[str, None]] = {"without_face": {}, "failed": {}}
    separator = "\n "
    with text_file(path) as stream:
        stream.write('{"format":"luvli-faces","version":1,"faces":[')
        for row in rows:
            about: dict[str, Any] = {}
            if row.frame is not None:
                about = {"frame": row.frame, "time": row.time}
            if row.size[0]:
                about["image_size"] = row.size
            name = json.dumps({"image": row.image})[:-1]  # as \\udcff what is no text
            for fields in face_dicts(row.faces, measures):
                rest = to_json(about | fields, inf_nan_mode="null").decode()[1:]
                stream.write(f"{separator}{name},{rest}")
                separator = ",\n "
            if row.error:
                lists["failed"][row.error] = None
            elif not len(row.faces) and row.frame is None:  # a frame need not have a face
                lists["without_face"][row.image] = None
        end = {name: list(values) for name, values in lists.items() if values}
        stream.write("\n]" + ("," + json.dumps(end)[1:-1] if end else "") + "}\n")


def write_csv_file(path: Path, rows: Iterable[Row], measures: bool) -> None:
    """Our CSV. An image without a face has a row, at the end, with its name and nothing else."""
    without: list[str] = []
    header: list[str] = []
    with text_file(path) as stream:
        for row in rows:
            about = row_fields(row) | {"image": image_cell(row.image)}
            for face, measured in zip(row.faces, measure_cells(row.faces, measures), strict=True):
                cells = face_cells(record(face, row), face.points) | measured | about
                if not header:
                    header = csv_columns(cells, predicted=True)
                    write_rows(stream, [header])
                write_rows(stream, [[cells.get(name, "") for name in header]])
            if not len(row.faces) and row.frame is None and not row.error:
                without.append(row.image)
        if not header:
            header = csv_columns((), predicted=False)
            write_rows(stream, [header])
        empty = [""] * (len(header) - 1)
        write_rows(stream, ([image_cell(name), *empty] for name in without))


def write_coco_file(path: Path, rows: Iterable[Row], measures: bool) -> None:
    """COCO keypoints, of images with their width and height; images without a face are listed."""
    images: list[str] = []
    categories: list[dict[str, Any]] = []
    count = 0
    with text_file(path) as stream:
        stream.write('{"annotations":[')
        for row in rows:
            if not row.error:
                known = {n: v for n, v in row_fields(row).items() if v is not None and n != "time"}
                about = {"id": len(images) + 1, "file_name": known.pop("image"), **known}
                images.append(json.dumps(about))
            for face in row.faces:
                categories = categories or [category(1, face.markup, len(face))]
                count += 1
                ids = {"id": count, "image_id": len(images), "category_id": 1}
                fields = annotation(record(face, row, measures), face.points)
                text = json.dumps(ids | fields, allow_nan=False)
                stream.write(f"{',' if count > 1 else ''}\n {text}")
        stream.write(f'\n],"categories":{json.dumps(categories)},"images":[\n ')
        stream.write(",\n ".join(images))
        stream.write("\n]}\n")


def write_pts_files(stem: Path, faces: Faces) -> None:
    """One `.pts` for each face: STEM.pts, STEM~2.pts, STEM~3.pts, ..."""
    for number, face in enumerate(faces, 1):
        visible = face.visible() if face.visibility_trained else np.full(len(face), True)
        classes = np.where(visible, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED)
        end = "" if number == 1 else f"~{number}"
        write_pts(stem.with_name(f"{stem.name}{end}.pts"), face.points, classes)


# -- Parquet ---------------------------------------------------------------------------------


def write_parquet(path: Path, rows: Iterable[Row], measures: bool) -> None:
    """One Parquet file with all rows."""
    parquet = require("pyarrow.parquet", "scale")
    rows = iter(rows)
    table, _ = face_table(list(islice(rows, AT_A_TIME)), measures)
    with (
        whole_file(path) as temporary,
        parquet.ParquetWriter(temporary, table.schema, compression="zstd") as writer,
    ):
        writer.write_table(table)
        while some := list(islice(rows, AT_A_TIME)):
            writer.write_table(face_table(some, measures)[0])


def face_table(rows: Sequence[Row], measures: bool = False) -> tuple[Any, list[int]]:
    """The pyarrow table of `face_schema` for some rows, and the row that each of its rows is of.

    One row for each face; one without numbers for an image that has none or that failed.
    """
    arrow = require("pyarrow", "scale")
    schema = face_schema()
    filled = [row.faces for row in rows if len(row.faces)] + [row.faces for row in rows[:1]]
    for name in filled[0][:0].measures if measures and filled else ():
        for column in (name, f"{name}_std"):
            schema = schema.append(arrow.field(column, arrow.float64()))
    cells, origin = [], []
    for i, row in enumerate(rows):
        # names of files need not be words
        about = row_fields(row) | {"image": utf8(row.image), "error": utf8(row.error) or None}
        about["status"] = "failed" if row.error else "face" if len(row.faces) else "no face"
        faces = zip(row.faces.to_dicts(), measure_cells(row.faces, measures), strict=True)
        for face, measured in list(faces) or [({}, {})]:
            lists = {n: np.ravel(v).tolist() for n, v in face.items() if isinstance(v, list)}
            cells.append(face | lists | measured | about)
            origin.append(i)
    return arrow.Table.from_pylist(cells, schema), origin


def parquet_bytes(part: Part, rows: Sequence[Row], measures: bool) -> bytes:
    """The Parquet file of a part, with the other columns of a Parquet source, which are called
    source_NAME where NAME is one of ours."""
    parquet = require("pyarrow.parquet", "scale")
    table, origin = face_table(rows, measures)
    if (others := part.other_columns()) is not None:
        others, ours = others.take(origin), set(table.column_names)
        for name in others.column_names:
            table = table.append_column(f"source_{name}" if name in ours else name, others[name])
    summary = json.dumps([count_rows(rows), [row.error for row in rows if row.error]])
    about = {**(table.schema.metadata or {}), SUMMARY: summary}
    content = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(about), content, compression="zstd")
    return content.getvalue()


def read_counts(stream: Any, place: str) -> tuple[Counter[str], list[str]]:
    """What a Parquet part says about itself, and the sentences about its failures."""
    parquet = require("pyarrow.parquet", "scale")
    try:
        counts, errors = json.loads(parquet.read_metadata(stream).metadata[SUMMARY])
        return Counter(counts), errors
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise damaged(place, error) from error


WRITERS: dict[str, Callable[[Path, Iterable[Row], bool], None]] = {
    "json": write_json_file,
    "csv": write_csv_file,
    "coco": write_coco_file,
    "parquet": write_parquet,
}
