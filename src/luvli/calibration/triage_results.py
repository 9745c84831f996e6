"""Triage of the results of `luvli predict`, batch by batch: memory does not grow with their number.

The results are written again with `accepted` for every face: faces.json and triage.csv, or the
Parquet files. The least confident faces, for the contact sheet, and a sample, for the shift alarm,
are of fixed size.
"""

from __future__ import annotations

import csv
import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.calibration.sampling import EvenSample
from luvli.data.formats.parquet import face_files
from luvli.data.formats.tables import image_cell
from luvli.drawing.faces import draw_faces
from luvli.drawing.sheet import captioned, contact_sheet
from luvli.errors import InputError, brief, require
from luvli.face_landmarks import confidence_text
from luvli.faces import FaceLandmarks, Faces
from luvli.files import NOT_UTF8, PathLike, read_text, whole_file, write_text
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray, read_image
from luvli.image.write import write_image
from luvli.trust.triage import Threshold, TriageTable
from luvli.trust.trust import Trust

SAMPLE = 20_000
"""faces, evenly from all, that are compared with the calibration faces"""
ROWS = 1000
"""rows of Parquet in memory at a time"""
SHOWN = 48
"""faces on the contact sheet"""
CELL, COLUMNS = 180, 6


class Rejected(NamedTuple):
    """A face that the triage does not accept."""

    face: FaceLandmarks
    image: str


@dataclass
class TriageSummary:
    """Counts, and what the report shows."""

    faces: int = 0
    accepted: int = 0
    sample: EvenSample[Faces] = field(default_factory=lambda: EvenSample[Faces](SAMPLE))
    written: list[Path] = field(default_factory=list)
    _worst: list[tuple[float, int, Rejected]] = field(default_factory=list)

    def add(self, faces: Faces, images: list[str]) -> None:
        """Count a batch of assessed faces."""
        assert faces.accepted is not None
        self.sample.add(faces)
        for i in np.flatnonzero(~faces.accepted).tolist():
            entry = (-float(faces.confidence[i]), -(self.faces + i))
            item = (*entry, Rejected(faces[i], images[i]))
            if len(self._worst) < 2 * SHOWN:  # twice as many as are shown: images may be gone
                heapq.heappush(self._worst, item)
            elif entry > self._worst[0][:2]:
                heapq.heapreplace(self._worst, item)
        self.faces += len(faces)
        self.accepted += int(faces.accepted.sum())

    @property
    def share(self) -> float:
        """of accepted faces"""
        return self.accepted / max(self.faces, 1)

    @property
    def rejected(self) -> list[Rejected]:
        """The least confident ones first."""
        ordered = sorted(self._worst, key=lambda item: item[:2], reverse=True)
        return [item for _, _, item in ordered]

    def sampled(self) -> Faces:
        """Faces for the shift alarm."""
        return Faces.concatenate(self.sample.batches) if self.faces else Faces.empty("ibug68")


def triage_results(source: PathLike, out: Path, trust: Trust, threshold: float) -> TriageSummary:
    """Write the results `source` to the folder `out` with every face accepted or not."""
    path = Path(source)
    summary = TriageSummary()
    if path.is_dir() or path.suffix.lower() == ".parquet":
        files = face_files(path)
        root = path if path.is_dir() else files[0].parent
        for file in files:
            _triage_parquet(file, out / "faces" / file.relative_to(root), trust, threshold, summary)
        summary.written.append(out / "faces")
    else:
        _triage_json(path, out, trust, threshold, summary)
    return summary


def _assess(faces: Faces, trust: Trust, threshold: float) -> Faces:
    """Every face accepted or not; a confidence that is missing is computed, if possible."""
    missing = np.isnan(faces.confidence)
    if missing.any():
        if trust.failure_model is None:
            raise InputError(
                "the faces have no confidence: predict them again with a calibrated model, "
                "or name it with --model."
            )
        confidence, expected = trust.failure_model(faces)
        faces = replace(
            faces,
            confidence=np.where(missing, confidence, faces.confidence),
            expected_error=np.where(missing, expected, faces.expected_error),
        )
    return replace(faces, accepted=faces.confidence >= threshold)


