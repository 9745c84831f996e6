"""Error bars of measures hold on new faces; closed eyes are recognised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from luvli.calibration.fit_measures import (
    LEVELS,
    fit_eyes_closed,
    fit_measures,
    labelled_eyes,
    measure_errors,
    reach,
)
from luvli.face_measures import with_measures
from luvli.faces import Faces

from .drawn_faces import measured_faces

UPPER, LOWER = [37, 38, 43, 44], [41, 40, 47, 46]
FIT = np.arange(800) < 480


@pytest.fixture(scope="module")
def drawn() -> tuple[Faces, np.ndarray, np.ndarray]:
    """Faces, labels, and whose eyes are shut; errors are small beside an eye."""
    plain = measured_faces(800, seed=6, corrupted=0)
    labels, shut = plain.labels.copy(), np.arange(800) % 4 == 0
    middle = (labels[:, UPPER] + labels[:, LOWER]) / 2
    for lids in (UPPER, LOWER):
        labels[:, lids] = np.where(shut[:, None, None], middle, labels[:, lids])
    points = labels + (plain.faces.points - plain.labels) / 5
    faces = replace(plain.faces, points=points, covariance=plain.faces.covariance / 25 / 4)
    return faces, labels, shut


def test_error_bars_hold_on_new_faces(drawn) -> None:
    """Although the covariances are four times too small; within 3.5 standard errors."""
    faces, labels, shut = drawn
    fit, new = FIT & ~shut, ~FIT & ~shut
    measures = fit_measures(faces[fit], labels[fit])
    errors = measure_errors(faces[new], labels[new], measures)
    assert set(errors) == set(measures.scale)
    for name, (error, measure) in errors.items():
        assert measures.scale[name] == pytest.approx(2, rel=0.2), name
        for level in LEVELS:
            held = np.mean(np.abs(error) < reach(measure, level))
            error_of_share = np.sqrt(level * (1 - level) * (1 / fit.sum() + 1 / new.sum()))
            assert held == pytest.approx(level, abs=3.5 * error_of_share), name


def test_closed_eyes_are_recognised(drawn) -> None:
    faces, labels, shut = drawn
    assert np.array_equal(labelled_eyes(labels) == 1, shut)
    measures = fit_measures(faces[FIT], labels[FIT])
    fitted = fit_eyes_closed(faces[FIT & ~shut], faces[FIT & shut], measures)
    probability = with_measures(faces[~FIT], fitted).eyes_closed
    assert (probability[shut[~FIT]] > 0.5).mean() > 0.95
    assert (probability[~shut[~FIT]] > 0.5).mean() < 0.05
    few = fit_eyes_closed(faces[FIT & ~shut], faces[shut][:9], measures)
    assert few == measures  # too few to say anything
