"""How good the network is on faces that it does not learn from: metrics, and a sheet of faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import NamedTuple

import numpy as np

from luvli.data.dataset import CropDataset, CropSample
from luvli.data.record import Visibility
from luvli.drawing.faces import draw_faces
from luvli.drawing.sheet import contact_sheet
from luvli.evaluation.accuracy import mean_nme, nme
from luvli.evaluation.evaluate_model import predict_each
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.uncertainty import negative_log_likelihood, spread_root
from luvli.evaluation.visibility import auroc, is_called_visible, labelled
from luvli.faces import Faces
from luvli.image.crop import Crop
from luvli.image.read import ImageArray
from luvli.network.backend import Backend
from luvli.prediction.predictor import BATCH, CroppedFaces, Predictor

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

    predictions = predict_each(Predictor(model), range(len(crops)), crop, batch_size)
    in_image = Faces.concatenate([faces for _, faces in predictions if isinstance(faces, Faces)])
    images, to_crop, points, classes = (
        [samples[row][name] for row in range(len(crops))]
        for name in ("image", "affine", "points", "visibility")
    )
    faces = in_image.transform(np.stack(to_crop))
    truth = np.stack(points).astype(np.float64)
    return LabelledCrops(LabelledFaces(faces, truth, np.stack(classes)), images, in_image)


def validation_metrics(
    labelled_faces: LabelledFaces, with_likelihood: bool, mean_shape: float | None = None
) -> dict[str, float]:
    """Compare predictions with labels; lengths in percent of the named normaliser.

    - `nme_box`, `nme_interocular`: eq. 15, over all landmarks
    - `nme_vis_box`, `nme_vis_interocular`: eq. 20, over the visible landmarks
    - `nll`: mean negative log-likelihood of the visible landmarks
    - `error_correlation`: Spearman's, of predicted spread and actual error
    - `visibility_accuracy`, and `visibility_base_rate`, that of the more frequent class
    - `hidden_found`, `visible_found`: share of the self-occluded (visible) landmarks called so
    - `occlusion_auroc`: of covered landmarks against those in plain sight
    - `mean_shape_nme_vis_box`: `mean_shape`, what `mean_shape_nme` gives

    Those that the labels or the stage have nothing to measure for are left out: a heat-map stage
    (`with_likelihood` False) trains neither covariance nor visibility, most sets have no hidden
    landmarks.
    """
    from scipy.stats import spearmanr

    faces, visible = labelled_faces.faces, labelled_faces.visible
    truth, classes = labelled_faces.labels, labelled_faces.label_visibility
    markup = labelled_faces.markup
    has_eyes = markup is not None and markup.size == labelled_faces.landmarks
    metrics: dict[str, float | None] = {}
    for kind in ("box", "interocular") if has_eyes else ("box",):
        metrics[f"nme_{kind}"] = mean_nme(labelled_faces.nme(kind))
        metrics[f"nme_vis_{kind}"] = mean_nme(labelled_faces.nme(kind, "visible"))
    metrics["mean_shape_nme_vis_box"] = mean_shape
    if with_likelihood:
        nll = negative_log_likelihood(
            faces.points, faces.covariance, truth, faces.likelihood, visible
        )
        metrics["nll"] = float(np.nanmean(nll))
        errors = labelled_faces.landmark_errors("box")
        known = np.isfinite(errors)
        ranks = spearmanr(spread_root(faces.covariance)[known], errors[known])
        metrics["error_correlation"] = float(ranks.statistic)
        probability, seen = labelled(faces.visibility, classes)
        if seen.any() and not seen.all():
            called = is_called_visible(probability)
            metrics["visibility_accuracy"] = float((called == seen).mean())
            metrics["visibility_base_rate"] = float(max(seen.mean(), 1 - seen.mean()))
            metrics["hidden_found"] = float((~called[~seen]).mean())
            metrics["visible_found"] = float(called[seen].mean())
    covered = classes == Visibility.EXTERNALLY_OCCLUDED
    if faces.occlusion_trained and covered.any() and (classes == Visibility.UNOCCLUDED).any():
        metrics["occlusion_auroc"] = auroc(faces.occlusion[visible], covered[visible])
    return {name: value for name, value in metrics.items() if value is not None and isfinite(value)}


def mean_shape_nme(train: Sequence[CropDataset], watched: CropDataset) -> float:
    """NME_vis (eq. 20, percent of the box) of always answering with the mean shape of plain
    training crops."""
    shapes = np.concatenate([crops.plain_points() for crops in train])
    known = np.isfinite(shapes)
    shape = np.where(known, shapes, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    truth = watched.plain_points()
    visible = np.stack([record.visible for record in watched.records])
    return mean_nme(nme(np.broadcast_to(shape, truth.shape), truth, "box", visible, "visible"))


def validation_sheet(
    sets: Sequence[LabelledCrops], visibility_trained: bool, tiles: int = TILES
) -> ImageArray:
    """The first faces of each set in equal parts, `COLUMNS` in a row.

    Labels are green, predictions yellow, ellipses blue; what is probably invisible fades.
    """
    import cv2

    each = max(1, tiles // len(sets))
    drawn = []
    for crops in sets:
        scale = TILE / crops.images[0].shape[0]
        shift = scale / 2 - 0.5  # pixel centres: (x + 1/2) * scale - 1/2
        shown = replace(crops.labelled.faces[:each], visibility_trained=visibility_trained)
        moved = shown.transform([[scale, 0, shift], [0, scale, shift]])
        for face, image, truth in zip(moved, crops.images, crops.labelled.labels, strict=False):
            tile = np.asarray(cv2.resize(image, (TILE, TILE)), np.uint8)
            drawn.append(draw_faces(tile, [face], truth=truth * scale + shift))
    return contact_sheet(drawn, COLUMNS, background=(0, 0, 0))
