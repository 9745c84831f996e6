"""Result files, one function for each format. Each takes rows and hands them on as it writes them,
so that a million need no more memory than one, and its file appears whole when they end.

json, csv and coco are the formats of `luvli.data.formats` and are read by the same readers, and by
`luvli.read`; parquet has one row for each face, image without a face and failure; pts has one file
for each face.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO, get_args

import numpy as np

from luvli.data.formats import write_pts
from luvli.data.formats.coco import annotation, category
from luvli.data.formats.common import image_cell, write_rows
from luvli.data.formats.csv import LABEL_COLUMNS, PREDICTED_COLUMNS
from luvli.data.formats.parquet import face_schema
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import require, unknown_choice
from luvli.faces import FaceLandmarks, Faces
from luvli.files import NOT_UTF8, PathLike, utf8, whole_file
from luvli.measures.measure import Measures
from luvli.prediction.containers import carried_columns
from luvli.prediction.inputs import DRAWN
from luvli.prediction.parts import Counts, Part, PartResult, Row, damaged, rounded

Format = Literal["json", "csv", "parquet", "pts", "coco", "parts"]
FORMATS: tuple[str, ...] = get_args(Format)
SUFFIXES = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "coco": ".json"}
WRITABLE = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
COUNTS = b"luvli.counts"
"""metadata of a Parquet part: what is in it, so that a summary reads its end alone"""
CARRIED = "source_"
"""before the name of a carried column that has the name of one of ours"""
AT_A_TIME = 1000
"""rows of a Parquet row group"""

Rows = Iterable[Row]


def check_format(name: str) -> None:
    """Refuse an unknown format, or one whose package is missing, before the work begins."""
    if name not in FORMATS:
        raise unknown_choice("format", name, FORMATS)
    if name in ("parquet", "parts"):
        require("pyarrow", "scale")


def write_rows_of(path: PathLike, rows: Rows, format: str, measures: bool = False) -> Iterator[Row]:
    """The same rows, which are meanwhile written to a file of any format but pts and parts."""
    return WRITERS[format](Path(path), rows, measures)


def write_results(path: PathLike, rows: Rows, format: str, measures: bool = False) -> None:
    """Write all rows to one file, rounded, whole or not at all."""
    check_format(format)
    fewer_digits = (row._replace(faces=rounded(row.faces, measures)) for row in rows)
    for _ in write_rows_of(path, fewer_digits, format, measures):
        pass


def drawing_name(path: str, stem: str) -> str:
    """What the drawing of an image is called, inside OUT."""
    suffix = Path(path).suffix.lower()
    return f"{stem}{DRAWN}{suffix if suffix in WRITABLE else '.png'}"


def measure_columns(measures: Measures) -> dict[str, Any]:
    """Value and standard deviation (n,) of each measure, under the names of table columns; of an
    infinite standard deviation the value says nothing."""
    columns = {}
    for name, measure in measures.items():
        columns[name] = np.asarray(measure.value)
        columns[f"{name}_std"] = np.asarray(measure.std)
    return columns


def face_dicts(faces: Faces, measures: bool = False) -> list[dict[str, Any]]:
    """A JSON object for each face; with `measures` also [value, standard deviation] of each."""
    fields = faces.to_dicts()
    if measures and fields:
        known = faces.measures
        for i, face in enumerate(fields):
            face["measures"] = {
                name: [round(float(each.value[i]), 5), round(float(each.std[i]), 5)]
                for name, each in known.items()
            }
    return fields


def json_record(row: Row, measures: bool = False) -> str:
    """A row as one JSON object: its name and its faces, or the sentence why not."""
    from pydantic_core import to_json

    fields: dict[str, Any] = {} if row.frame is None else {"frame": row.frame, "time": row.time}
    fields["faces"] = face_dicts(row.faces, measures)
    for face in fields["faces"]:
        face.pop("time", None)
    if row.error:
        fields["error"] = row.error
    # the name by itself: as \\udcff what is no text
    rest = to_json(fields, inf_nan_mode="null").decode("utf-8")[1:]
    return f"{json.dumps({'image': row.image})[:-1]},{rest}"


@contextmanager
def text_file(path: Path) -> Iterator[TextIO]:
    with (
        whole_file(path) as temporary,
        temporary.open("w", encoding="utf-8", errors=NOT_UTF8, newline="") as stream,
    ):
        yield stream


def write_json(path: Path, rows: Rows, measures: bool) -> Iterator[Row]:
    """Our JSON; images without a face are listed, and the sentences about those that failed."""
    from pydantic_core import to_json

    without: list[str] = []
    failed: dict[str, None] = {}
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
                failed[row.error] = None
            elif not len(row.faces) and row.frame is None:  # a frame need not have a face
                without.append(row.image)
            yield row
        rest = {"without_face": without, "failed": list(failed)}
        lists = {name: values for name, values in rest.items() if values}
        stream.write("\n]" + ("," + json.dumps(lists)[1:-1] if lists else "") + "}\n")


def write_csv(path: Path, rows: Rows, measures: bool) -> Iterator[Row]:
    """Our CSV. An image without a face has a row, at the end, with its name and nothing else."""
    without: list[str] = []
    header: list[str] = []
    with text_file(path) as stream:
        for row in rows:
            if len(row.faces):
                columns = _csv_columns(row, measures)
                if not header:
                    header = list(columns)
                    write_rows(stream, [header])
                lines = zip(*columns.values(), strict=True)
                # NaN is not equal to itself
                write_rows(stream, ([_cell(value) for value in line] for line in lines))
            elif row.frame is None and not row.error:
                without.append(row.image)
            yield row
        if not header:
            header = [*LABEL_COLUMNS, "attributes"]
            write_rows(stream, [header])
        empty = [""] * (len(header) - 1)
        write_rows(stream, ([image_cell(name), *empty] for name in without))


def _cell(value: Any) -> Any:
    return "" if value is None or value != value else value  # NaN is not equal to itself


def _csv_columns(row: Row, measures: bool) -> dict[str, list[Any]]:
    """The columns of `luvli.data.formats.csv` for the faces of a row, in their order."""
    faces = row.faces
    n, k = faces.points.shape[:2]
    same = {
        "image": image_cell(row.image),
        "markup": faces.markup,
        "box_kind": "detector",
        "likelihood": None if faces.likelihood == "laplace" else faces.likelihood,
        "frame": row.frame,
        "time": row.time,
        "width": row.size[0] or None,
        "height": row.size[1] or None,
    }
    each: dict[str, Any] = {f"box_{e}": faces.boxes[:, i] for i, e in enumerate(_EDGES)}
    each |= {"score": faces.scores, "accepted": faces.accepted, "track": faces.track}
    each |= {name: getattr(faces, name) for name in ("confidence", "expected_error", "eyes_closed")}
    names = (*LABEL_COLUMNS, *PREDICTED_COLUMNS, "attributes")
    columns: dict[str, list[Any]] = {
        name: [same.get(name)] * n if each.get(name) is None else each[name].tolist()
        for name in names
    }
    if measures:
        columns |= {name: v.tolist() for name, v in measure_columns(faces.measures).items()}
    visible = faces.visible() if faces.visibility_trained else np.ones((n, k), bool)
    located = visible & np.isfinite(faces.points).all(axis=2)
    axes: dict[str, Any] = {
        "x": faces.points[:, :, 0],
        "y": faces.points[:, :, 1],
        "class": np.where(located, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED),
        "visibility": faces.visibility,
    }
    if faces.occlusion_trained:
        axes["occlusion"] = faces.occlusion
    if faces.covariance_trained:
        axes["xx"], axes["xy"] = faces.covariance[:, :, 0, 0], faces.covariance[:, :, 0, 1]
        axes["yy"] = faces.covariance[:, :, 1, 1]
    lists = {axis: values.T.tolist() for axis, values in axes.items()}
    return columns | {f"{axis}_{j}": lists[axis][j] for j in range(k) for axis in lists}


_EDGES = ("x0", "y0", "x1", "y1")


def write_coco(path: Path, rows: Rows, measures: bool) -> Iterator[Row]:
    """COCO keypoints, of images with their width and height; images without a face are listed."""
    images: list[str] = []
    categories: list[dict[str, Any]] = []
    count = 0
    with text_file(path) as stream:
        stream.write('{"annotations":[')
        for row in rows:
            if not row.error:
                about: dict[str, Any] = {"id": len(images) + 1, "file_name": row.image}
                if row.size[0]:
                    about |= {"width": row.size[0], "height": row.size[1]}
                if row.frame is not None:
                    about |= {"frame": row.frame}
                images.append(json.dumps(about))
            for face in row.faces:
                categories = categories or [category(1, face.markup, len(face))]
                count += 1
                ids = {"id": count, "image_id": len(images), "category_id": 1}
                fields = annotation(record(face, row, measures), face.points)
                text = json.dumps(ids | fields, allow_nan=False)
                stream.write(f"{',' if count > 1 else ''}\n {text}")
            yield row
        stream.write(f'\n],"categories":{json.dumps(categories)},"images":[\n ')
        stream.write(",\n ".join(images))
        stream.write("\n]}\n")


def record(face: FaceLandmarks, row: Row, measures: bool = False) -> FaceRecord:
    """A predicted face as a labelled one; frame, time, track and trust become attributes."""
    about = {
        "frame": row.frame,
        "time": row.time,
        "track": face.track,
        "confidence": face.confidence,
        "expected_error": face.expected_error,
        "eyes_closed": face.eyes_closed,
        "accepted": face.accepted,
        "likelihood": None if face.likelihood == "laplace" else face.likelihood,
        "occlusion": face.occlusion.tolist() if face.occlusion_trained else None,
        "measures": face_dicts(Faces.stack([face]), True)[0]["measures"] if measures else None,
    }
    attributes = {name: value for name, value in about.items() if value is not None}
    return FaceRecord.from_landmarks(face, Path(row.image), attributes=attributes)


def write_parquet(path: Path, rows: Rows, measures: bool) -> Iterator[Row]:
    """One Parquet file with all rows."""
    parquet = require("pyarrow.parquet", "scale")
    waiting: list[Row] = []
    schema = face_schema()
    with whole_file(path) as temporary:
        writer: Any = None
        try:
            for row in rows:
                waiting.append(row)
                if len(waiting) == AT_A_TIME:
                    table = face_table(waiting, measures)[0]
                    writer = writer or parquet.ParquetWriter(temporary, table.schema, **_PACKED)
                    writer.write_table(table)
                    waiting = []
                yield row
            table = face_table(waiting, measures)[0] if waiting else schema.empty_table()
            writer = writer or parquet.ParquetWriter(temporary, table.schema, **_PACKED)
            writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


_PACKED: dict[str, Any] = {"compression": "zstd"}


def face_table(rows: Sequence[Row], measures: bool = False) -> tuple[Any, list[int]]:
    """The pyarrow table of `face_schema` for some rows, and the row that each of its rows is of.

    One row for each face; one without numbers for an image that has none or that failed.
    """
    arrow = require("pyarrow", "scale")
    faces = Faces.concatenate([row.faces for row in rows])
    origin = [i for i, row in enumerate(rows) for _ in range(max(len(row.faces), 1))]
    numbers = iter(range(len(faces)))
    index = [next(numbers) if len(rows[i].faces) else None for i in origin]
    status = ["failed" if rows[i].error else "face" if len(rows[i].faces) else "no face"
              for i in origin]  # fmt: skip
    columns: dict[str, Any] = {
        "image": [utf8(rows[i].image) for i in origin],  # names of files need not be words
        "status": status,
        "error": [utf8(rows[i].error) if rows[i].error else None for i in origin],
        "frame": [rows[i].frame for i in origin],
        "time": [rows[i].time for i in origin],
        "width": [rows[i].size[0] or None for i in origin],
        "height": [rows[i].size[1] or None for i in origin],
    }
    schema = face_schema()
    taken = arrow.array(index, arrow.int64())
    for name, values in _face_columns(faces).items():
        columns[name] = arrow.array(values, schema.field(name).type, from_pandas=True).take(taken)
    table = arrow.table(columns, schema=schema)
    if measures:
        for name, values in measure_columns(faces.measures).items():
            column = arrow.array(values, arrow.float64(), from_pandas=True).take(taken)
            table = table.append_column(name, column)
    return table, origin


def _face_columns(faces: Faces) -> dict[str, Any]:
    """Values for each face: numbers, or flat lists of them; NaN is null."""
    n = len(faces)

    def flat(values: Any) -> Any:
        return list(values.reshape(n, -1)) if n else []

    optional = {"accepted": faces.accepted, "track": faces.track}
    return {
        "markup": [faces.markup] * n,
        "score": faces.scores,
        "confidence": faces.confidence,
        "expected_error": faces.expected_error,
        "eyes_closed": faces.eyes_closed,
        "visibility_trained": [faces.visibility_trained] * n,
        "covariance_trained": [faces.covariance_trained] * n,
        "box": flat(faces.boxes),
        "points": flat(faces.points),
        "covariance": flat(faces.covariance),
        "likelihood": [None if faces.likelihood == "laplace" else faces.likelihood] * n,
        "visibility": flat(faces.visibility),
        "occlusion_trained": [faces.occlusion_trained or None] * n,
        "occlusion": flat(faces.occlusion) if faces.occlusion_trained else [None] * n,
        **{name: [None] * n if values is None else values for name, values in optional.items()},
    }


def parquet_bytes(part: Part, result: PartResult, measures: bool) -> bytes:
    """The Parquet file of a part, with the other columns of a Parquet source."""
    parquet = require("pyarrow.parquet", "scale")
    table, origin = face_table(result.rows, measures)
    if part.kind == "parquet":
        carried = carried_columns(part).take(origin)
        ours = set(table.column_names)
        for name in carried.column_names:
            table = table.append_column(f"{CARRIED}{name}" if name in ours else name, carried[name])
    about = {**(table.schema.metadata or {}), COUNTS: json.dumps(vars(Counts.of(result.rows)))}
    content = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(about), content, **_PACKED)
    return content.getvalue()


def read_counts(stream: Any, place: str) -> tuple[Counts, list[str]]:
    """What a Parquet part says about itself, and the sentences about its failures."""
    parquet = require("pyarrow.parquet", "scale")
    try:
        with parquet.ParquetFile(stream) as file:
            counts = Counts(**json.loads(file.schema_arrow.metadata[COUNTS]))
            errors = file.read(columns=["error"])["error"].to_pylist() if counts.failed else []
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise damaged(place, error) from error
    return counts, [text for text in errors if text]


def write_pts_files(stem: Path, faces: Faces) -> None:
    """One `.pts` for each face: STEM.pts, STEM~2.pts, STEM~3.pts, ..."""
    for number, face in enumerate(faces, 1):
        visible = face.visible() if face.visibility_trained else np.full(len(face), True)
        classes = np.where(visible, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED)
        end = "" if number == 1 else f"~{number}"
        write_pts(stem.with_name(f"{stem.name}{end}.pts"), face.points, classes)


WRITERS: dict[str, Callable[[Path, Rows, bool], Iterator[Row]]] = {
    "json": write_json,
    "csv": write_csv,
    "coco": write_coco,
    "parquet": write_parquet,
}