def _triage_json(
    path: Path, out: Path, trust: Trust, threshold: float, summary: TriageSummary
) -> None:
    rows = read_faces_json(path)
    faces = _assess(Faces.from_dicts(rows), trust, threshold)
    images = [str(row.get("image", "")) for row in rows]
    summary.add(faces, images)
    summary.written += [out / "triage.csv", out / "faces.json"]
    _write_table(summary.written[0], faces, images)
    accepted = [row | new for row, new in zip(rows, faces.to_dicts(), strict=True)]
    body = ",\n ".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in accepted)
    text = f'{{"format":"luvli-faces","version":1,"faces":[\n {body}\n]}}\n'
    write_text(summary.written[1], text)


def read_faces_json(path: PathLike) -> list[dict[str, Any]]:
    """The rows of `luvli predict --format json`, each a face."""
    try:
        rows: list[dict[str, Any]] = json.loads(read_text(path))["faces"]
        for row in rows:
            FaceLandmarks.from_dict(row)
        json.dumps(rows, allow_nan=False)  # they are written again
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not a file of luvli predict in JSON ({brief(error)}): give faces.json."
        ) from error
    return rows


def _write_table(path: Path, faces: Faces, images: list[str]) -> None:
    """CSV: image, number of the face, confidence, expected error, accepted."""
    assert faces.accepted is not None
    with (
        whole_file(path) as temporary,
        temporary.open("w", encoding="utf-8", errors=NOT_UTF8, newline="") as stream,
    ):
        lines = csv.writer(stream)
        lines.writerow(["image", "face", "confidence", "expected_error", "accepted"])
        numbers: dict[str, int] = {}
        for i, image in enumerate(images):
            numbers[image] = numbers.get(image, 0) + 1
            error = faces.expected_error[i]
            lines.writerow(
                [
                    image_cell(image),
                    numbers[image],
                    f"{faces.confidence[i]:.4f}",
                    "" if np.isnan(error) else f"{error:.3f}",
                    int(faces.accepted[i]),
                ]
            )


def _triage_parquet(
    file: Path, target: Path, trust: Trust, threshold: float, summary: TriageSummary
) -> None:
    """One file again with `accepted`; rows without a face stay as they are."""
    parquet = require("pyarrow.parquet", "scale")
    with (
        whole_file(target) as temporary,
        open_parquet(file, ("points", "covariance", "visibility", "box", "accepted")) as content,
        parquet.ParquetWriter(temporary, content.schema_arrow, compression="zstd") as writer,
    ):
        for batch in content.iter_batches(ROWS):
            writer.write_table(_assessed_table(batch, file, trust, threshold, summary))


def _assessed_table(
    batch: Any, file: Path, trust: Trust, threshold: float, summary: TriageSummary
) -> Any:
    arrow = require("pyarrow", "scale")
    table = arrow.Table.from_batches([batch])
    rows = table.to_pylist()
    places = [i for i, row in enumerate(rows) if row.get("status") in (None, "face")]
    if not places:
        return table
    try:
        faces = Faces.stack([face_of_row(rows[i]) for i in places])
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{file} holds a row that is no face ({error}): write it again."
        ) from error
    faces = _assess(faces, trust, threshold)
    summary.add(faces, [str(rows[i].get("image")) for i in places])
    for name in ("accepted", "confidence", "expected_error"):
        if name in table.column_names:
            values = [row.get(name) for row in rows]
            for i, value in zip(places, getattr(faces, name).tolist(), strict=True):
                values[i] = None if value != value else value  # NaN: not estimated
            column = table.schema.field(name)
            place = table.column_names.index(name)
            table = table.set_column(place, column, arrow.array(values, column.type))
    return table


