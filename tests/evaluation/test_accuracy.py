"""NME, CED, AUC and failure rate against loops written out from the definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from luvli.errors import InputError
from luvli.evaluation import accuracy
from luvli.evaluation.accuracy import (
    FAILED_NME,
    auc,
    ced,
    failure_rate,
    mean_nme,
    nme,
    normalizers,
    tight_boxes,
)

EYES = {68: (36, 45), 98: (60, 72), 29: (8, 9), 19: (6, 11)}


@pytest.fixture
def faces() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predicted, truth and visibility of 12 faces; some landmarks invisible."""
    rng = np.random.default_rng(1)
    truth = rng.uniform(10, 200, (12, 68, 2))
    predicted = truth + rng.normal(0, 4, truth.shape)
    visible = rng.random((12, 68)) > 0.3
    visible[:, [*range(36, 48)]] = True  # eyes, so that every normaliser exists
    return predicted, truth, visible


def slow_nme(predicted, truth, length, visible, divide_by_visible):
    """Equations 15 and 20, one landmark after the other."""
    out = []
    for face in range(len(truth)):
        total, count = 0.0, 0
        for j in range(truth.shape[1]):
            if visible[face, j]:
                dx = truth[face, j, 0] - predicted[face, j, 0]
                dy = truth[face, j, 1] - predicted[face, j, 1]
                total += math.sqrt(dx * dx + dy * dy) / length[face]
                count += 1
        out.append(100 * total / (count if divide_by_visible else truth.shape[1]))
    return np.array(out)


def slow_length(kind, points, visible, k):
    if kind == "interocular":
        a, b = EYES[k]
        return math.dist(points[a], points[b])
    if kind == "interpupil":
        return math.dist(points[36:42].mean(0), points[42:48].mean(0))
    xs, ys = points[visible, 0], points[visible, 1]
    w, h = max(xs) - min(xs), max(ys) - min(ys)
    return math.sqrt(w * h) if kind == "box" else math.sqrt(w * w + h * h)


@pytest.mark.parametrize("kind", accuracy.NORMALIZERS)
@pytest.mark.parametrize("average", ["all", "visible"])
def test_nme_equals_the_written_out_sum(faces, kind, average):
    predicted, truth, visible = faces
    length = [slow_length(kind, p, v, 68) for p, v in zip(truth, visible, strict=True)]
    expected = slow_nme(predicted, truth, length, visible, average == "visible")
    assert nme(predicted, truth, kind, visible, average) == pytest.approx(expected, rel=1e-12)
    assert nme(predicted, truth, np.array(length), visible, average) == pytest.approx(expected)


def test_missing_labels_are_invisible_and_classes_above_0_visible(faces):
    """0 self-occluded, 1 unoccluded, 2 externally occluded: the last two are v = 1."""
    predicted, truth, visible = faces
    holes = np.where(visible[..., None], truth, np.nan)
    classes = np.where(visible, np.where(np.arange(68) % 2, 1, 2), 0)
    for average in ("all", "visible"):
        expected = nme(predicted, truth, "box", visible, average)
        assert nme(predicted, holes, "box", average=average) == pytest.approx(expected)
        assert nme(predicted, truth, "box", classes, average) == pytest.approx(expected)


@pytest.mark.parametrize("k", [19, 29, 68, 98])
def test_eye_corners_of_every_markup(k):
    rng = np.random.default_rng(k)
    truth = rng.uniform(0, 100, (3, k, 2))
    a, b = EYES[k]
    assert normalizers(truth, "interocular") == pytest.approx(
        np.hypot(*(truth[:, a] - truth[:, b]).T)
    )


def test_given_boxes_take_the_place_of_tight_ones(faces):
    predicted, truth, _ = faces
    boxes = np.tile([0.0, 0.0, 50.0, 200.0], (12, 1))
    assert nme(predicted, truth, "box", boxes=boxes) == pytest.approx(
        nme(predicted, truth, np.full(12, 100.0))
    )
    assert normalizers(truth, "diagonal", boxes=boxes) == pytest.approx(math.hypot(50, 200))


