"""Result files, one writer for each format, fed row by row: a million need no more memory than one.

json, csv and coco are the formats of `luvli.data.formats` and are read by the same readers, and by
`luvli.read`; parquet has one row for each face, image without a face and failure; pts has one file
for each face.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np

from luvli.data.formats import write_pts
from luvli.data.formats.coco import annotation, category
from luvli.data.formats.common import image_cell, write_rows
from luvli.data.formats.csv import LABEL_COLUMNS, PREDICTED_COLUMNS
from luvli.data.formats.parquet import face_schema
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError, require, unknown_choice
from luvli.faces import FaceLandmarks, Faces
from luvli.files import NOT_UTF8, PathLike, utf8, whole_file
from luvli.prediction.containers import carried_columns
from luvli.prediction.parts import Counts, Part, PartResult, Row, rounded

Format = Literal["json", "csv", "parquet", "pts", "coco", "parts"]
FORMATS: tuple[str, ...] = get_args(Format)
SUFFIXES = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "coco": ".json"}
COUNTS = b"luvli.counts"
"""metadata of a Parquet part: what is in it, so that a summary reads its end alone"""
CARRIED = "source_"
"""before the name of a carried column that has the name of one of ours"""
AT_A_TIME = 1000
"""rows of a Parquet row group"""


def check_format(name: str) -> None:
    """Refuse an unknown format, or one whose package is missing, before the work begins."""
    if name not in FORMATS:
        raise unknown_choice("format", name, FORMATS)
    if name in ("parquet", "parts"):
        require("pyarrow", "scale")


class Writer(Protocol):
    """Writes rows to a file, which appears whole when the writer is left without an error."""

    def add(self, row: Row) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def open_writer(path: PathLike, format: str) -> Writer:
    """The writer of a format to one file; any but pts and parts."""
    check_format(format)
    writer: Writer = _WRITERS[format](Path(path))
    return writer


def write_results(path: PathLike, rows: Iterable[Row], format: str) -> None:
    """Write all rows to one file, rounded, whole or not at all."""
    with open_writer(path, format) as writer:
        for row in rows:
            writer.add(row._replace(faces=rounded(row.faces)))


def json_fields(row: Row) -> Iterator[dict[str, Any]]:
    """A JSON object for each face of a row, without its name."""
    about: dict[str, Any] = {} if row.frame is None else {"frame": row.frame, "time": row.time}
    about |= {"image_size": row.size} if row.size[0] else {}
    return (about | fields for fields in row.faces.to_dicts())


def json_record(row: Row) -> str:
    """A row as one JSON object: its name and its faces, or the sentence why not."""
    fields: dict[str, Any] = {"image": row.image}
    if row.frame is not None:
        fields |= {"frame": row.frame, "time": row.time}
    fields["faces"] = row.faces.to_dicts()
    for face in fields["faces"]:
        face.pop("time", None)
    if row.error:
        fields["error"] = row.error
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


class _FileWriter:
    """What the writers share: a temporary file that is moved into place at the end."""

    def __init__(self, path: Path) -> None:
        self._stack = ExitStack()
        self._temporary = self._stack.enter_context(whole_file(path))
        self._stream = self._stack.enter_context(
            self._temporary.open("w", encoding="utf-8", errors=NOT_UTF8, newline="")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        except BaseException as failure:
            self._stack.__exit__(type(failure), failure, failure.__traceback__)
            raise
        self._stack.__exit__(kind, error, trace)

    def _finish(self) -> None:
        """Write what comes at the end."""


class JsonWriter(_FileWriter):
    """Our JSON; images without a face are listed, and the sentences about those that failed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._without: list[str] = []
        self._failed: dict[str, None] = {}
        self._separator = "\n "
        self._stream.write('{"format":"luvli-faces","version":1,"faces":[')

    def add(self, row: Row) -> None:
        from pydantic_core import to_json

        name = json.dumps({"image": row.image})[:-1]  # as \\udcff what is no text
        for fields in json_fields(row):
            rest = to_json(fields, inf_nan_mode="null").decode()[1:]
            self._stream.write(f"{self._separator}{name},{rest}")
            self._separator = ",\n "
        if row.error:
            self._failed[row.error] = None
        elif not len(row.faces) and row.frame is None:  # a frame of a video need not have a face
            self._without.append(row.image)

    def _finish(self) -> None:
        rest = {"without_face": self._without, "failed": list(self._failed)}
        told = {name: values for name, values in rest.items() if values}
        self._stream.write("\n]" + ("," + json.dumps(told)[1:-1] if told else "") + "}\n")


class CsvWriter(_FileWriter):
    """Our CSV. An image without a face has a row, at the end, with its name and nothing else."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._without: list[str] = []
        self._header: list[str] = []

    def add(self, row: Row) -> None:
        faces = row.faces
        if not len(faces):
            self._without += [row.image] if row.frame is None and not row.error else []
            return
        n, k = faces.points.shape[:2]
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
        header = [*LABEL_COLUMNS, *PREDICTED_COLUMNS, "attributes"]
        header += [f"{axis}_{j}" for j in range(k) for axis in axes]
        if not self._header:
            write_rows(self._stream, [header])
            self._header = header
        lists = [axes[axis].tolist() for axis in axes]
        for i, face in enumerate(faces):
            about: dict[str, Any] = {
                "image": image_cell(row.image),
                "markup": faces.markup,
                "box_kind": "detector",
                "score": face.score,
                "confidence": face.confidence,
                "expected_error": face.expected_error,
                "accepted": face.accepted,
                "likelihood": None if faces.likelihood == "laplace" else faces.likelihood,
                "frame": row.frame,
                "time": row.time,
                "track": face.track,
                "width": row.size[0] or None,
                "height": row.size[1] or None,
            }
            edges = ("box_x0", "box_y0", "box_x1", "box_y1")
            about |= dict(zip(edges, face.box.tolist(), strict=True))
            cells = [about.get(name) for name in header[: -k * len(axes)]]
            cells += [values[i][j] for j in range(k) for values in lists]
            write_rows(
                self._stream, [["" if c is None or c != c else c for c in cells]]
            )  # NaN is not equal to itself

    def _finish(self) -> None:
        if not self._header:
            self._header = [*LABEL_COLUMNS, "attributes"]
            write_rows(self._stream, [self._header])
        empty = [""] * (len(self._header) - 1)
        write_rows(self._stream, ([image_cell(name), *empty] for name in self._without))


class CocoWriter(_FileWriter):
    """COCO keypoints, of images with their width and height; images without a face are listed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._images: list[str] = []
        self._category: dict[str, Any] | None = None
        self._count = 0
        self._stream.write('{"annotations":[')

    def add(self, row: Row) -> None:
        if row.error:
            return
        number = len(self._images) + 1
        about: dict[str, Any] = {"id": number, "file_name": row.image}
        if row.size[0]:
            about |= {"width": row.size[0], "height": row.size[1]}
        if row.frame is not None:
            about |= {"frame": row.frame}
        self._images.append(json.dumps(about))
        for face in row.faces:
            self._category = self._category or category(1, face.markup, len(face))
            fields = annotation(record(face, row), face.points)
            self._count += 1
            ids = {"id": self._count, "image_id": number, "category_id": 1}
            text = json.dumps(ids | fields, allow_nan=False)
            self._stream.write(f"{',' if self._count > 1 else ''}\n {text}")

    def _finish(self) -> None:
        categories = [self._category] if self._category else []
        self._stream.write(f'\n],"categories":{json.dumps(categories)},"images":[\n ')
        self._stream.write(",\n ".join(self._images))
        self._stream.write("\n]}\n")


def record(face: FaceLandmarks, row: Row) -> FaceRecord:
    """A predicted face as a labelled one; frame, time, track and trust become attributes."""
    about = {
        "frame": row.frame,
        "time": row.time,
        "track": face.track,
        "confidence": face.confidence,
        "expected_error": face.expected_error,
        "accepted": face.accepted,
        "likelihood": None if face.likelihood == "laplace" else face.likelihood,
    }
    attributes = {name: value for name, value in about.items() if value is not None}
    if face.occlusion_trained:
        attributes["occlusion"] = face.occlusion.tolist()
    return FaceRecord.from_landmarks(face, Path(row.image), attributes=attributes)


class ParquetWriter:
    """One Parquet file with all rows."""

    def __init__(self, path: Path) -> None:
        parquet = require("pyarrow.parquet", "scale")
        self._stack = ExitStack()
        temporary = self._stack.enter_context(whole_file(path))
        self._writer = self._stack.enter_context(
            parquet.ParquetWriter(temporary, face_schema(), compression="zstd")
        )
        self._rows: list[Row] = []

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) == AT_A_TIME:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(face_table(self._rows)[0])
            self._rows = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._flush()
        self._stack.__exit__(kind, error, trace)


def face_table(rows: Sequence[Row]) -> tuple[Any, list[int]]:
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
    return arrow.table(columns, schema=schema), origin


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


def parquet_bytes(part: Part, result: PartResult) -> bytes:
    """The Parquet file of a part, with the other columns of a Parquet source."""
    parquet = require("pyarrow.parquet", "scale")
    table, origin = face_table(result.rows)
    if part.kind == "parquet":
        carried = carried_columns(part).take(origin)
        ours = set(table.column_names)
        for name in carried.column_names:
            table = table.append_column(f"{CARRIED}{name}" if name in ours else name, carried[name])
    about = {**(table.schema.metadata or {}), COUNTS: json.dumps(vars(Counts.of(result.rows)))}
    content = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(about), content, compression="zstd")
    return content.getvalue()


def read_counts(stream: Any, place: str) -> tuple[Counts, list[str]]:
    """What a Parquet part says about itself, and the sentences about its failures."""
    parquet = require("pyarrow.parquet", "scale")
    try:
        with parquet.ParquetFile(stream) as file:
            counts = Counts(**json.loads(file.schema_arrow.metadata[COUNTS]))
            errors = file.read(columns=["error"])["error"].to_pylist() if counts.failed else []
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise InputError(
            f"{place} is damaged ({type(error).__name__}): delete it and give the same command."
        ) from error
    return counts, [text for text in errors if text]


def pts_paths(stem: Path, faces: int) -> list[Path]:
    """Files for the faces of one image: STEM.pts, STEM~2.pts, STEM~3.pts, ..."""
    ends = ["", *(f"~{number}" for number in range(2, faces + 1))]
    return [stem.with_name(f"{stem.name}{end}.pts") for end in ends[:faces]]


def write_pts_files(stem: Path, faces: Faces) -> None:
    """One `.pts` for each face, under the names of `pts_paths`."""
    for path, face in zip(pts_paths(stem, len(faces)), faces, strict=True):
        visible = face.visible() if face.visibility_trained else np.full(len(face), True)
        classes = np.where(visible, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED)
        write_pts(path, face.points, classes)


_WRITERS: dict[str, Any] = {
    "json": JsonWriter,
    "csv": CsvWriter,
    "coco": CocoWriter,
    "parquet": ParquetWriter,
}