def open_parquet(file: Path, columns: tuple[str, ...]) -> Any:
    """A Parquet file with these columns."""
    parquet = require("pyarrow.parquet", "scale")
    try:
        content = parquet.ParquetFile(file)
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise InputError(
            f"{file} is not a readable Parquet file ({type(error).__name__}): write it again."
        ) from error
    missing = set(columns) - set(content.schema_arrow.names)
    if missing:
        raise InputError(
            f"{file} has no column {sorted(missing)[0]!r}: give results of luvli predict."
        )
    return content


def face_of_row(row: dict[str, Any]) -> FaceLandmarks:
    """A row of `luvli.data.formats.parquet.face_schema` as a face."""
    shapes = {"points": (-1, 2), "covariance": (-1, 2, 2), "visibility": (-1,), "box": (4,)}
    arrays = {name: np.reshape(row[name], shape) for name, shape in shapes.items()}
    plain = {k: v for k, v in row.items() if v is not None and k not in shapes}
    return FaceLandmarks.from_dict(plain | arrays)


# -- pictures ---------------------------------------------------------------------------------


def write_pictures(
    out: Path,
    summary: TriageSummary,
    table: TriageTable,
    chosen: Threshold,
    max_failure_rate: float,
) -> list[Path]:
    """The sheet of rejected faces and the risk-coverage curve, where they can be drawn."""
    written: list[Path] = []
    cells = [cell for _, cell in zip(range(SHOWN), _cells(summary.rejected), strict=False)]
    if cells:
        written.append(out / "rejected.jpg")
        write_image(written[-1], contact_sheet(cells, COLUMNS, background=(40, 40, 40)))
    try:
        figures = require("matplotlib.figure", "evaluate")
    except InputError:
        return written  # the command prints the numbers
    accepted, bound = risk_curve(table, summary.sampled().confidence)
    figure = figures.Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(100 * accepted, 100 * bound, color="#2878ff", label="failures: at most, 95 % sure")
    axes.axhline(100 * max_failure_rate, color="#e62828", lw=1, ls="--",
                 label=f"the promise: {max_failure_rate:.0%}")  # fmt: skip
    axes.plot(100 * summary.share, 100 * chosen.bound, "o", color="#2878ff",
              label=f"accepted here: {summary.share:.0%} of {summary.faces:,}")  # fmt: skip
    axes.set(xlabel="accepted of these faces, %", ylabel="failed among the accepted, %")
    axes.set(xlim=(0, 102), ylim=(0, 100 * min(1.0, 3 * max_failure_rate)))
    axes.legend(frameon=False, loc="upper left")
    written.append(out / "risk-coverage.png")
    with whole_file(written[-1]) as temporary:
        figure.savefig(temporary, dpi=130)
    return written


def _cells(rejected: list[Rejected]) -> Iterator[ImageArray]:
    """Faces drawn on their images; those whose image is gone are left out."""
    for face, source in rejected:
        if face.is_empty:
            continue
        try:
            image = read_image(source)
        except InputError:
            continue
        crop = Crop.from_box(Box(*face.box), CELL, 1.6)
        shown = replace(face.transform(crop.affine), accepted=None, confidence=None)
        yield captioned(draw_faces(crop.warp(image), [shown]), confidence_text(face.confidence))


def risk_curve(table: TriageTable, confidence: Floats) -> tuple[Floats, Floats]:
    """By threshold, from the one with the smallest bound down: the share of faces with confidences
    (n,) that it accepts, and the bound of their failure rate. Above that threshold the calibration
    faces are too few to promise as much."""
    bound = np.array(table.upper_bound)
    lower = slice(int(bound.argmin()), None)
    thresholds = np.array(table.thresholds)[lower]
    return (confidence[None] >= thresholds[:, None]).mean(axis=1), bound[lower]
