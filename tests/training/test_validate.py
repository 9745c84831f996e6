"""Validation metrics against independent arithmetic, and the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_faces import draw_face

from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.faces import Faces
from luvli.training.validate import (
    COLUMNS,
    TILE,
    LabelledCrops,
    validation_metrics,
    validation_sheet,
)


@pytest.fixture
def crops(rng: np.random.Generator) -> LabelledCrops:
    images, points, classes = zip(*(draw_face(seed) for seed in range(7)), strict=True)
    truth, kinds = np.stack(points), np.stack(classes)
    truth[kinds == 0] = np.nan
    spread = rng.uniform(0.5, 3.0, (7, 68))
    faces = Faces(
        points=np.nan_to_num(truth, nan=40.0) + rng.normal(size=(7, 68, 2)) * spread[..., None],
        covariance=spread[..., None, None] ** 2 * np.eye(2),
        visibility=np.where(kinds > 0, 0.9, 0.2),
        likelihood="gauss",
    )
    labelled = LabelledFaces(faces, truth, kinds)
    return LabelledCrops(labelled, list(images), faces)


def with_faces(crops: LabelledCrops, **changes: Any) -> LabelledCrops:
    return crops._replace(labelled=crops.labelled.with_predictions(**changes))


def test_what_is_watched_are_metrics_of_the_registry(crops: LabelledCrops) -> None:
    """Without those of outputs that are not trained; their arithmetic: tests/evaluation."""
    labelled = crops.labelled
    metrics = validation_metrics(labelled)
    distance = np.linalg.norm(labelled.points - labelled.labels, axis=2)
    eyes = np.linalg.norm(labelled.labels[:, 36] - labelled.labels[:, 45], axis=1)
    errors = 100 * np.nanmean(distance, axis=1) / eyes
    assert metrics["nme_vis_interocular"] == pytest.approx(errors.mean())  # eq. 20
    share = (labelled.label_visibility > 0).mean(axis=1)
    assert metrics["nme_interocular"] == pytest.approx((errors * share).mean())  # eq. 15
    assert metrics["accuracy_by_class.self_occluded"] == 1.0
    assert {"nll", "coverage_90", "error_correlation", "visibility_auroc"} < set(metrics)
    plain = labelled.with_predictions(covariance_trained=False, visibility_trained=False)
    assert set(validation_metrics(plain)) == {
        "nme_box", "nme_vis_box", "nme_interocular", "nme_vis_interocular",
    }  # fmt: skip


def test_occlusion_is_measured_where_something_is_covered(crops: LabelledCrops) -> None:
    classes = crops.labelled.label_visibility
    predicted = {"occlusion": np.where(classes == 2, 0.9, 0.1), "occlusion_trained": True}
    assert "occlusion_auroc" not in validation_metrics(crops.labelled.with_predictions(**predicted))
    classes[:, :5] = 2
    predicted["occlusion"] = np.where(classes == 2, 0.9, 0.1)
    metrics = validation_metrics(crops.labelled.with_predictions(**predicted))
    assert metrics["occlusion_auroc"] == 1.0


def test_the_validation_sheet_shows_labels_and_predictions(crops: LabelledCrops) -> None:
    sheet = validation_sheet([crops, crops], tiles=14)
    assert sheet.shape == (3 * TILE, COLUMNS * TILE, 3)
    hidden = with_faces(crops, visibility=np.zeros((7, 68)))
    plain = validation_sheet([hidden], tiles=7)
    assert (sheet[:TILE] != plain[:TILE]).any(axis=2).mean() > 0.02  # the invisible is not drawn
    untrained = validation_sheet([with_faces(hidden, visibility_trained=False)], tiles=7)
    assert (untrained != plain).any()  # ... unless the network never learnt what that is
    green = (plain[..., 1] > 180) & (plain[..., 0] < 90) & (plain[..., 2] < 90)
    assert green.sum() > 100
