"""What 8-bit weights cost, measured on labelled faces."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.calibration.covariance import coverage
from luvli.data.sets import load_set
from luvli.errors import InputError
from luvli.evaluation.accuracy import mean_nme, nme
from luvli.evaluation.evaluate_model import predict_records
from luvli.evaluation.uncertainty import radii
from luvli.files import PathLike
from luvli.prediction.predictor import Predictor, load


class _Labelled(NamedTuple):
    points: Floats
    covariance: Floats
    labels: Floats
    visible: NDArray[np.bool_]


def quantization_cost(
    model: Path, quantized: PathLike, folder: PathLike
) -> tuple[str, list[list[str]]]:
    """A title, and rows of name, value with 32 bits, value with 8 bits."""
    full, small = load(model, "torch"), load(quantized)
    sides = [_predict(predictor, folder) for predictor in (full, small)]
    markup = full.info.config.markup
    errors = [
        mean_nme(nme(s.points, s.labels, "interocular", s.visible, "visible", markup=markup))
        for s in sides
    ]
    rows = [["NME, outer eye corners, %", *(f"{error:.2f}" for error in errors)]]
    shares = [coverage(radii(*side), full.info.likelihood) for side in sides]
    rows += [
        [f"coverage at {float(level):.0%}", *(f"{share[level]:.1%}" for share in shares)]
        for level in shares[0]
    ]
    moved = np.linalg.norm(sides[0].points - sides[1].points, axis=-1).mean()
    rows.append(["mean move of a landmark, px", "", f"{moved:.2f}"])
    return f"cost of 8 bits on {len(sides[0].points)} faces", rows


def _predict(predictor: Predictor, folder: PathLike) -> _Labelled:
    """Every labelled face of a folder, as the detector finds it, or cropped by its label."""
    records = list(load_set("folder", folder, "all", skip_bad=True))
    if not records:
        raise InputError(f"{folder} has no labelled faces: put .pts files beside the images.")
    faces = predict_records(predictor, records, "detector-or-tight").faces
    return _Labelled(
        faces.points,
        faces.covariance,
        np.stack([record.points for record in records]),
        np.stack([record.visible for record in records]),
    )
