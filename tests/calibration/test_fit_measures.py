"""Error bars of measures hold on new faces; closed eyes are recognised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from luvli.calibration.fit_measures import (
    LEVELS,
    fit_error_bars,
    fit_eyes_closed,
    labelled_eyes,
    measure_errors,
    reach,
)
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.face_measures import with_measures

from .drawn_faces import measured_faces

UPPER, LOWER = [37, 38, 43, 44], [41, 40, 47, 46]
FIT = np.arange(800) < 480


@pytest.fixture(scope="module")
def drawn() -> tuple[LabelledFaces, np.ndarray]:
    """Faces and whose eyes are shut; errors are small beside an eye, and the covariances four
    times too small."""
    plain = measured_faces(800, seed=6, corrupted=0)
    labels, shut = plain.labels.copy(), np.arange(800) % 4 == 0
    middle = (labels[:, UPPER] + labels[:, LOWER]) / 2
    for lids in (UPPER, LOWER):
        labels[:, lids] = np.where(shut[:, None, None], middle, labels[:, lids])
    points = labels + (plain.points - plain.labels) / 5
    faces = plain.with_predictions(points=points, covariance=plain.faces.covariance / 25 / 4)
    return replace(faces, labels=labels), shut


def test_error_bars_hold_on_new_faces(drawn) -> None:
    """Within 3.5 standard errors."""
    faces, shut = drawn
    fit, new = FIT & ~shut, ~FIT & ~shut
    measures = fit_error_bars(faces[fit])
    errors = measure_errors(faces[new], measures)
    assert set(errors) == set(measures.scale)
    for name, (error, measure) in errors.items():
        assert measures.scale[name] == pytest.approx(2, rel=0.2), name
        for level in LEVELS:
            held = np.mean(np.abs(error) < reach(measure, level))
            error_of_share = np.sqrt(level * (1 - level) * (1 / fit.sum() + 1 / new.sum()))
            assert held == pytest.approx(level, abs=3.5 * error_of_share), name


def test_closed_eyes_are_recognised(drawn) -> None:
    labelled, shut = drawn
    faces = labelled.faces
    assert np.array_equal(labelled_eyes(labelled.labels) == 1, shut)
    measures = fit_error_bars(labelled[FIT])
    closed = fit_eyes_closed(faces[FIT & ~shut], faces[FIT & shut], measures)
    fitted = measures.model_copy(update={"eyes_closed": closed})
    probability = with_measures(faces[~FIT], fitted).eyes_closed
    assert (probability[shut[~FIT]] > 0.5).mean() > 0.95
    assert (probability[~shut[~FIT]] > 0.5).mean() < 0.05
    assert fit_eyes_closed(faces[FIT & ~shut], faces[shut][:9], measures) is None  # too few
