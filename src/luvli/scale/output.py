"""The Parquet file of one part: rows of faces, of images without one, and of failures."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

from luvli.data.formats.parquet import face_schema
from luvli.errors import InputError, require
from luvli.prediction.result import Result
from luvli.prediction.write import result_rows, row_table
from luvli.scale.parquet_source import carried_columns
from luvli.scale.parts import Part
from luvli.scale.places import join, open_place, steadily, write_whole

COUNTS = b"luvli.counts"
"""metadata of a part's file: what is in it, so that a check reads its end alone"""
CARRIED = "source_"
"""before the name of a carried column that has the name of one of ours"""


@dataclass
class PartCounts:
    """What came of one part."""

    images: int = 0
    """rows that came in: images, or frames of a video"""
    faces: int = 0
    without_face: int = 0
    failed: int = 0
    filtered: int = 0
    """faces left out as unsure"""
    accepted: int = 0
    for_review: int = 0
    errors: list[str] = field(default_factory=list)
    """one sentence for each failure"""
    seconds: dict[str, float] = field(default_factory=dict)
    """by stage"""

    def add(self, other: PartCounts) -> None:
        """Sum up, but for the sentences."""
        for name in ("images", "faces", "without_face", "failed", "filtered", "accepted",
                     "for_review"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for stage, spent in other.seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent


@dataclass
class PredictedPart:
    """A part after the network: each image's result, or the reason why there is none."""

    part: Part
    results: list[Result | str]
    """a sentence in place of each image that failed"""
    names: list[str]
    filtered: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def write_part(target: str, done: PredictedPart) -> PartCounts:
    """Write the part's file, whole, and tell what is in it."""
    parquet = require("pyarrow.parquet", "scale")
    counts = _counts(done)
    table = _table(done)
    about = json.dumps({k: v for k, v in vars(counts).items() if k not in ("errors", "seconds")})
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), COUNTS: about})
    content = io.BytesIO()
    parquet.write_table(table, content, compression="zstd")
    write_whole(join(target, done.part.output), content.getvalue())
    return counts


def _counts(done: PredictedPart) -> PartCounts:
    counts = PartCounts(filtered=done.filtered, seconds=done.seconds)
    missing = 0
    for result in done.results:
        if isinstance(result, str):
            counts.failed += 1
            counts.errors.append(result)
            continue
        missing += not result.faces
        counts.faces += len(result.faces)
        verdicts = [face.accepted for face in result.faces]
        counts.accepted += verdicts.count(True)
        counts.for_review += verdicts.count(False)
    counts.without_face = missing
    counts.images = len(done.results)
    return counts


def _table(done: PredictedPart) -> Any:
    rows: list[dict[str, Any]] = []
    origin: list[int] = []
    for index, (result, name) in enumerate(zip(done.results, done.names, strict=True)):
        if isinstance(result, str):
            new = [{"image": name, "status": "failed", "error": result}]
        else:
            new = result_rows(result)
        rows += new
        origin += [index] * len(new)
    table = row_table(rows)
    if done.part.kind != "parquet":
        return table
    arrow = require("pyarrow", "scale")
    carried = carried_columns(done.part).take(arrow.array(origin, arrow.int64()))
    ours = set(face_schema().names)
    for name in carried.column_names:
        table = table.append_column(f"{CARRIED}{name}" if name in ours else name, carried[name])
    return table


def read_counts(target: str, part: Part) -> PartCounts:
    """What a finished part says about itself, its failures by their sentences."""
    parquet = require("pyarrow.parquet", "scale")
    place = join(target, part.output)
    files, path = open_place(place)
    try:
        with steadily(lambda: parquet.ParquetFile(path, filesystem=files), place) as file:
            counts = PartCounts(**json.loads(file.schema_arrow.metadata[COUNTS]))
            if counts.failed:
                table = file.read(columns=["status", "error"])
                pairs = zip(table["status"].to_pylist(), table["error"].to_pylist(), strict=True)
                counts.errors = [error for status, error in pairs if status == "failed"]
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise InputError(
            f"{place} is damaged ({type(error).__name__}): delete it and give the same command."
        ) from error
    return counts
