"""Failure detection by uncertainty and confidence, against sorting and counting."""

from __future__ import annotations

import numpy as np
import pytest

from luvli.errors import InputError
from luvli.evaluation.accuracy import FAILED_NME
from luvli.evaluation.face_metrics import face_spread
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.labelled_parquet import read_report_faces, write_predictions
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.selective import (
    failure_auroc,
    nme_by_rank,
    risk_coverage,
)


def test_curve_is_the_mean_of_the_most_certain():
    risk, spread = np.random.default_rng(0).gamma(2, 1, (2, 50))
    curve = risk_coverage(risk, spread)
    for kept in (1, 7, 50):
        most_certain = sorted(zip(spread, risk, strict=True))[:kept]
        assert curve.y[kept - 1] == pytest.approx(np.mean([r for _, r in most_certain]))
        assert curve.x[kept - 1] == pytest.approx(kept / 50)
    assert curve.value == pytest.approx(curve.y.mean())
    best = risk_coverage(risk, risk).value
    assert best == pytest.approx((np.cumsum(np.sort(risk)) / np.arange(1, 51)).mean())
    assert best < curve.value < risk_coverage(risk, -risk).value


def test_equal_uncertainties_do_not_depend_on_the_order_of_the_faces():
    rng = np.random.default_rng(2)
    risk, spread = rng.gamma(2, 1, 40), rng.integers(0, 5, 40).astype(float)
    order = rng.permutation(40)
    shuffled = risk_coverage(risk[order], spread[order])
    assert risk_coverage(risk, spread).value == pytest.approx(shuffled.value)
    assert risk_coverage(risk, np.ones(40)).y == pytest.approx(risk.mean())


def test_failures_come_last_and_are_counted():
    curve = risk_coverage([1.0, np.inf, 2.0, np.nan], [0.3, 0.1, 0.2, 0.1])
    assert curve.y == pytest.approx([2.0, 1.5, (3 + FAILED_NME) / 3])
    assert failure_auroc([1.0, np.inf, 2.0], [0.3, 0.1, 0.2], 10) == 1.0
    with pytest.raises(InputError, match="3 values and uncertainty 2"):
        risk_coverage([1, 2, 3], [1, 2])


def test_auroc_of_failures():
    risk, spread = np.array([1, 2, 9, 11, 3.0]), np.array([0.1, 0.5, 0.4, 0.9, 0.2])
    pairs = [(a > b) for a in spread[risk > 8] for b in spread[risk <= 8]]
    assert failure_auroc(risk, spread, 8) == pytest.approx(np.mean(pairs))
    assert np.isnan(failure_auroc(risk, spread, 100))


def test_average_nme_by_rank():
    risk = np.array([4.0, 1.0, 3.0, 2.0])
    curve = nme_by_rank(risk, risk, bins=2)
    assert curve.x.tolist() == [1.5, 3.5] and curve.y.tolist() == [1.5, 3.5]
    assert nme_by_rank([2.0], [1.0]).y.tolist() == [2.0]


def test_uncertainty_of_a_face_is_a_length_in_percent_of_its_box():
    points = np.random.default_rng(0).uniform(0, 100, (2, 68, 2))
    points[:, 0], points[:, 1] = 0.0, 100.0
    spread = np.tile(4 * np.eye(2), (2, 68, 1, 1))  # circles with a standard deviation of 2
    spread[1, 3] = np.nan
    assert face_spread(LabelledFaces.from_arrays(points, points, covariance=spread)).tolist() == [
        pytest.approx(2.0), np.inf,
    ]  # fmt: skip


def test_confidence_reaches_the_metrics(tmp_path) -> None:
    """Two of four faces failed; the confidence knows which, and says so too boldly."""
    truth = np.random.default_rng(0).uniform(0, 100, (4, 6, 2))
    truth[:, 0], truth[:, 1] = 0.0, 100.0  # every box has a size of 100
    shift = np.array([1.0, 2.0, 10.0, 20.0])
    faces = LabelledFaces.from_arrays(
        truth + np.stack([shift, np.zeros(4)], axis=1)[:, None], truth,
        confidence=np.array([0.9, 0.8, 0.1, 0.2]), expected_error=np.array([1.0, 2.0, 11.0, 19.0]),
    )  # fmt: skip
    write_predictions(tmp_path / "p.parquet", faces)
    for read in (faces, read_report_faces(tmp_path / "p.parquet")):
        found = compute_metrics(read, resamples=10)
        assert found.value("confidence_auroc") == 1.0
        expected = (0.1 + 0.2 + 0.1 + 0.2) / 4
        assert found.value("confidence_calibration_error") == pytest.approx(expected)
        assert found.value("expected_error_gain_share") == pytest.approx(1.0)
        assert found.value("expected_error") == pytest.approx(8.25)
