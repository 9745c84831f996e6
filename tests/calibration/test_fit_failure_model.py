"""The fits find what is there, and the confidence means what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from luvli.calibration.fit_failure_model import (
    SPREAD,
    Ridges,
    fit_failure_model,
    fit_logistic,
    fit_mean,
    fit_shape,
)
from luvli.calibration.measure import face_errors
from luvli.errors import InputError
from luvli.evaluation.selective import auroc, calibration_error
from luvli.trust.failure_model import AdditiveModel, FailureModel
from luvli.trust.features import FAILURE, SCORE

from .drawn_faces import labelled_points, measured_faces


@pytest.fixture(scope="module")
def model(measured) -> FailureModel:
    return fit_failure_model(measured, ridges=Ridges())


def test_the_mean_is_found_and_shrinks_towards_sigma(rng) -> None:
    x = rng.normal(size=(4000, 2))
    error = np.exp(0.8 * x[:, 0] + 0.3 * x[:, 1]) * rng.gamma(2, 0.5, 4000)
    frame = AdditiveModel(
        features=[SPREAD, "tilt"], centre=[0, 0], spread=[1, 1], knots=[-1.0, 1.0],
        coefficients=[], intercept=0,
    )  # fmt: skip
    for ridge, slopes in ((1.0, (0.8, 0.3)), (1e6, (1.0, 0.0))):
        fitted = fit_mean(x, error, np.ones(4000), frame, ridge)
        at = fitted([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        assert at[1:] - at[0] == pytest.approx(slopes, abs=0.06)


def test_weights_and_hinges_count_in_the_odds(rng) -> None:
    x = rng.normal(size=(4000, 1))
    outcome = rng.random(4000) < expit(2 * np.abs(x[:, 0]) - 1)
    fitted = fit_logistic(x, outcome, np.ones(4000), ["a"], 0.1)
    assert fitted([[-1.5], [0.0], [1.5]]) == pytest.approx((2.0, -1.0, 2.0), abs=0.5)
    twice = fit_logistic(x, outcome, np.where(outcome, 2.0, 1.0), ["a"], 0.1)
    assert twice([[1.0]]) - fitted([[1.0]]) == pytest.approx(np.log(2), abs=0.05)


def test_confidence_finds_failures_and_means_what_it_says(model: FailureModel) -> None:
    new = measured_faces(300, seed=5)
    confidence, expected = model(new.faces)
    error = face_errors(new)
    assert auroc(1 - confidence, error >= 5) > 0.97
    assert calibration_error(confidence, error < 5, 15) < 0.05
    assert expected.mean() == pytest.approx(error.mean(), rel=0.1)
    order = np.argsort(expected)
    below = expected[order] < model.max_error  # beyond it all are the same
    assert below.sum() > 500
    assert (np.diff(confidence[order][below]) <= 1e-9).all()


def test_given_boxes_have_a_model_of_their_own(measured, model: FailureModel) -> None:
    given = measured.with_predictions(scores=np.ones(len(measured)))
    assert SCORE in model.detected.error.features and SCORE not in model.given.error.features
    confidence, _ = model(given.faces)
    assert np.isfinite(confidence).all() and not np.allclose(confidence, model(measured.faces)[0])
    unscored = fit_failure_model(given, ridges=Ridges())
    assert unscored.detected == unscored.given


def test_the_failure_score_counts_and_a_missing_one_is_ordinary(measured) -> None:
    """Failures that no landmark shows, but the failure score does."""
    rng = np.random.default_rng(3)
    lost = rng.random(len(measured)) < 0.2
    logit = np.where(lost, 6.0, -6.0) + rng.normal(0, 1, len(measured))
    labels = measured.labels + 40.0 * lost[:, None, None]
    scored = replace(measured.with_predictions(failure_logit=logit), labels=labels)
    model = fit_failure_model(scored, ridges=Ridges())
    assert FAILURE in model.detected.failure.features
    assert FAILURE not in model.detected.error.features
    faces = scored.faces[:1]
    place = model.detected.failure.features.index(FAILURE)
    values = np.array([-6.0, 8.0, np.nan, model.detected.failure.centre[place]])
    sure, doubted, missing, ordinary = (
        model(replace(faces, failure_logit=np.array([value])))[0][0] for value in values
    )
    assert sure > doubted + 0.2 and missing == pytest.approx(ordinary)


def test_the_shape_model_fits_its_own_and_not_others(rng) -> None:
    shape = fit_shape([labelled_points(rng) for _ in range(200)])
    own = [shape.compare(labelled_points(rng)) for _ in range(50)]
    assert max(residual for residual, _, _ in own) < 0.02
    assert np.mean([distance for _, distance, _ in own]) < 1.5
    assert shape.compare(rng.uniform(0, 100, (68, 2)))[0] > 0.3
    modes = np.array(shape.modes).reshape(len(shape.deviations), -1)
    np.testing.assert_allclose(modes @ modes.T, np.eye(len(modes)), atol=1e-2)


def test_too_few_faces_are_refused(measured) -> None:
    with pytest.raises(InputError, match="at least 100 faces with labels, got 50"):
        fit_failure_model(measured[:100])
    error = face_errors(measured)
    for kept, words in ((error < 5, "failed alignments, got 0"), (error < 15, "complete failures")):
        with pytest.raises(InputError, match=words):
            fit_failure_model(measured[kept])
