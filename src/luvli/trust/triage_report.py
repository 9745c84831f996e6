"""Triage of predictions that are in a file: table, risk-coverage curve, sheet of the rejected."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.data.formats.common import image_cell
from luvli.drawing.faces import draw_face
from luvli.drawing.sheet import captioned, contact_sheet
from luvli.errors import InputError, brief, require
from luvli.faces import FaceLandmarks, Faces
from luvli.files import NOT_UTF8, PathLike, read_text, whole_file, write_text
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray, read_image
from luvli.image.write import write_image
from luvli.network.face_features import FEATURE_COLUMNS, feature_table
from luvli.network.trust_tables import TriageTable, TrustTables
from luvli.trust.shift import Shift, find_shift

CELL, COLUMNS = 180, 6
"""pixels of one face on the sheet, and faces in a row"""
SHOWN = 48


@dataclass(frozen=True)
class PredictedFace:
    """A face of a results file, with the image that it was found in."""

    face: FaceLandmarks
    image: str
    row: dict[str, Any]
    """everything that the file says about it"""


def read_predicted_faces(path: PathLike) -> list[PredictedFace]:
    """The faces of `luvli predict --format json`."""
    try:
        content = json.loads(read_text(path))
        rows = content["faces"]
        faces = [FaceLandmarks.from_dict(row) for row in rows]
        json.dumps(rows, allow_nan=False)  # they are written again
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not a file of luvli predict in JSON ({brief(error)}): give faces.json."
        ) from error
    return [
        PredictedFace(face, str(row.get("image", "")), row)
        for face, row in zip(faces, rows, strict=True)
    ]


def judge(
    predictions: Sequence[PredictedFace], trust: TrustTables | None, accept_from: float
) -> list[PredictedFace]:
    """Every face accepted or not; a confidence that is missing is computed, if it can be."""
    judged = []
    for item in predictions:
        face = item.face
        if face.confidence is None:
            if trust is None or trust.confidence is None:
                raise InputError(
                    "the faces have no confidence: predict them again with a calibrated model, "
                    "or name it with --model."
                )
            face = trust.assess(Faces.stack([face]))[0]
        assert face.confidence is not None
        face = replace(face, accepted=face.confidence >= accept_from)
        judged.append(replace(item, face=face))
    return judged


def shift_of(predictions: Sequence[PredictedFace], trust: TrustTables) -> Shift | None:
    """Whether these faces look like the calibration's; None where the model cannot tell."""
    if trust.shift is None or trust.confidence is None or not predictions:
        return None
    table = feature_table([item.face for item in predictions], trust.confidence.shape)
    return find_shift(trust.shift, {name: table[:, i] for i, name in enumerate(FEATURE_COLUMNS)})


def write_table(path: PathLike, predictions: Sequence[PredictedFace]) -> None:
    """CSV: image, number of the face, confidence, expected error, accepted."""
    with (
        whole_file(path) as temporary,
        temporary.open("w", encoding="utf-8", errors=NOT_UTF8, newline="") as stream,
    ):
        lines = csv.writer(stream)
        lines.writerow(["image", "face", "confidence", "expected_error", "accepted"])
        numbers: dict[str, int] = {}
        for item in predictions:
            numbers[item.image] = numbers.get(item.image, 0) + 1
            face = item.face
            error = "" if face.expected_error is None else f"{face.expected_error:.3f}"
            lines.writerow([image_cell(item.image), numbers[item.image], f"{face.confidence:.4f}",
                            error, int(bool(face.accepted))])  # fmt: skip


def write_judged(path: PathLike, predictions: Sequence[PredictedFace]) -> None:
    """The results file again, with `accepted` for every face."""
    rows = [item.row | item.face.to_dict() for item in predictions]
    body = ",\n ".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in rows)
    write_text(path, f'{{"format":"luvli-faces","version":1,"faces":[\n {body}\n]}}\n')


def rejected_sheet(predictions: Sequence[PredictedFace], count: int = SHOWN) -> ImageArray | None:
    """The least confident of the rejected faces, drawn; None where no image is at hand."""
    left = sorted(
        (item for item in predictions if not item.face.accepted and not item.face.is_empty),
        key=lambda item: item.face.confidence or 0.0,
    )
    cells: list[ImageArray] = []
    for item in left:
        if len(cells) == count:
            break
        try:
            image = read_image(item.image)
        except InputError:
            continue  # moved or gone: the table has it
        crop = Crop.from_box(Box(*item.face.box), CELL, 1.6)
        face = replace(item.face.transform(crop.affine), accepted=None, confidence=None)
        cells.append(
            captioned(draw_face(crop.warp(image), face), f"{item.face.confidence:.2f}", height=20)
        )
    return contact_sheet(cells, COLUMNS, background=(40, 40, 40)) if cells else None


def curve(table: TriageTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of accepted calibration faces and failure rate among them, by threshold."""
    accepted = np.array(table.accepted, dtype=np.float64)
    used = accepted > 0
    return accepted[used] / table.faces, np.array(table.failed)[used] / accepted[used]


def write_triage_report(
    out: Path, predictions: Sequence[PredictedFace], table: TriageTable, rate: float, share: float
) -> list[Path]:
    """Everything that `luvli triage` leaves in a folder."""
    written = [out / "triage.csv", out / "faces.json"]
    write_table(written[0], predictions)
    write_judged(written[1], predictions)
    return written + write_pictures(out, predictions, table, rate, share)


def write_pictures(
    out: Path, predictions: Sequence[PredictedFace], table: TriageTable, rate: float, share: float
) -> list[Path]:
    """The sheet of rejected faces and the curve, where they can be drawn."""
    written: list[Path] = []
    sheet = rejected_sheet(predictions)
    if sheet is not None:
        written.append(out / "rejected.jpg")
        write_image(written[-1], sheet)
    try:
        figure = _figure(table, rate, share)
    except InputError:
        return written  # no matplotlib: the curve's numbers are in the model
    written.append(out / "risk-coverage.png")
    with whole_file(written[-1]) as temporary:
        figure.savefig(temporary, dpi=130)
    return written


def _figure(table: TriageTable, rate: float, share: float) -> Any:
    figures = require("matplotlib.figure", "evaluate")
    figure = figures.Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    x, y = curve(table)
    axes.plot(100 * x, 100 * y, color="#2878ff", label="calibration faces")
    axes.axhline(100 * rate, color="#e62828", lw=1, ls="--", label=f"at most {rate:.1%}")
    axes.axvline(100 * share, color="#555555", lw=1, ls=":", label="accepted here")
    axes.set(xlabel="accepted, %", ylabel="failed among the accepted, %", xlim=(0, 100))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure
