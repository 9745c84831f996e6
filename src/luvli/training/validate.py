"""How good the network is on faces that it does not learn from: metrics, and a sheet of faces."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np

from luvli.data.dataset import CropDataset, CropSample
from luvli.drawing.faces import draw
from luvli.drawing.sheet import contact_sheet
from luvli.errors import InputError
from luvli.evaluation.accuracy import mean_nme, nme
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metrics import metric_values
from luvli.faces import Faces
from luvli.image.crop import Crop
from luvli.image.read import ImageArray
from luvli.likelihood import MissingMethod
from luvli.network.backend import Backend
from luvli.prediction.crops import CroppedFaces
from luvli.prediction.pipeline import BATCH
from luvli.prediction.predictor import Predictor

WATCHED = (
    "nme_box", "nme_vis_box", "nme_interocular", "nme_vis_interocular", "nll", "coverage_90",
    "error_correlation", "visibility_accuracy", "visibility_auroc", "accuracy_by_class",
    "occlusion_auroc",
)  # fmt: skip
"""metrics of the registry that are followed while training"""
TILE, COLUMNS, TILES = 192, 6, 12
"""the validation sheet: side of a tile in pixels, how many in a row, how many in all"""


class LabelledCrops(NamedTuple):
    """n crops, and the predictions and labels in them."""

    labelled: LabelledFaces
    """in crop pixels"""
    images: list[ImageArray]
    in_image: Faces
    """the predictions in image pixels"""


def predict_dataset(model: Backend, crops: CropDataset, batch_size: int = BATCH) -> LabelledCrops:
    """The model's prediction for every face of `crops`."""
    samples: dict[int, CropSample] = {}

    def crop(row: int) -> CroppedFaces:
        sample = samples[row] = crops[row]
        window = Crop(sample["affine"], crops.size, convention=crops.convention)
        return CroppedFaces([crops.boxes[row]], [window], [sample["image"]], [(0, 0)])

    predictions: list[Faces] = []
    for _, faces in Predictor(model).predict_each(range(len(crops)), crop, batch_size):
        if isinstance(faces, InputError):
            raise faces
        predictions.append(faces)
    in_image = Faces.concatenate(predictions)
    images, to_crop, points, classes = (
        [samples[row][name] for row in range(len(crops))]
        for name in ("image", "affine", "points", "visibility")
    )
    in_crop = in_image.transform(np.stack(to_crop))
    truth = np.stack(points).astype(np.float64)
    return LabelledCrops(LabelledFaces(in_crop, truth, np.stack(classes)), images, in_image)


def validation_metrics(faces: LabelledFaces) -> dict[str, float]:
    """The metrics of `WATCHED`, by their names in `metrics.json`.

    Those that the labels or the stage have nothing to measure for are left out: a heat-map stage
    trains neither covariance nor visibility, most sets have no hidden landmarks.
    """
    metrics = {name: float(value) for name, value in metric_values(faces, WATCHED)[0].items()}
    return {name: value for name, value in metrics.items() if isfinite(value)}


def mean_shape_nme(train: Sequence[CropDataset], watched: CropDataset) -> float:
    """NME_vis (eq. 20, percent of the box) of always answering with the mean shape of plain
    training crops."""
    shapes = np.concatenate([crops.plain_points() for crops in train])
    known = np.isfinite(shapes)
    shape = np.where(known, shapes, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    truth = watched.plain_points()
    visible = np.stack([record.visible for record in watched.records])
    return mean_nme(nme(np.broadcast_to(shape, truth.shape), truth, "box", visible, "visible"))


def validation_sheet(sets: Sequence[LabelledCrops], tiles: int = TILES) -> ImageArray:
    """The first faces of each set in equal parts, `COLUMNS` in a row.

    Labels are green, predictions yellow, ellipses blue; what is probably invisible fades.
    """
    import cv2

    each = max(1, tiles // len(sets))
    drawn = []
    for crops in sets:
        scale = TILE / crops.images[0].shape[0]
        shift = scale / 2 - 0.5  # pixel centres: (x + 1/2) * scale - 1/2
        moved = crops.labelled.faces[:each].transform([[scale, 0, shift], [0, scale, shift]])
        for face, image, truth in zip(moved, crops.images, crops.labelled.labels, strict=False):
            tile = np.asarray(cv2.resize(image, (TILE, TILE)), np.uint8)
            truth = truth * scale + shift
            try:
                drawn.append(draw(tile, [face], truth=truth))
            except MissingMethod:  # a likelihood that knows no share of its ellipses
                drawn.append(draw(tile, [face], truth=truth, mahalanobis=1.0))
    return contact_sheet(drawn, COLUMNS, background=(0, 0, 0))
