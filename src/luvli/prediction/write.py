"""Result files, written face by face, so that a million of them need no more memory than one.

json, csv and coco are the formats of `luvli.data.formats` and are read by the same readers;
parquet has one row for each face, image without a face and failure; pts has one file for each face.
"""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from luvli.data.formats import write_coco, write_csv, write_pts
from luvli.data.formats.common import image_cell, write_rows
from luvli.data.formats.parquet import face_schema
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import LossWarning, require, unknown_choice
from luvli.faces import FaceLandmarks
from luvli.files import NOT_UTF8, PathLike, utf8, whole_file
from luvli.prediction.result import Result

Format = Literal["json", "csv", "parquet", "pts", "coco"]
FORMATS: tuple[str, ...] = get_args(Format)
SUFFIXES = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "coco": ".json"}

PART = 1000
"""faces that are turned into a format's text at a time"""


def check_format(name: str) -> None:
    """Refuse an unknown format, or one whose package is missing, before the work begins."""
    if name not in FORMATS:
        raise unknown_choice("format", name, FORMATS)
    if name == "parquet":
        require("pyarrow", "scale")


def write_results(
    path: PathLike,
    results: Iterable[Result],
    format: str,
    failed: Iterable[tuple[str, str]] = (),
) -> None:
    """Write all faces to one file, whole or not at all. `format` is any but pts.

    `failed`: names of images that could not be read, and why; parquet has rows for them.
    """
    check_format(format)
    with whole_file(path) as temporary:
        if format == "parquet":
            _write_parquet(temporary, results, failed)
        else:
            _WRITERS[format](temporary, results)


def pts_paths(stem: Path, faces: int) -> list[Path]:
    """Files for the faces of one image: STEM.pts, STEM~2.pts, STEM~3.pts, ..."""
    ends = ["", *(f"~{number}" for number in range(2, faces + 1))]
    return [stem.with_name(f"{stem.name}{end}.pts") for end in ends[:faces]]


def write_pts_files(stem: Path, result: Result) -> list[Path]:
    """One `.pts` for each face, under the names of `pts_paths`."""
    paths = pts_paths(stem, len(result.faces))
    for path, face in zip(paths, result.faces, strict=True):
        visible = face.visible() if face.visibility_trained else np.full(len(face), True)
        classes = np.where(visible, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED)
        write_pts(path, face.points, classes)
    return paths


def record(face: FaceLandmarks, result: Result, track: int | None) -> FaceRecord:
    """A predicted face as a labelled one; frame, time, track and trust become attributes."""
    about = {
        "frame": result.frame,
        "time": result.time,
        "track": track,
        "confidence": face.confidence,
        "expected_error": face.expected_error,
        "accepted": face.accepted,
        "likelihood": None if face.likelihood == "laplace" else face.likelihood,
    }
    attributes = {name: value for name, value in about.items() if value is not None}
    if face.occlusion_trained:
        attributes["occlusion"] = face.occlusion.tolist()
    return FaceRecord.from_landmarks(face, Path(result.image), attributes=attributes)


def _records(results: Iterable[Result]) -> Iterator[tuple[FaceRecord, FaceLandmarks]]:
    for result in results:
        tracks: tuple[int | None, ...] = result.tracks or (None,) * len(result.faces)
        for face, track in zip(result.faces, tracks, strict=True):
            yield record(face, result, track), face


