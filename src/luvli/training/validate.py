"""How good the network is on faces that it does not learn from: metrics, and a sheet of faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.dataset import CropDataset
from luvli.data.record import Visibility
from luvli.drawing.faces import draw_faces
from luvli.drawing.sheet import contact_sheet
from luvli.evaluation.accuracy import average_errors, landmark_errors, mean_nme, nme
from luvli.evaluation.uncertainty import negative_log_likelihood, spread_root
from luvli.evaluation.visibility import auroc, is_called_visible, labelled
from luvli.faces import Faces
from luvli.image import affine as affines
from luvli.image.read import ImageArray
from luvli.markup import get_markup, is_markup
from luvli.network.backend import Backend, Windows

TILE = 192
COLUMNS = 6
FACES = 12
"""tiles of the validation sheet: side in pixels, how many in a row, how many in all"""


class LabelledCrops(NamedTuple):
    """Predictions and labels of n faces, in crop pixels."""

    faces: Faces
    truth: Floats
    """(n, k, 2), NaN where there is no location"""
    classes: NDArray[np.int8]
    """(n, k) `Visibility`"""
    images: list[ImageArray]
    affines: Floats
    """(n, 2, 3) from image to crop pixels"""
    in_image: Faces
    """the predictions in image pixels"""


def predict_dataset(model: Backend, crops: CropDataset, batch_size: int = 32) -> LabelledCrops:
    """The model's prediction for every face of `crops`."""
    samples = list(crops)
    images = [sample["image"] for sample in samples]
    to_crop = np.stack([sample["affine"] for sample in samples])
    windows = replace(Windows.of_crops(len(images), model.info), affines=to_crop)
    parts = [slice(i, i + batch_size) for i in range(0, len(images), batch_size)]
    faces = Faces.concatenate([model(np.stack(images[part]), windows[part]) for part in parts])
    return LabelledCrops(
        faces,
        np.stack([sample["points"] for sample in samples]).astype(np.float64),
        np.stack([sample["visibility"] for sample in samples]),
        images,
        to_crop,
        faces.transform(affines.invert(to_crop)),
    )


def validation_metrics(
    crops: LabelledCrops, with_likelihood: bool, mean_shape: float | None = None
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

    faces, truth, visible = crops.faces, crops.truth, crops.classes > 0
    markup, kinds = faces.markup, ["box"]
    if is_markup(markup) and get_markup(markup).size == truth.shape[1]:
        kinds.append("interocular")
    metrics: dict[str, float | None] = {}
    for kind in kinds:
        errors = landmark_errors(faces.points, truth, kind, visible, markup=markup)
        metrics[f"nme_{kind}"] = mean_nme(average_errors(errors))
        metrics[f"nme_vis_{kind}"] = mean_nme(average_errors(errors, "visible"))
    metrics["mean_shape_nme_vis_box"] = mean_shape
    if with_likelihood:
        density = faces.likelihood
        nll = negative_log_likelihood(faces.points, faces.covariance, truth, density, visible)
        metrics["nll"] = float(np.nanmean(nll))
        distances = landmark_errors(faces.points, truth, "box", visible)
        known = np.isfinite(distances)
        spread = spread_root(faces.covariance)
        metrics["error_correlation"] = float(spearmanr(spread[known], distances[known]).statistic)
        probability, visible_labels = labelled(faces.visibility, crops.classes)
        if visible_labels.any() and not visible_labels.all():
            called = is_called_visible(probability)
            metrics["visibility_accuracy"] = float((called == visible_labels).mean())
            share = visible_labels.mean()
            metrics["visibility_base_rate"] = float(max(share, 1 - share))
            metrics["hidden_found"] = float((~called[~visible_labels]).mean())
            metrics["visible_found"] = float(called[visible_labels].mean())
    covered = crops.classes == Visibility.EXTERNALLY_OCCLUDED
    if faces.occlusion_trained and covered.any() and (crops.classes == Visibility.UNOCCLUDED).any():
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
    sets: Sequence[LabelledCrops], visibility_trained: bool, faces: int = FACES
) -> ImageArray:
    """The first faces of each set in equal parts, `COLUMNS` in a row.

    Labels are green, predictions yellow, ellipses blue; what is probably invisible fades.
    """
    import cv2

    each = max(1, faces // len(sets))
    tiles = []
    for crops in sets:
        scale = TILE / crops.images[0].shape[0]
        shift = scale / 2 - 0.5  # pixel centres: (x + 1/2) * scale - 1/2
        shown = replace(crops.faces[:each], visibility_trained=visibility_trained)
        moved = shown.transform([[scale, 0, shift], [0, scale, shift]])
        for face, image, truth in zip(moved, crops.images, crops.truth, strict=False):
            tile = np.asarray(cv2.resize(image, (TILE, TILE)), np.uint8)
            tiles.append(draw_faces(tile, [face], truth=truth * scale + shift))
    return contact_sheet(tiles, COLUMNS, background=(0, 0, 0))
