"""Triage of predictions in Parquet, file by file: memory does not grow with their number.

The files are written again with `accepted` for every face; everything else about the run (least
confident faces for the sheet, a sample for the alarm about other faces) is of fixed size.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from luvli.data.formats.parquet import face_files
from luvli.errors import InputError, require
from luvli.faces import FaceLandmarks
from luvli.files import PathLike, whole_file
from luvli.network.trust_tables import TrustTables
from luvli.trust.even_sample import EvenSample
from luvli.trust.triage_report import SHOWN, PredictedFace, judge

SAMPLE = 20_000
"""faces, evenly from all, that are compared with the calibration faces"""
ROWS = 1000
"""rows in memory at a time"""


@dataclass
class JudgedFiles:
    """What came of it."""

    faces: int = 0
    accepted: int = 0
    rejected: list[PredictedFace] = field(default_factory=list)
    """the least confident ones, for the sheet"""
    sample: list[PredictedFace] = field(default_factory=list)
    """of all faces: every n-th, at most `SAMPLE`"""
    files: int = 0


def is_parquet(path: Path) -> bool:
    """Whether results are a Parquet file or a folder of them."""
    return path.is_dir() or path.suffix.lower() == ".parquet"


def judge_parquet(
    source: PathLike, out: Path, trust: TrustTables, accept_from: float
) -> JudgedFiles:
    """Write the files of `source` to `out` with every face accepted or not.

    Rows without a face stay as they are.
    """
    parquet = require("pyarrow.parquet", "scale")
    found = JudgedFiles()
    sampler = EvenSample[PredictedFace](SAMPLE)
    found.sample = sampler.kept
    worst: list[tuple[float, int, PredictedFace]] = []
    files = face_files(source)
    root = Path(source) if Path(source).is_dir() else files[0].parent
    for file in files:
        with (
            whole_file(out / file.relative_to(root)) as temporary,
            _opened(file) as content,
            parquet.ParquetWriter(temporary, content.schema_arrow, compression="zstd") as writer,
        ):
            for batch in content.iter_batches(ROWS):
                table, faces = _judged(batch, file, trust, accept_from)
                writer.write_table(table)
                for item in faces:
                    found.faces += 1
                    found.accepted += bool(item.face.accepted)
                    sampler.add(item)
                    if not item.face.accepted:
                        _keep(worst, item, found.faces)
        found.files += 1
    found.rejected = [item for _, _, item in sorted(worst, key=lambda w: (-w[0], w[1]))]
    return found


def _keep(worst: list[tuple[float, int, PredictedFace]], item: PredictedFace, number: int) -> None:
    """The least confident so far; twice as many as are shown, because images may be gone."""
    entry = (-(item.face.confidence or 0.0), -number, item)
    if len(worst) < 2 * SHOWN:
        heapq.heappush(worst, entry)
    elif entry[:2] > worst[0][:2]:
        heapq.heapreplace(worst, entry)


def _opened(file: Path) -> Any:
    parquet = require("pyarrow.parquet", "scale")
    try:
        content = parquet.ParquetFile(file)
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise InputError(
            f"{file} is not a readable parquet file ({type(error).__name__}): write it again."
        ) from error
    missing = {"points", "covariance", "visibility", "box", "accepted"} - set(
        content.schema_arrow.names
    )
    if missing:
        raise InputError(
            f"{file} has no column {sorted(missing)[0]!r}: give results of luvli predict."
        )
    return content


def _judged(
    batch: Any, file: Path, trust: TrustTables, accept_from: float
) -> tuple[Any, list[PredictedFace]]:
    arrow = require("pyarrow", "scale")
    table = arrow.Table.from_batches([batch])
    rows = table.to_pylist()
    try:
        known = [i for i, row in enumerate(rows) if row.get("status") in (None, "face")]
        items = [PredictedFace(face_of_row(rows[i]), str(rows[i].get("image")), {}) for i in known]
    except (ValueError, TypeError) as error:
        raise InputError(f"{file} holds a face that is none ({error}): write it again.") from error
    judged = judge(items, trust, accept_from)
    for column in ("accepted", "confidence", "expected_error"):
        values = [row.get(column) for row in rows]
        for i, item in zip(known, judged, strict=True):
            values[i] = getattr(item.face, column)
        if column in table.column_names:
            made = table.schema.field(column)
            place = table.column_names.index(column)
            table = table.set_column(place, made, arrow.array(values, made.type))
    return table, judged


def face_of_row(row: dict[str, Any]) -> FaceLandmarks:
    """A row of `face_schema` as a face."""
    shapes = {"points": (-1, 2), "covariance": (-1, 2, 2), "visibility": (-1,), "box": (4,)}
    arrays = {name: np.reshape(row[name], shape) for name, shape in shapes.items()}
    plain = {k: v for k, v in row.items() if v is not None and k not in shapes}
    return FaceLandmarks.from_dict(plain | arrays)
