"""A model file beside labelled faces: calibrated on them, or measured before and after 8 bits."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.sets import load_set
from luvli.errors import InputError
from luvli.evaluation.accuracy import mean_nme, nme
from luvli.evaluation.labelled_faces import predict_records
from luvli.evaluation.uncertainty import radii
from luvli.files import PathLike
from luvli.network.calibration import Calibration
from luvli.network.weights import load_model, save_model
from luvli.prediction.predictor import Predictor, load
from luvli.trust.calibrate import coverage, fit
from luvli.trust.calibrate_model import uncalibrated
from luvli.trust.fit_tables import landmark_groups


class FolderPredictions(NamedTuple):
    """Predictions beside labels: n faces in image pixels."""

    mean: Floats
    covariance: Floats
    truth: Floats
    visible: NDArray[np.bool_]


def predict_folder(predictor: Predictor, folder: PathLike) -> FolderPredictions:
    """Predict every labelled face of a folder (`.pts` beside images, or COCO).

    The detector finds the faces, as in use; where it misses the labelled one, the labels'
    own box takes its place.
    """
    records = list(load_set("folder", folder, "all", skip_bad=True))
    if not records:
        raise InputError(f"{folder} has no labelled faces: put .pts files beside the images.")
    if records[0].markup != predictor.info.config.markup:
        raise InputError(
            f"{folder} has labels of {records[0].markup}, the model predicts "
            f"{predictor.info.config.markup}: give labels of the same point set."
        )
    faces = predict_records(predictor, records, "detector-or-tight", refine_boxes=True)
    return FolderPredictions(
        faces.points, faces.faces.covariance, faces.labels, faces.label_visibility > 0
    )


def calibrate_on_folder(model: Path, folder: PathLike) -> Calibration:
    """Fit the calibration of a safetensors model on held-out faces and keep it in the file."""
    network, info = load_model(model)
    with uncalibrated(network, model.stem, info) as predictor:
        measured = predict_folder(predictor, folder)
    config = network.config
    fitted = fit(*measured, likelihood=config.likelihood, groups=landmark_groups(config))
    save_model(model, network, info | {"calibration": fitted.model_dump()})
    return fitted


def quantization_cost(
    model: Path, quantized: PathLike, folder: PathLike
) -> tuple[str, list[list[str]]]:
    """What 8 bits cost on labelled faces: a title, and rows of name, 32 bits, 8 bits."""
    full, small = load(model, "torch"), load(quantized)
    sides = [predict_folder(predictor, folder) for predictor in (full, small)]
    config = full.info.config
    errors = [
        mean_nme(nme(m.mean, m.truth, "interocular", m.visible, "visible", markup=config.markup))
        for m in sides
    ]
    rows = [["NME, outer eye corners, %", *(f"{error:.2f}" for error in errors)]]
    held = [coverage(radii(*m), full.info.likelihood) for m in sides]
    rows += [
        [f"coverage at {float(level):.0%}", *(f"{side[level]:.1%}" for side in held)]
        for level in held[0]
    ]
    moved = np.linalg.norm(sides[0].mean - sides[1].mean, axis=-1).mean()
    rows.append(["mean move of a landmark, px", "", f"{moved:.2f}"])
    return f"cost of 8 bits on {len(sides[0].mean)} faces", rows
