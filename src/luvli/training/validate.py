"""How good the network is on faces that it does not learn from: metrics, and a sheet of faces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.dataset import CropDataset, CropSample
from luvli.data.record import Visibility
from luvli.drawing.faces import draw_face
from luvli.evaluation.accuracy import landmark_errors, mean_nme, nme, normalizers
from luvli.evaluation.uncertainty import negative_log_likelihood, spread_root
from luvli.evaluation.visibility import auroc, is_called_visible, labelled
from luvli.faces import FaceLandmarks, Faces
from luvli.image import affine as affines
from luvli.image.read import ImageArray
from luvli.markup import get_markup, is_markup
from luvli.network.backend import Backend
from luvli.network.config import NetworkConfig

TILE = 192
COLUMNS = 6
FACES = 12
"""tiles of the validation sheet: side in pixels, how many in a row, how many in all"""


@dataclass(frozen=True)
class LabelledPredictions:
    """Predictions and labels of n faces, in crop pixels."""

    images: list[ImageArray]
    points: Floats
    """(n, k, 2)"""
    covariance: Floats
    """(n, k, 2, 2)"""
    visibility: Floats
    """(n, k) probability"""
    truth: Floats
    """(n, k, 2), NaN where there is no location"""
    classes: NDArray[np.int8]
    """(n, k) `Visibility`"""
    affines: Floats
    """(n, 2, 3) from image to crop pixels"""
    occlusion: Floats | None = None
    """(n, k) probability; None where the network does not tell"""


def predict_dataset(
    model: Backend, crops: CropDataset, batch_size: int = 32
) -> LabelledPredictions:
    """The model's prediction for every face of `crops`."""
    samples: list[CropSample] = []
    parts: list[Faces] = []
    for start in range(0, len(crops), batch_size):
        batch = [crops[i] for i in range(start, min(start + batch_size, len(crops)))]
        parts.append(model(np.stack([sample["image"] for sample in batch])))
        samples += batch
    found = Faces.concatenate(parts)
    to_crop = np.stack([sample["affine"] for sample in samples])
    in_image = model.info.to_image(found, affines.invert(to_crop)).covariance
    return LabelledPredictions(
        [sample["image"] for sample in samples],
        found.points,
        affines.push_covariance(to_crop, in_image),
        found.visibility,
        np.stack([sample["points"] for sample in samples]).astype(np.float64),
        np.stack([sample["visibility"] for sample in samples]),
        to_crop,
        found.occlusion if found.occlusion_trained else None,
    )


def validation_metrics(
    predictions: LabelledPredictions,
    config: NetworkConfig,
    with_likelihood: bool,
    mean_shape: float | None = None,
) -> dict[str, float]:
    """Compare predictions with labels; lengths in percent of the named normaliser.

    - `nme_box`, `nme_interocular`
    - `nll`: mean negative log-likelihood of the visible landmarks
    - `error_correlation`: Spearman's, of predicted spread and actual error
    - `visibility_accuracy`, and `visibility_base_rate`, that of the more frequent class
    - `hidden_found`, `visible_found`: share of the self-occluded (visible) landmarks called so
    - `occlusion_auroc`: of covered landmarks against those in plain sight
    - `mean_shape_nme_box`: `mean_shape`, what `mean_shape_nme` gives

    Those that the labels or the stage have nothing to measure for are left out: a heat-map stage
    (`with_likelihood` False) trains neither covariance nor visibility, most sets have no hidden
    landmarks.
    """
    truth, visible = predictions.truth, predictions.classes > 0
    markup = config.markup if is_markup(config.markup) else None
    box = mean_nme(nme(predictions.points, truth, "box", visible, "visible"))
    metrics: dict[str, float | None] = {"nme_box": box}
    if markup is not None and np.isfinite(_eyes(truth, visible, markup)).any():
        errors = nme(predictions.points, truth, "interocular", visible, "visible", markup=markup)
        metrics["nme_interocular"] = mean_nme(errors)
    if with_likelihood:
        nll = negative_log_likelihood(
            predictions.points, predictions.covariance, truth, config.likelihood, visible=visible
        )
        metrics["nll"] = float(np.nanmean(nll))
        metrics["error_correlation"] = rank_correlation(predictions)
        probability, seen = labelled(predictions.visibility, predictions.classes)
        if seen.any() and not seen.all():
            called = is_called_visible(probability)
            metrics["visibility_accuracy"] = float((called == seen).mean())
            metrics["visibility_base_rate"] = float(max(seen.mean(), 1 - seen.mean()))
            metrics["hidden_found"] = float((~called[~seen]).mean())
            metrics["visible_found"] = float(called[seen].mean())
    if predictions.occlusion is not None:
        covered = predictions.classes == Visibility.EXTERNALLY_OCCLUDED
        if covered.any() and (predictions.classes == Visibility.UNOCCLUDED).any():
            metrics["occlusion_auroc"] = auroc(predictions.occlusion[visible], covered[visible])
    metrics["mean_shape_nme_box"] = mean_shape
    return {name: value for name, value in metrics.items() if value is not None and isfinite(value)}


