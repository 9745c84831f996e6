"""Visibility metrics against scikit-learn and counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn

from luvli.evaluation.face_metrics import is_called_visible, visible_and_hidden
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.selective import auroc, average_precision, brier, calibration_error


@pytest.fixture
def labels() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities with ties and classes; and the labelled ones among them, flat."""
    rng = np.random.default_rng(0)
    classes = rng.choice([-1, 0, 1, 2], size=(40, 68), p=[0.1, 0.2, 0.5, 0.2])
    score = np.clip(rng.normal(np.where(classes == 0, 0.3, 0.8), 0.25), 0, 1).round(2)
    known = classes >= 0
    return score, classes, score[known], classes[known] > 0


def test_areas_are_those_of_scikit_learn(labels):
    score, classes, v_hat, v = labels
    points = np.ones((*score.shape, 2))
    faces = LabelledFaces.from_arrays(points, points, classes, visibility=score)
    pair = visible_and_hidden(faces)
    assert np.array_equal(pair[0], v_hat) and np.array_equal(pair[1], v)
    assert auroc(*pair) == pytest.approx(sklearn.roc_auc_score(v, v_hat))
    hidden = sklearn.average_precision_score(~v, 1 - v_hat)
    assert average_precision(1 - v_hat, ~v) == pytest.approx(hidden)
    assert brier(*pair) == pytest.approx(sklearn.brier_score_loss(v, v_hat))


def test_calibration_error_of_honest_and_of_exaggerated_probabilities():
    rng = np.random.default_rng(1)
    honest = rng.random(200_000)
    v = rng.random(200_000) < honest
    assert calibration_error(honest, v) < 0.01
    pushed = np.where(honest > 0.5, 0.95, 0.05)  # true rates are 0.75 and 0.25
    assert calibration_error(pushed, v) == pytest.approx(0.2, abs=0.01)
    assert calibration_error([0.0, 1.0, 1.0], [0, 1, 1]) == 0


def test_three_types_of_landmarks_counted_by_hand():
    classes = np.array([[0, 0, 1, 2, 1], [0, 1, 1, -1, 0]])
    v_hat = np.array([[0.1, 0.6, 0.9, 0.5, 0.9], [0.2, 0.4, 0.8, 0.0, 0.1]])
    labels = np.zeros((2, 5, 2))
    labels[:, 2] = 10.0
    labels[classes <= 0] = np.nan
    points = np.where(np.isnan(labels), 0.0, labels)
    points[1, 3:] = np.nan  # unlabelled, so nobody asks for it; and hidden: its v-hat is missing
    found = compute_metrics(
        LabelledFaces.from_arrays(points, labels, classes, visibility=v_hat), resamples=2
    )
    assert found.value("landmarks_by_class.self_occluded") == 4
    assert found.value("mean_visibility.self_occluded") == pytest.approx(0.3)
    assert found.value("accuracy_by_class.self_occluded") == 0.5  # a missing one is wrong
    assert found.value("accuracy_by_class.unoccluded") == pytest.approx(3 / 4)
    assert found.value("accuracy_by_class.externally_occluded") == 0  # 0.5 is not above 0.5 ...
    assert is_called_visible(0.5, published=True)  # ... but it is at least 0.5
    assert found.value("error_by_visibility.self_occluded") is None


def test_one_class_alone_has_no_order():
    assert np.isnan(auroc([0.2, 0.9], [1, 1]))
    assert np.isnan(average_precision([0.2, 0.9], [0, 0]))
    assert np.isnan(calibration_error([], []))
