"""Validation figures against independent arithmetic, and the picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn_faces import draw_face
from scipy.stats import spearmanr

from luvli.data.dataset import CropDataset
from luvli.data.record import FaceRecord
from luvli.network import NetworkConfig
from luvli.training.run_log import sentence_of
from luvli.training.validate import Answers, figures, mean_shape_nme, rank_correlation
from luvli.training.validation_sheet import COLUMNS, TILE, contact_sheet


@pytest.fixture
def answers(rng: np.random.Generator) -> Answers:
    images, points, classes = zip(*(draw_face(seed) for seed in range(7)), strict=True)
    truth, kinds = np.stack(points), np.stack(classes)
    truth[kinds == 0] = np.nan
    spread = rng.uniform(0.5, 3.0, (7, 68))
    found = np.nan_to_num(truth, nan=40.0) + rng.normal(size=(7, 68, 2)) * spread[..., None]
    covariance = spread[..., None, None] ** 2 * np.eye(2)
    seen = np.where(kinds > 0, 0.9, 0.2)
    affines = np.tile(np.eye(2, 3), (7, 1, 1))
    return Answers(list(images), found, covariance, seen, truth, kinds, affines)


def test_figures_by_hand(answers: Answers) -> None:
    numbers = figures(answers, NetworkConfig(likelihood="gauss"), trained_with_likelihood=True)
    by_hand, eyes = [], []
    for i in range(7):
        seen = answers.classes[i] > 0
        error = np.linalg.norm(answers.points[i] - answers.truth[i], axis=1)[seen].mean()
        width, height = np.ptp(answers.truth[i][seen], axis=0)
        by_hand.append(100 * error / np.sqrt(width * height))
        eyes.append(100 * error / np.linalg.norm(answers.truth[i, 36] - answers.truth[i, 45]))
    assert numbers["nme_box"] == pytest.approx(np.mean(by_hand))
    assert numbers["nme_interocular"] == pytest.approx(np.mean(eyes))
    assert numbers["visibility_accuracy"] == 1.0
    hidden = (answers.classes == 0).mean()
    assert numbers["visibility_base_rate"] == pytest.approx(1 - hidden)
    assert (numbers["hidden_found"], numbers["visible_found"]) == (1.0, 1.0)


def test_heatmap_stages_say_nothing_of_cen_and_ven(answers: Answers) -> None:
    numbers = figures(answers, NetworkConfig(), trained_with_likelihood=False)
    assert set(numbers) == {"nme_box", "nme_interocular"}


def test_rank_correlation_is_spearmans(answers: Answers) -> None:
    seen = answers.classes > 0
    size = [
        np.sqrt(np.prod(np.ptp(face[here], axis=0)))
        for face, here in zip(answers.truth, seen, strict=True)
    ]
    error = np.linalg.norm(answers.points - answers.truth, axis=2) / np.array(size)[:, None]
    spread = answers.covariance[..., 0, 0]
    expected = spearmanr(error[seen], spread[seen]).statistic
    assert rank_correlation(answers) == pytest.approx(expected, abs=1e-9)
    assert expected > 0.3


def test_the_mean_shape_is_a_guess_without_a_picture() -> None:
    faces = [draw_face(seed)[1:] for seed in range(8)]
    records = [FaceRecord(p, c, face_id=str(i)) for i, (p, c) in enumerate(faces)]
    crops = CropDataset(records, 64, enlarge=1.3, box_noise="none")
    assert mean_shape_nme([crops], crops) > 0.5
    alike = CropDataset([records[1]] * 3, 64, enlarge=1.3, box_noise="none")
    assert mean_shape_nme([alike], alike) == pytest.approx(0, abs=1e-9)


def test_the_contact_sheet_shows_labels_and_predictions(answers: Answers) -> None:
    sheet = contact_sheet([answers, answers], "ibug68", True, faces=14)
    assert sheet.shape == (3 * TILE, COLUMNS * TILE, 3)
    unseen = replace(answers, visibility=np.zeros((7, 68)))
    plain = contact_sheet([unseen], "ibug68", True, faces=7)
    changed = (sheet[:TILE] != plain[:TILE]).any(axis=2).mean()
    assert changed > 0.02  # what is invisible is not drawn
    untrained = contact_sheet([unseen], "ibug68", False, faces=7)
    assert (untrained != plain).any()  # ... unless the network never learnt what that is
    green = (plain[..., 1] > 180) & (plain[..., 0] < 90) & (plain[..., 2] < 90)
    assert green.sum() > 100


def test_figures_are_readable() -> None:
    text = sentence_of({"nme_box": 2.345, "mean_shape_nme_box": 9.0, "hidden_found": 0.5})
    assert text == "NME_box 2.35 %, mean shape NME_box 9.00 %, hidden found 0.500"
