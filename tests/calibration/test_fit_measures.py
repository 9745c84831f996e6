"""Error bars of measures hold on new faces; closed eyes are recognised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from luvli.calibration.fit_measures import (
    LEVELS,
    fit_eyes_closed,
    labelled_eyes,
    measure_errors,
    reach,
)
from luvli.face_measures import with_measures

from .drawn_faces import measured_faces

UPPER, LOWER = [37, 38, 43, 44], [41, 40, 47, 46]


def test_error_bars_hold_on_new_faces(fitted) -> None:
    new = measured_faces(500, seed=5, corrupted=0).calibrated(fitted.calibration)
    errors = measure_errors(new.faces, new.labels, fitted.measures)
    assert set(errors) == set(fitted.measures.scale)
    for name, (error, measure) in errors.items():
        for level in LEVELS:
            held = np.mean(np.abs(error) < reach(measure, level))
            assert held == pytest.approx(level, abs=0.06), name


def test_closed_eyes_are_recognised(fitted) -> None:
    """On faces of the other half, landmarked five times as well as the others."""
    new = measured_faces(400, seed=6, corrupted=0)
    labels = new.labels.copy()
    shut = np.arange(len(labels)) % 4 == 0
    middle = (labels[shut][:, UPPER] + labels[shut][:, LOWER]) / 2
    for lids in (UPPER, LOWER):
        labels[np.ix_(shut, lids)] = middle
    assert np.array_equal(labelled_eyes(labels) == 1, shut)
    points = labels + (new.faces.points - new.labels) / 5
    faces = replace(new.faces, points=points, covariance=new.faces.covariance / 25)
    fit = np.arange(len(labels)) < 240
    measures = fit_eyes_closed(faces[fit & ~shut], faces[fit & shut], fitted.measures)
    probability = with_measures(faces[~fit], measures).eyes_closed
    assert (probability[shut[~fit]] > 0.5).mean() > 0.9
    assert (probability[~shut[~fit]] > 0.5).mean() < 0.05
    few = fit_eyes_closed(faces[fit & ~shut], faces[shut][:9], fitted.measures)
    assert few == fitted.measures  # too few to say anything
