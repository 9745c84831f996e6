"""Models made from other models with the help of faces: calibrated ones, 8-bit ones.

All of it needs PyTorch; what it makes does not.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import FaceRecord
from luvli.data.sets import load_set
from luvli.errors import InputError
from luvli.evaluation.accuracy import mean_nme, nme
from luvli.evaluation.uncertainty import radii
from luvli.files import PathLike
from luvli.image.box import Box
from luvli.image.read import Picture, read_image
from luvli.markup import get_markup, is_markup
from luvli.network.calibration import Calibration
from luvli.network.weights import load_model, save_model
from luvli.prediction.export import export_onnx, quantize
from luvli.prediction.input_files import Inputs
from luvli.prediction.predictor import Predictor, load
from luvli.trust.calibrate import coverage, fit

Floats = NDArray[np.float64]
QUANTIZING_FACES = 64


class Measured(NamedTuple):
    """Predictions beside labels: n faces in image pixels."""

    mean: Floats
    covariance: Floats
    truth: Floats
    visible: NDArray[np.bool_]


def measure(predictor: Predictor, folder: PathLike) -> Measured:
    """Predict every labelled face of a folder (`.pts` beside pictures, or COCO).

    The detector finds the faces, as in use; where it misses the labelled one, the labels'
    own box takes its place.
    """
    records = list(load_set("folder", folder, "all", skip_bad=True))
    if not records:
        raise InputError(f"{folder} has no labelled faces: put .pts files beside the pictures.")
    if records[0].markup != predictor.info.config.markup:
        raise InputError(
            f"{folder} has labels of {records[0].markup}, the model predicts "
            f"{predictor.info.config.markup}: give labels of the same point set."
        )
    rows = []
    for record in records:
        assert record.image is not None
        image = read_image(record.image)
        face = predictor.predict(image, [_box(predictor, image, record)])[0]
        rows.append((face.points, face.covariance, record.points, record.visible))
    return Measured(*(np.stack(column) for column in zip(*rows, strict=True)))


def _box(predictor: Predictor, image: Picture, record: FaceRecord) -> Box:
    own = Box(*record.tight_box.tolist())
    best = max(predictor.detect(image), key=own.iou, default=own)
    return best if own.iou(best) > 0.3 else own


def calibrate_model(model: Path, folder: PathLike) -> Calibration:
    """Fit the calibration of a safetensors model on held-out faces and keep it in the file."""
    network, info = load_model(model)
    info.pop("calibration", None)
    with tempfile.TemporaryDirectory() as place:
        plain = Path(place) / f"{model.stem}.safetensors"
        save_model(plain, network, info)
        measured = measure(load(plain, "torch"), folder)
    config = network.config
    groups = get_markup(config.markup).groups if is_markup(config.markup) else None
    fitted = fit(*measured, likelihood=config.likelihood, groups=groups)
    save_model(model, network, info | {"calibration": fitted.model_dump()})
    return fitted


def quantize_with_images(model: Path, target: PathLike, images: PathLike) -> None:
    """Write a safetensors model as 8-bit ONNX, ranges set on the faces in a folder."""
    with tempfile.TemporaryDirectory() as place:
        full = Path(place) / f"{model.stem}.onnx"
        export_onnx(model, full)
        predictor = load(full)
        crops: list[Picture] = []
        for item in Inputs([os.fspath(images)]):
            try:
                image = read_image(item.path)
            except InputError:
                continue
            crops += [predictor.crop(box).warp(image) for box in predictor.detect(image)]
            if len(crops) >= QUANTIZING_FACES:
                break
        quantize(full, target, crops[:QUANTIZING_FACES])


def compare(model: Path, quantized: PathLike, folder: PathLike) -> tuple[str, list[list[str]]]:
    """What 8 bits cost on labelled faces: a title, and rows of name, 32 bits, 8 bits."""
    full, small = load(model, "torch"), load(quantized)
    sides = [measure(predictor, folder) for predictor in (full, small)]
    config = full.info.config
    errors = [
        mean_nme(nme(m.mean, m.truth, "interocular", m.visible, "visible", markup=config.markup))
        for m in sides
    ]
    rows = [["NME, outer eye corners, %", *(f"{error:.2f}" for error in errors)]]
    held = [coverage(radii(*m), config.likelihood) for m in sides]
    rows += [
        [f"coverage at {float(level):.0%}", *(f"{side[level]:.1%}" for side in held)]
        for level in held[0]
    ]
    moved = np.linalg.norm(sides[0].mean - sides[1].mean, axis=-1).mean()
    rows.append(["mean move of a landmark, px", "", f"{moved:.2f}"])
    return f"cost of 8 bits on {len(sides[0].mean)} faces", rows
