"""What 8-bit weights cost, measured on labelled faces."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luvli.calibration.covariance import coverage_by_level
from luvli.calibration.measure import label_radii
from luvli.data.sets import load_set
from luvli.errors import InputError
from luvli.evaluation.accuracy import mean_nme
from luvli.evaluation.evaluate_model import predict_records
from luvli.files import PathLike
from luvli.prediction.predictor import load


def quantization_cost(
    model: Path, quantized: PathLike, folder: PathLike
) -> tuple[str, list[list[str]]]:
    """A title, and rows of name, value with 32 bits, value with 8 bits, on every labelled face of a
    folder, as the detector finds it, or cropped by its label."""
    records = list(load_set("folder", folder, "all", skip_bad=True))
    if not records:
        raise InputError(f"{folder} has no labelled faces: put .pts files beside the images.")
    full, small = (
        predict_records(predictor, records, "detector-or-tight")
        for predictor in (load(model, "torch"), load(quantized))
    )
    errors = [mean_nme(faces.nme("interocular", "visible")) for faces in (full, small)]
    shares = [coverage_by_level(label_radii(faces), full.likelihood) for faces in (full, small)]
    moved = np.linalg.norm(full.points - small.points, axis=-1).mean()
    rows = [["NME, outer eye corners, %", *(f"{error:.2f}" for error in errors)]]
    rows += [
        [f"coverage at {float(level):.0%}", *(f"{share[level]:.1%}" for share in shares)]
        for level in shares[0]
    ]
    rows.append(["mean move of a landmark, px", "", f"{moved:.2f}"])
    return f"cost of 8 bits on {len(records)} faces", rows