def _parts(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while part := list(islice(iterator, PART)):
        yield part


def write_json_lines(path: PathLike, lines: Iterable[bytes], failed: Iterable[str] = ()) -> None:
    """The file of format json from lines of `Result.to_line`, whose faces are copied as text.

    Images without a face are listed, and the sentences about those that `failed`.
    """
    with whole_file(path) as temporary:
        _write_json_lines(temporary, lines, failed)


def _write_json_lines(path: Path, lines: Iterable[bytes], failed: Iterable[str] = ()) -> None:
    without: list[str] = []
    with path.open("wb") as stream:
        stream.write(b'{"format":"luvli-faces","version":1,"faces":[')
        separator = b"\n "
        for line in lines:
            if rows := Result.faces_text(line):
                stream.write(separator + rows)
                separator = b",\n "
            elif b'"frame":null' in line:  # every frame of a video need not have a face
                without.append(json.loads(line)["image"])
        rest = {"without_face": without, "failed": list(failed)}
        told = {name: values for name, values in rest.items() if values}
        stream.write(b"\n]" + (b"," + json.dumps(told).encode()[1:-1] if told else b"") + b"}\n")


def _write_json(path: Path, results: Iterable[Result]) -> None:
    _write_json_lines(path, (result.to_line().encode() for result in results))


def _write_csv(path: Path, results: Iterable[Result]) -> None:
    """`write_csv` part by part; the first part's header serves all. An image without a face has
    a row with its name and nothing else."""
    piece = path.with_name(f"{path.stem}-part.csv")
    empty = True
    without: list[str] = []

    def noted() -> Iterator[Result]:
        for result in results:
            if not result.faces and result.frame is None:
                without.append(result.image)
            yield result

    with path.open("w", encoding="utf-8", errors=NOT_UTF8, newline="") as stream:
        try:
            for part in _parts(_records(noted())):
                records, faces = zip(*part, strict=True)
                write_csv(piece, records, [face.points for face in faces])
                with piece.open(encoding="utf-8", newline="") as lines:
                    if not empty:
                        next(lines)
                    stream.writelines(lines)
                empty = False
            if empty:
                write_csv(piece, [])
                stream.write(piece.read_text(encoding="utf-8"))
            with piece.open(encoding="utf-8", newline="") as lines:
                columns = len(next(csv.reader(lines)))
            rows = (
                [image_cell(name), *[""] * (columns - 1)] for name in without
            )  # image comes first
            write_rows(stream, rows)
        finally:
            piece.unlink(missing_ok=True)


def _write_coco(path: Path, results: Iterable[Result]) -> None:
    """`write_coco` part by part, with running numbers; the list of images comes last."""
    piece = path.with_name(f"{path.stem}-part.json")
    images = path.with_name(f"{path.stem}-images.json")
    categories: list[Any] = []
    image, number, last = 0, 0, None
    try:
        with (
            path.open("w", encoding="utf-8") as stream,
            images.open("w+", encoding="utf-8") as names,
        ):
            stream.write('{"annotations":[')
            for part in _parts(_records(results)):
                records, faces = zip(*part, strict=True)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", LossWarning)  # the command says it once
                    write_coco(piece, records, [face.points for face in faces])
                data = json.loads(piece.read_text(encoding="utf-8"))
                categories = categories or data["categories"]
                by_id = {entry["id"]: entry for entry in data["images"]}
                for annotation in data["annotations"]:
                    about = by_id[annotation["image_id"]]
                    if about["file_name"] != last:
                        last, image = about["file_name"], image + 1
                        entry = json.dumps({**about, "id": image})
                        names.write(f"{',' if image > 1 else ''}\n {entry}")
                    number += 1
                    annotation |= {"id": number, "image_id": image}
                    stream.write(f"{',' if number > 1 else ''}\n {json.dumps(annotation)}")
            stream.write(f'\n],"categories":{json.dumps(categories)},"images":[')
            names.seek(0)
            stream.writelines(names)
            stream.write("\n]}\n")
    finally:
        piece.unlink(missing_ok=True)
        images.unlink(missing_ok=True)


_FLAT = ("box", "points", "covariance", "visibility", "occlusion")


def result_rows(result: Result) -> list[dict[str, Any]]:
    """One row of `face_schema` for each face; one without a face where there is none."""
    rows = [
        row
        | {"status": "face"}
        | {
            name: np.asarray(row[name], dtype=np.float64).ravel()
            for name in _FLAT
            if row.get(name) is not None
        }
        for row in result.rows()
    ]
    about = {"image": result.image, "frame": result.frame, "time": result.time}
    return rows or [about | {"status": "no face"}]


def row_table(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows of `face_schema` as a pyarrow table; what a row lacks is null."""
    arrow = require("pyarrow", "scale")
    schema = face_schema()
    columns = {name: [row.get(name) for row in rows] for name in schema.names}
    for name in ("image", "error"):  # names of files need not be words
        columns[name] = [None if text is None else utf8(text) for text in columns[name]]
    return arrow.table(columns, schema=schema)


def _write_parquet(
    path: Path, results: Iterable[Result], failed: Iterable[tuple[str, str]]
) -> None:
    parquet = require("pyarrow.parquet", "scale")
    rows = chain(
        (row for result in results for row in result_rows(result)),
        ({"image": name, "status": "failed", "error": why} for name, why in failed),
    )
    with parquet.ParquetWriter(path, face_schema(), compression="zstd") as writer:
        for part in _parts(rows):
            writer.write_table(row_table(part))


_WRITERS: dict[str, Callable[[Path, Iterable[Result]], None]] = {
    "json": _write_json,
    "csv": _write_csv,
    "coco": _write_coco,
}
