"""Visibility metrics against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.visibility import (
    auroc,
    brier,
    is_called_visible,
    precision_recall,
    roc,
    visibility_reliability,
)


@pytest.fixture
def labels() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    classes = rng.choice([-1, 0, 1, 2], size=(40, 68), p=[0.1, 0.2, 0.5, 0.2])
    score = np.clip(rng.normal(np.where(classes == 0, 0.3, 0.8), 0.25), 0, 1).round(2)
    return score, classes


def known(score, classes):
    keep = classes.ravel() >= 0
    return score.ravel()[keep], classes.ravel()[keep] > 0


def test_roc_at_every_threshold(labels):
    score, classes = labels
    curve = roc(score, classes)
    v_hat, v = known(score, classes)
    thresholds = np.unique(v_hat)[::-1]
    for x, y, t in zip(curve.x[1:], curve.y[1:], thresholds, strict=True):
        assert x == pytest.approx(np.mean(v_hat[~v] >= t))
        assert y == pytest.approx(np.mean(v_hat[v] >= t))
    assert (curve.x[0], curve.y[0], curve.x[-1], curve.y[-1]) == (0, 0, 1, 1)


def test_area_under_roc_is_the_chance_of_the_right_order(labels):
    score, classes = labels
    v_hat, v = known(score, classes)
    above = v_hat[v][:, None] > v_hat[~v][None]
    equal = v_hat[v][:, None] == v_hat[~v][None]
    expected = above.mean() + equal.mean() / 2
    assert roc(score, classes).value == pytest.approx(expected)
    assert auroc(v_hat, v) == pytest.approx(expected)


@pytest.mark.parametrize("target", ["visible", "hidden"])
def test_precision_and_recall_at_every_threshold(labels, target):
    score, classes = labels
    curve = precision_recall(score, classes, target)
    v_hat, v = known(score, classes)
    if target == "hidden":
        v_hat, v = 1 - v_hat, ~v
    area, last = 0.0, 0.0
    for x, y, t in zip(curve.x, curve.y, np.unique(v_hat)[::-1], strict=True):
        called = v_hat >= t
        assert x == pytest.approx(v[called].sum() / v.sum())
        assert y == pytest.approx(v[called].mean())
        area += (x - last) * y
        last = x
    assert curve.value == pytest.approx(area)


def test_brier(labels):
    score, classes = labels
    v_hat, v = known(score, classes)
    assert brier(score, classes) == pytest.approx(sum((v_hat - v) ** 2) / len(v))


def test_reliability_of_honest_and_of_exaggerated_probabilities():
    rng = np.random.default_rng(1)
    honest = rng.random(200_000)
    v = (rng.random(200_000) < honest).astype(int)
    assert visibility_reliability(honest, v).value < 0.01
    pushed = np.where(honest > 0.5, 0.95, 0.05)  # true rates are 0.75 and 0.25
    result = visibility_reliability(pushed, v)
    assert result.value == pytest.approx(0.2, abs=0.01)
    assert result.counts.sum() == 200_000 and len(result.counts) == 2


def test_reliability_holds_probabilities_zero_and_one():
    result = visibility_reliability([0.0, 1.0, 1.0], [0, 1, 1])
    assert result.counts[0] == 1 and result.counts[-1] == 2 and result.value == 0


def test_three_types_of_landmarks_counted_by_hand():
    classes = np.array([[0, 0, 1, 2], [0, 1, 1, -1]])
    v_hat = np.array([[0.1, 0.6, 0.9, 0.5], [0.2, 0.4, 0.8, 0.0]])
    labels = np.zeros((2, 4, 2))
    labels[:, 2] = 10.0
    labels[classes <= 0] = np.nan
    points = np.where(np.isnan(labels), 0.0, labels)
    points[1, 3] = np.nan  # unlabelled, so nobody asks for it
    faces = LabelledFaces.from_arrays(points, labels, classes, visibility=v_hat)
    found = compute_metrics(faces, resamples=2)
    assert found.value("landmarks_by_class.self_occluded") == 3
    assert found.value("mean_visibility.self_occluded") == pytest.approx(0.3)
    assert found.value("accuracy_by_class.self_occluded") == pytest.approx(2 / 3)
    assert found.value("accuracy_by_class.unoccluded") == pytest.approx(2 / 3)
    assert found.value("accuracy_by_class.externally_occluded") == 0  # 0.5 is not above 0.5 ...
    assert is_called_visible(0.5, rule="at least")  # ... but it is at least 0.5
    assert found.value("error_by_visibility.self_occluded") is None


def test_a_missing_probability_is_a_wrong_one():
    points = np.zeros((1, 4, 2))
    points[0, [1, 3]] = np.nan
    faces = LabelledFaces.from_arrays(
        points, np.zeros((1, 4, 2)), [[0, 0, 1, 1]], visibility=[[0.1, np.nan, 0.9, np.nan]]
    )
    found = compute_metrics(faces, resamples=2)
    assert found.value("accuracy_by_class.self_occluded") == 0.5
    assert found.value("accuracy_by_class.unoccluded") == 0.5
    assert found.value("mean_visibility.unoccluded") == 0.9


def test_one_class_alone_has_no_curve():
    assert np.isnan(roc([0.2, 0.9], [1, 1]).value)
    assert np.isnan(precision_recall([0.2, 0.9], [1, 1], "hidden").value)
    assert np.isnan(brier([], []))
