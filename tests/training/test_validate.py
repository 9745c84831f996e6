"""Validation metrics against independent arithmetic, and the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_faces import draw_face
from scipy.stats import rankdata

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


def test_metrics_by_hand(crops: LabelledCrops) -> None:
    labelled = crops.labelled
    points, truth, seen = labelled.points, labelled.labels, labelled.label_visibility > 0
    metrics = validation_metrics(labelled)
    distance = np.linalg.norm(points - truth, axis=2)
    box = np.array(
        [np.sqrt(np.prod(np.ptp(t[s], axis=0))) for t, s in zip(truth, seen, strict=True)]
    )
    eyes = np.linalg.norm(truth[:, 36] - truth[:, 45], axis=1)
    share = seen.mean(axis=1)
    for kind, size in (("box", box), ("interocular", eyes)):
        errors = 100 * np.nanmean(distance, axis=1) / size
        assert metrics[f"nme_vis_{kind}"] == pytest.approx(errors.mean())  # eq. 20
        assert metrics[f"nme_{kind}"] == pytest.approx((errors * share).mean())  # eq. 15
    assert metrics["visibility_accuracy"] == 1.0
    for kind in ("self_occluded", "unoccluded"):
        assert metrics[f"accuracy_by_class.{kind}"] == 1.0
    variance = labelled.faces.covariance[..., 0, 0]
    density = np.log(2 * np.pi * variance) + distance**2 / variance / 2 - 2 * np.log(box)[:, None]
    assert metrics["nll"] == pytest.approx(density[seen].mean())
    ranks = [
        rankdata(values[seen]) for values in (distance / box[:, None], variance / box[:, None] ** 2)
    ]
    expected = np.corrcoef(*ranks)[0, 1]
    assert metrics["error_correlation"] == pytest.approx(expected) and expected > 0.3
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
