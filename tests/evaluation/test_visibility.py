"""Visibility metrics against scikit-learn and counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn

from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.visibility import (
    auroc,
    brier,
    hidden_precision_recall,
    is_called_visible,
    roc,
    visibility_reliability,
)


@pytest.fixture
def labels() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities with ties and classes; and the labelled ones among them, flat."""
    rng = np.random.default_rng(0)
    classes = rng.choice([-1, 0, 1, 2], size=(40, 68), p=[0.1, 0.2, 0.5, 0.2])
    score = np.clip(rng.normal(np.where(classes == 0, 0.3, 0.8), 0.25), 0, 1).round(2)
    known = classes >= 0
    return score, classes, score[known], classes[known] > 0


def test_curves_and_areas_are_those_of_scikit_learn(labels):
    score, classes, v_hat, v = labels
    curve = roc(score, classes)
    x, y, _ = sklearn.roc_curve(v, v_hat, drop_intermediate=False)
    assert curve.x == pytest.approx(x) and curve.y == pytest.approx(y)
    area = sklearn.roc_auc_score(v, v_hat)
    assert curve.value == pytest.approx(area) and auroc(v_hat, v) == pytest.approx(area)
    hidden = hidden_precision_recall(score, classes)
    precision, recall, _ = sklearn.precision_recall_curve(~v, 1 - v_hat)
    assert hidden.x[::-1] == pytest.approx(recall[:-1])
    assert hidden.y[::-1] == pytest.approx(precision[:-1])
    assert hidden.value == pytest.approx(sklearn.average_precision_score(~v, 1 - v_hat))
    assert brier(score, classes) == pytest.approx(sklearn.brier_score_loss(v, v_hat))


def test_reliability_of_honest_and_of_exaggerated_probabilities():
    rng = np.random.default_rng(1)
    honest = rng.random(200_000)
    v = (rng.random(200_000) < honest).astype(int)
    assert visibility_reliability(honest, v).value < 0.01
    pushed = np.where(honest > 0.5, 0.95, 0.05)  # true rates are 0.75 and 0.25
    result = visibility_reliability(pushed, v)
    assert result.value == pytest.approx(0.2, abs=0.01)
    assert result.counts.sum() == 200_000 and len(result.counts) == 2
    ends = visibility_reliability([0.0, 1.0, 1.0], [0, 1, 1])
    assert ends.counts.tolist() == [1, 2] and ends.value == 0


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
    assert is_called_visible(0.5, rule="at least")  # ... but it is at least 0.5
    assert found.value("error_by_visibility.self_occluded") is None


def test_one_class_alone_has_no_curve():
    assert np.isnan(roc([0.2, 0.9], [1, 1]).value)
    assert np.isnan(hidden_precision_recall([0.2, 0.9], [1, 1]).value)
    assert np.isnan(brier([], []))
