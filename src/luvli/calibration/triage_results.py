"""Triage of the results of `luvli predict`, batch by batch: memory does not grow with their number.

The results are written again with `accepted` for every face: faces.json and triage.csv, or the
Parquet files. The least confident faces, for the contact sheet, and a sample, for the shift alarm,
are of fixed size.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.parquet import face_files, parquet_tables
from luvli.data.formats.tables import image_cell, write_rows
from luvli.drawing.faces import draw_tile
from luvli.drawing.sheet import captioned, contact_sheet
from luvli.errors import InputError, brief, require
from luvli.evaluation.labelled_parquet import faces_of_rows
from luvli.evaluation.plot_style import BLUE, RED, new_figure
from luvli.face_landmarks import confidence_text
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike, read_text, whole_file, write_text
from luvli.image.read import ImageArray, read_image
from luvli.image.write import write_image
from luvli.prediction.writers import text_file
from luvli.trust.triage import Threshold, TriageTable
from luvli.trust.trust import Trust

SAMPLE = 20_000
"""faces, evenly from all, that are compared with the calibration faces"""
SHOWN = 48
"""faces on the contact sheet"""
CELL, COLUMNS = 180, 6
NEEDED = ("points", "covariance", "visibility", "box", "accepted")
"""columns of Parquet that a triage takes"""
_Row = dict[str, Any]


@dataclass
class Triage:
    """Accepts faces, batch by batch, from a confidence on; counts them, and keeps what the report
    shows."""

    trust: Trust
    threshold: float
    every: int = 1
    """one face in so many is in the sample"""
    faces: int = 0
    accepted: int = 0
    rejected: list[tuple[FaceLandmarks, str]] = field(default_factory=list)
    """the least confident ones first, each with its image; twice as many as are shown, for images
    may be gone"""
    sample: list[Faces] = field(default_factory=list)
    """for the shift alarm"""
    written: list[Path] = field(default_factory=list)

    def add(self, rows: list[_Row], file: Path) -> None:
        """Write confidence, expected error and `accepted` into a batch of results."""
        if not rows:
            return
        faces = assess(faces_of_rows(rows, file), self.trust, self.threshold)
        assert faces.accepted is not None
        values = zip(faces.confidence, faces.expected_error, faces.accepted, strict=True)
        for row, (confidence, error, accepted) in zip(rows, values, strict=True):
            row["confidence"], row["accepted"] = float(confidence), bool(accepted)
            row["expected_error"] = None if np.isnan(error) else float(error)
        self.sample.append(faces[-self.faces % self.every :: self.every])
        rejected = np.flatnonzero(~faces.accepted)
        least = rejected[np.argsort(faces.confidence[rejected], kind="stable")][: 2 * SHOWN]
        self.rejected += [(faces[i], str(rows[i].get("image"))) for i in least.tolist()]
        self.rejected.sort(key=lambda item: item[0].confidence or 0.0)
        del self.rejected[2 * SHOWN :]
        self.faces += len(faces)
        self.accepted += int(faces.accepted.sum())

    @property
    def share(self) -> float:
        """of accepted faces"""
        return self.accepted / max(self.faces, 1)

    def sampled(self) -> Faces:
        """Faces for the shift alarm."""
        return Faces.concatenate(self.sample or [Faces.empty("ibug68")])


def triage_results(source: PathLike, out: Path, trust: Trust, threshold: float) -> Triage:
    """Write the results `source` to the folder `out` with every face accepted or not."""
    path = Path(source)
    triage = Triage(trust, threshold)
    if path.is_dir() or path.suffix.lower() == ".parquet":
        _triage_parquet(path, out / "faces", triage)
    else:
        _triage_json(path, out, triage)
    return triage


def _triage_parquet(path: Path, out: Path, triage: Triage) -> None:
    arrow, parquet = require("pyarrow", "scale"), require("pyarrow.parquet", "scale")
    files = face_files(path)
    for file in files:
        target = out / file.relative_to(path if path.is_dir() else file.parent)
        with whole_file(target) as temporary, ExitStack() as stack:
            writer = None
            for table in parquet_tables(file, NEEDED):
                if writer is None:  # the files can be read
                    made = parquet.ParquetWriter(temporary, table.schema, compression="zstd")
                    writer = stack.enter_context(made)
                    total = sum(parquet.read_metadata(each).num_rows for each in files)
                    triage.every = max(1, total // SAMPLE)
                rows = table.to_pylist()  # those without a face stay as they are
                triage.add([row for row in rows if row.get("status") in (None, "face")], file)
                writer.write_table(arrow.Table.from_pylist(rows, table.schema))
    triage.written.append(out)


def _triage_json(path: Path, out: Path, triage: Triage) -> None:
    try:
        rows: list[_Row] = json.loads(read_text(path))["faces"]
        json.dumps(rows, allow_nan=False)  # they are written again
        images = [str(row.get("image", "")) for row in rows]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not a file of luvli predict in JSON ({brief(error)}): give faces.json."
        ) from error
    triage.every = max(1, len(rows) // SAMPLE)
    triage.add(rows, path)
    triage.written += [out / "triage.csv", out / "faces.json"]
    cells: list[list[Any]] = [["image", "face", "confidence", "expected_error", "accepted"]]
    numbers: Counter[str] = Counter()
    for image, row in zip(images, rows, strict=True):
        numbers[image] += 1
        off = "" if row["expected_error"] is None else f"{row['expected_error']:.3f}"
        confidence, accepted = f"{row['confidence']:.4f}", int(row["accepted"])
        cells.append([image_cell(image), numbers[image], confidence, off, accepted])
    with text_file(triage.written[0]) as stream:
        write_rows(stream, cells)
    body = ",\n ".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in rows)
    head = '{"format":"luvli-faces","version":1,"faces":['
    write_text(triage.written[1], f"{head}\n {body}\n]}}\n")


def assess(faces: Faces, trust: Trust, threshold: float) -> Faces:
    """Every face accepted or not; a confidence that is missing is computed, if possible."""
    missing = np.isnan(faces.confidence)
    if missing.any() and trust.failure_model is None:
        raise InputError(
            "the faces have no confidence: predict them again with a calibrated model, "
            "or name it with --model."
        )
    computed = trust.assess(faces) if missing.any() else faces
    names = ("confidence", "expected_error")
    known = {n: np.where(missing, getattr(computed, n), getattr(faces, n)) for n in names}
    return replace(faces, **known, accepted=known["confidence"] >= threshold)


# -- pictures ---------------------------------------------------------------------------------


def write_pictures(
    out: Path, triage: Triage, table: TriageTable, chosen: Threshold, max_failure_rate: float
) -> list[Path]:
    """The sheet of rejected faces and the risk-coverage curve, where they can be drawn."""
    written: list[Path] = []
    cells = [cell for _, cell in zip(range(SHOWN), _cells(triage.rejected), strict=False)]
    if cells:
        written.append(out / "rejected.jpg")
        write_image(written[-1], contact_sheet(cells, COLUMNS, background=(40, 40, 40)))
    try:
        require("matplotlib", "evaluate")
    except InputError:
        return written  # the command prints the numbers
    accepted, bound = risk_curve(table, triage.sampled().confidence)
    here = f"accepted here: {triage.share:.0%} of {triage.faces:,}"
    promise = f"the promise: {max_failure_rate:.0%}"
    with new_figure() as (figure, (axis,)):
        axis.plot(100 * accepted, 100 * bound, color=BLUE, label="failures: at most, 95 % sure")
        axis.axhline(100 * max_failure_rate, color=RED, linewidth=1, linestyle="--", label=promise)
        axis.plot(100 * triage.share, 100 * chosen.bound, "o", color=BLUE, label=here)
        axis.set(xlabel="accepted of these faces, %", ylabel="failed among the accepted, %")
        axis.set(xlim=(0, 102), ylim=(0, 100 * min(1.0, 3 * max_failure_rate)))
        axis.legend(loc="upper left")
    written.append(out / "risk-coverage.png")
    with whole_file(written[-1]) as temporary:
        figure.savefig(temporary)
    return written


def _cells(rejected: list[tuple[FaceLandmarks, str]]) -> Iterator[ImageArray]:
    """Faces drawn on their images; those whose image is gone are left out."""
    for face, source in rejected:
        if face.is_empty:
            continue
        try:
            image = read_image(source)
        except InputError:
            continue
        yield captioned(draw_tile(image, face, CELL), confidence_text(face.confidence))


def risk_curve(table: TriageTable, confidence: Floats) -> tuple[Floats, Floats]:
    """By threshold, from the one with the smallest bound down: the share of faces with confidences
    (n,) that it accepts, and the bound of their failure rate. Above that threshold the calibration
    faces are too few to promise as much."""
    bound = np.array(table.upper_bound)
    lower = slice(int(bound.argmin()), None)
    thresholds = np.array(table.thresholds)[lower]
    return (confidence[None] >= thresholds[:, None]).mean(axis=1), bound[lower]