def in_words(metrics: Mapping[str, float]) -> str:
    """Metrics as people read them.

    >>> in_words({"nme_box": 2.5, "visibility_accuracy": 0.91})
    'NME_box 2.50 %, visibility accuracy 0.910'
    """
    words = []
    for name, value in metrics.items():
        label = name.replace("mean_shape_", "mean shape ").replace("nme_", "NME_")
        percent = f"{label} {value:.2f} %"
        words.append(percent if "NME_" in label else f"{label.replace('_', ' ')} {value:.3f}")
    return ", ".join(words)


def rank_correlation(predictions: LabelledPredictions) -> float:
    """Spearman's correlation of predicted spread and actual error over all labelled landmarks."""
    from scipy.stats import spearmanr

    errors = landmark_errors(predictions.points, predictions.truth, "box", predictions.classes > 0)
    known = np.isfinite(errors)
    return float(spearmanr(spread_root(predictions.covariance)[known], errors[known]).statistic)


def mean_shape_nme(train: Sequence[CropDataset], watched: CropDataset) -> float:
    """NME_box (percent) of always answering with the mean shape of plain training crops."""
    shapes = np.concatenate([crops.plain_points() for crops in train])
    known = np.isfinite(shapes)
    shape = np.where(known, shapes, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    truth = watched.plain_points()
    visible = np.stack([record.visible for record in watched.records])
    guess = np.broadcast_to(shape, truth.shape)
    return mean_nme(nme(guess, truth, "box", visible, "visible"))


def _eyes(truth: Floats, visible: NDArray[np.bool_], markup: str) -> Floats:
    if get_markup(markup).size != truth.shape[1]:
        return np.full(len(truth), np.nan)
    return normalizers(truth, "interocular", visible, markup=markup)


def validation_sheet(
    sets: Sequence[LabelledPredictions], markup: str, visibility_trained: bool, faces: int = FACES
) -> ImageArray:
    """The first faces of each set in equal parts, `COLUMNS` in a row.

    Labels are green, predictions yellow, ellipses blue; what is probably invisible fades.
    """
    each = max(1, faces // len(sets))
    tiles = [
        _tile(predictions, i, markup, visibility_trained)
        for predictions in sets
        for i in range(min(each, len(predictions.images)))
    ]
    columns = min(COLUMNS, len(tiles))
    rows = -(-len(tiles) // columns)
    sheet = np.zeros((rows * TILE, columns * TILE, 3), np.uint8)
    for place, tile in enumerate(tiles):
        y, x = divmod(place, columns)
        sheet[y * TILE : (y + 1) * TILE, x * TILE : (x + 1) * TILE] = tile
    return sheet


def _tile(
    predictions: LabelledPredictions, index: int, markup: str, visibility_trained: bool
) -> ImageArray:
    """One face, enlarged to `TILE` pixels."""
    import cv2

    image = predictions.images[index]
    size = image.shape[0]
    scale = TILE / size
    shift = scale / 2 - 0.5  # pixel centres: (x + 1/2) * scale - 1/2
    tile = np.asarray(cv2.resize(image, (TILE, TILE), interpolation=cv2.INTER_LINEAR), np.uint8)
    face = FaceLandmarks(
        points=predictions.points[index],
        covariance=predictions.covariance[index],
        visibility=predictions.visibility[index],
        box=[0, 0, size - 1, size - 1],  # type: ignore[arg-type]
        markup=markup,
        visibility_trained=visibility_trained,
    )
    moved = face.transform([[scale, 0, shift], [0, scale, shift]])
    return draw_face(tile, moved, truth=predictions.truth[index] * scale + shift)
