"""How good the network is on faces it does not learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch
from numpy.typing import NDArray

from luvli.data.augment import Geometry, place_crop
from luvli.data.dataset import CropDataset, collate
from luvli.evaluation.accuracy import landmark_errors, mean_nme, nme, normalizers
from luvli.evaluation.uncertainty import negative_log_likelihood, pearson, spread_root
from luvli.evaluation.visibility import is_called_visible, labelled
from luvli.image import affine as affines
from luvli.image.read import Picture
from luvli.likelihood import covariance as cov
from luvli.markup import get_markup, is_markup
from luvli.network.config import NetworkConfig
from luvli.network.model import LUVLi
from luvli.network.pixels import covariance_to_crop, heatmap_to_crop
from luvli.training.objective import network_input

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """Predictions and labels of n faces, in crop pixels."""

    images: list[Picture]
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
    """(n, 2, 3) from picture to crop pixels"""


@torch.no_grad()
def predict_crops(network: LUVLi, crops: CropDataset, batch: int = 32) -> Answers:
    """The last U-net's answer for every face of `crops`."""
    config = network.config
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    images: list[Picture] = []
    parts: list[tuple[NDArray[np.floating], ...]] = []
    truths, classes, affines = [], [], []
    for start in range(0, len(crops), batch):
        samples = [crops[i] for i in range(start, min(start + batch, len(crops)))]
        images += [sample["image"] for sample in samples]
        truths += [sample["points"] for sample in samples]
        classes += [sample["visibility"] for sample in samples]
        affines += [sample["affine"] for sample in samples]
        answer = network(network_input(collate(samples)["image"].to(device), config))[-1]
        points = heatmap_to_crop(answer.mean, config.pixel_grid)
        covariance = covariance_to_crop(cov.from_cholesky(answer.cholesky))
        found = (points, covariance, answer.visibility)
        parts.append(tuple(tensor.double().cpu().numpy() for tensor in found))
    network.train(was_training)
    points, covariance, visibility = (np.concatenate(part) for part in zip(*parts, strict=True))
    truth = np.stack(truths).astype(np.float64)
    return Answers(
        images, points, covariance, visibility, truth, np.stack(classes), np.stack(affines)
    )


def figures(
    answers: Answers, config: NetworkConfig, trained_with_likelihood: bool
) -> dict[str, float]:
    """Numbers about one validation set; lengths in percent of the named normaliser.

    `trained_with_likelihood` False (heat-map stage) leaves out what CEN and VEN say.
    """
    truth, visible = answers.truth, answers.classes > 0
    markup = config.markup if is_markup(config.markup) else None
    result = {"nme_box": mean_nme(nme(answers.points, truth, "box", visible, "visible"))}
    if markup is not None and np.isfinite(_eyes(truth, visible, markup)).any():
        errors = nme(answers.points, truth, "interocular", visible, "visible", markup=markup)
        result["nme_interocular"] = mean_nme(errors)
    if not trained_with_likelihood:
        return result
    nll = negative_log_likelihood(
        answers.points, answers.covariance, truth, config.likelihood, visible=visible
    )
    result["nll"] = float(np.nanmean(nll))
    result["error_correlation"] = rank_correlation(answers)
    probability, seen = labelled(answers.visibility, answers.classes)
    if seen.any() and not seen.all():
        called = is_called_visible(probability)
        result["visibility_accuracy"] = float((called == seen).mean())
        result["visibility_base_rate"] = float(max(seen.mean(), 1 - seen.mean()))
        result["hidden_found"] = float((~called[~seen]).mean())
        result["visible_found"] = float(called[seen].mean())
    return {name: value for name, value in result.items() if isfinite(value)}


def rank_correlation(answers: Answers) -> float:
    """Spearman's correlation of predicted spread and actual error over all labelled landmarks."""
    errors = landmark_errors(answers.points, answers.truth, "box", answers.classes > 0)
    known = np.isfinite(errors)
    return pearson(_ranks(spread_root(answers.covariance)[known]), _ranks(errors[known]))


def _ranks(values: Floats) -> NDArray[np.intp]:
    """Place of each value in sorted order (measured numbers have no ties)."""
    return np.argsort(np.argsort(values))


def mean_shape_nme(train: Sequence[CropDataset], watched: CropDataset) -> float:
    """NME_box (percent) of always answering with the mean shape of plain training crops."""
    shapes = np.concatenate([_plain_points(crops) for crops in train])
    known = np.isfinite(shapes)
    shape = np.where(known, shapes, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    truth = _plain_points(watched)
    visible = np.stack([record.visible for record in watched.records])
    guess = np.broadcast_to(shape, truth.shape)
    return mean_nme(nme(guess, truth, "box", visible, "visible"))


def _plain_points(crops: CropDataset) -> Floats:
    """(n, k, 2) labels in crop pixels without augmentation; no picture is touched."""
    moved = []
    for record, box in zip(crops.records, crops.boxes, strict=True):
        affine = place_crop(box, crops.size, crops.enlarge, Geometry(), crops.convention)
        moved.append(affines.apply(affine, record.points))
    return np.stack(moved)


def _eyes(truth: Floats, visible: NDArray[np.bool_], markup: str) -> Floats:
    if get_markup(markup).size != truth.shape[1]:
        return np.full(len(truth), np.nan)
    return normalizers(truth, "interocular", visible, markup=markup)