def test_a_face_with_nothing_to_measure_leaves_the_others_alone(faces):
    predicted, truth, visible = faces
    before = nme(predicted, truth, "box", visible)
    visible = visible.copy()
    visible[4] = False
    visible[6] = np.arange(68) == 3  # one landmark has no box
    after = nme(predicted, truth, "box", visible)
    assert np.isnan(after[[4, 6]]).all() and np.isnan(tight_boxes(truth, visible)[4]).all()
    kept = np.delete(before, [4, 6])
    assert np.delete(after, [4, 6]) == pytest.approx(kept)
    assert mean_nme(after) == pytest.approx(kept.mean())
    assert auc(after, 7) == pytest.approx(auc(kept, 7))
    assert failure_rate(after, 3) == pytest.approx(failure_rate(kept, 3))
    truth = truth.copy()
    truth[2, 36] = np.nan  # no eye corner, no inter-ocular distance
    values = nme(predicted, truth, "interocular")
    assert np.isnan(values[2]) and np.isfinite(np.delete(values, 2)).all()


def test_nan_predictions_are_failures_not_gaps(faces):
    predicted, truth, visible = faces
    predicted = predicted.copy()
    hidden = int(np.flatnonzero(~visible[5])[0])
    predicted[3, int(np.flatnonzero(visible[3])[0]), 0] = np.nan  # one visible coordinate
    predicted[5, hidden] = np.nan  # an invisible landmark needs no prediction
    predicted[7] = np.nan  # a whole face
    values = nme(predicted, truth, "box", visible)
    assert np.isinf(values[[3, 7]]).all() and np.isfinite(np.delete(values, [3, 7])).all()
    rest = np.delete(values, [3, 7])
    assert mean_nme(values) == pytest.approx((rest.sum() + 2 * FAILED_NME) / 12)
    assert failure_rate(values, 1e6) == pytest.approx(100 * 2 / 12)
    assert auc(values, 1e3) == pytest.approx(auc(rest, 1e3) * 10 / 12)
    assert ced(values).y[-1] == pytest.approx(10 / 12)


def test_one_image_and_none():
    truth = np.arange(136.0).reshape(1, 68, 2) ** 1.1
    (value,) = nme(truth + 1.0, truth, "box")
    for method in ("step", "polyline"):
        assert auc([value], 7, method) == pytest.approx((7 - value) / 7 * 100)
        assert math.isnan(auc([], 7, method))
    assert math.isnan(failure_rate([], 7)) and math.isnan(mean_nme([]))
    assert failure_rate([10.0, 10.0 + 1e-9, 9.0, 12.0], 10) == 50.0  # strictly above


errors_lists = arrays(
    np.float64, st.integers(1, 30), elements=st.floats(0, 20, allow_nan=False, width=32)
)


@settings(max_examples=40, deadline=None)
@given(errors_lists, st.sampled_from([1.0, 7.0, 8.0, 10.0]))
def test_auc_is_the_integral_of_the_ced(values, cutoff):
    """Integrate "share of images with NME <= x" over x by its definition, step by step."""
    knots = np.unique(np.clip(np.concatenate([[0.0, cutoff], values]), 0, cutoff))
    area = 0.0
    for left, right in itertools.pairwise(knots):
        middle = (left + right) / 2
        area += (right - left) * sum(1 for v in values if v <= middle) / len(values)
    assert auc(values, cutoff) == pytest.approx(100 * area / cutoff, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(errors_lists, st.sampled_from([1.0, 7.0, 10.0]))
def test_polyline_auc_follows_the_published_recipe(values, cutoff):
    """Fine numerical integration of the piecewise linear curve without a point at the origin."""
    x = np.sort(values) + np.arange(len(values)) * 1e-9  # ties have a limit from either side
    y = np.arange(1, len(x) + 1) / len(x)
    grid = np.linspace(0, cutoff, 100_001)
    curve = np.where(grid < x[0], 0.0, np.interp(grid, x, y))
    expected = curve.mean() * 100
    assert auc(x, cutoff, "polyline") == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p, t: nme(p[:3], t), "predicted must have shape"),
        (lambda p, t: nme(p, t, "iod"), "unknown normalizer 'iod'"),
        (lambda p, t: nme(p, t, "box", average="some"), "unknown average"),
        (lambda p, t: nme(p, t, "box", np.ones((12, 3))), "visible must have shape"),
        (lambda p, t: nme(p, t, np.ones(3)), "normalizer must have shape"),
        (lambda p, t: nme(p[:, :5], t[:, :5], "interocular"), "no built-in markup has 5 points"),
        (lambda p, t: auc([1.0], 7, "simpson"), "unknown method"),
    ],
)
def test_wrong_input_is_one_sentence(faces, call, sentence):
    predicted, truth, _ = faces
    with pytest.raises(InputError, match=sentence):
        call(predicted, truth)
