"""Validation metrics against independent arithmetic, and the image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn_faces import draw_face
from scipy.stats import multivariate_normal

from luvli.data.dataset import CropDataset
from luvli.data.record import FaceRecord
from luvli.faces import Faces
from luvli.training.log import in_words
from luvli.training.validate import (
    COLUMNS,
    TILE,
    LabelledCrops,
    mean_shape_nme,
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
    affines = np.tile(np.eye(2, 3), (7, 1, 1))
    return LabelledCrops(faces, truth, kinds, list(images), affines, faces)


def test_metrics_by_hand(crops: LabelledCrops) -> None:
    metrics = validation_metrics(crops, True, mean_shape=9.0)
    by_hand, eyes = [], []
    for i in range(7):
        seen = crops.classes[i] > 0
        error = np.linalg.norm(crops.faces.points[i] - crops.truth[i], axis=1)[seen].mean()
        width, height = np.ptp(crops.truth[i][seen], axis=0)
        by_hand.append(100 * error / np.sqrt(width * height))
        eyes.append(100 * error / np.linalg.norm(crops.truth[i, 36] - crops.truth[i, 45]))
    assert metrics["nme_vis_box"] == pytest.approx(np.mean(by_hand))  # eq. 20
    assert metrics["nme_vis_interocular"] == pytest.approx(np.mean(eyes))
    share = (crops.classes > 0).mean(axis=1)
    assert metrics["nme_box"] == pytest.approx(np.mean(by_hand * share))  # eq. 15
    assert metrics["nme_interocular"] == pytest.approx(np.mean(eyes * share))
    assert metrics["visibility_accuracy"] == 1.0
    hidden = (crops.classes == 0).mean()
    assert metrics["visibility_base_rate"] == pytest.approx(1 - hidden)
    assert (metrics["hidden_found"], metrics["visible_found"]) == (1.0, 1.0)
    assert metrics["mean_shape_nme_vis_box"] == 9.0
    density = [
        multivariate_normal(crops.faces.points[i, j], crops.faces.covariance[i, j]).logpdf(
            crops.truth[i, j]
        )
        for i, j in zip(*np.nonzero(crops.classes > 0), strict=True)
    ]
    assert metrics["nll"] == pytest.approx(-np.mean(density))


def test_heatmap_stages_say_nothing_of_cen_and_ven(crops: LabelledCrops) -> None:
    metrics = validation_metrics(crops, with_likelihood=False)
    assert set(metrics) == {
        "nme_box", "nme_vis_box", "nme_interocular", "nme_vis_interocular",
    }  # fmt: skip


def test_rank_correlation_is_spearmans(crops: LabelledCrops) -> None:
    seen = crops.classes > 0
    size = [
        np.sqrt(np.prod(np.ptp(face[here], axis=0)))
        for face, here in zip(crops.truth, seen, strict=True)
    ]
    error = np.linalg.norm(crops.faces.points - crops.truth, axis=2) / np.array(size)[:, None]
    spread = crops.faces.covariance[..., 0, 0]
    places = [np.argsort(np.argsort(values[seen])) for values in (error, spread)]
    expected = np.corrcoef(*places)[0, 1]
    found = validation_metrics(crops, True)["error_correlation"]
    assert found == pytest.approx(expected, abs=1e-9)
    assert expected > 0.3


def test_the_mean_shape_is_a_guess_without_a_picture() -> None:
    faces = [draw_face(seed)[1:] for seed in range(8)]
    records = [FaceRecord(p, c, face_id=str(i)) for i, (p, c) in enumerate(faces)]
    crops = CropDataset(records, 64, enlarge=1.3, box_noise="none")
    assert mean_shape_nme([crops], crops) > 0.5
    alike = CropDataset([records[1]] * 3, 64, enlarge=1.3, box_noise="none")
    assert mean_shape_nme([alike], alike) == pytest.approx(0, abs=1e-9)


def test_the_validation_sheet_shows_labels_and_predictions(crops: LabelledCrops) -> None:
    sheet = validation_sheet([crops, crops], True, faces=14)
    assert sheet.shape == (3 * TILE, COLUMNS * TILE, 3)
    hidden = replace(crops.faces, visibility=np.zeros((7, 68)))
    plain = validation_sheet([crops._replace(faces=hidden)], True, faces=7)
    changed = (sheet[:TILE] != plain[:TILE]).any(axis=2).mean()
    assert changed > 0.02  # what is invisible is not drawn
    untrained = validation_sheet([crops._replace(faces=hidden)], False, faces=7)
    assert (untrained != plain).any()  # ... unless the network never learnt what that is
    green = (plain[..., 1] > 180) & (plain[..., 0] < 90) & (plain[..., 2] < 90)
    assert green.sum() > 100


def test_auroc_of_occlusion_counts_pairs(crops: LabelledCrops, rng: np.random.Generator) -> None:
    classes = crops.classes.copy()
    classes[(classes == 1) & (rng.random(classes.shape) < 0.1)] = 2
    said = rng.random(classes.shape) * 0.7 + 0.3 * (classes == 2)
    faces = replace(crops.faces, occlusion=said, occlusion_trained=True)
    metrics = validation_metrics(crops._replace(faces=faces, classes=classes), False)
    covered, seen = said[classes == 2], said[classes == 1]
    assert metrics["occlusion_auroc"] == pytest.approx((covered[:, None] > seen).mean())
    plain = validation_metrics(crops._replace(faces=faces), False)  # nothing is covered
    assert "occlusion_auroc" not in plain


def test_metrics_are_readable() -> None:
    metrics = {"nme_vis_box": 2.345, "hidden_found": 0.5, "mean_shape_nme_vis_box": 9.0}
    expected = "NME_vis_box 2.35 %, hidden found 0.500, mean shape NME_vis_box 9.00 %"
    assert in_words(metrics) == expected
