"""Failure detection by uncertainty, against sorting and counting."""

from __future__ import annotations

import numpy as np
import pytest

from luvli.errors import InputError
from luvli.evaluation.accuracy import FAILED_NME
from luvli.evaluation.selective import (
    face_uncertainty,
    failure_auroc,
    nme_by_rank,
    risk_coverage,
)


def test_curve_is_the_mean_of_the_most_certain():
    rng = np.random.default_rng(0)
    risk, spread = rng.gamma(2, 1, (2, 50))
    curve = risk_coverage(risk, spread)
    for kept in (1, 7, 50):
        most_certain = sorted(zip(spread, risk, strict=True))[:kept]
        assert curve.y[kept - 1] == pytest.approx(np.mean([r for _, r in most_certain]))
        assert curve.x[kept - 1] == pytest.approx(kept / 50)
    assert curve.value == pytest.approx(curve.y.mean())


def test_a_perfect_order_has_no_excess_and_none_beats_it():
    risk = np.random.default_rng(1).gamma(2, 1, 80)
    best = risk_coverage(risk, risk).value
    assert best == pytest.approx((np.cumsum(np.sort(risk)) / np.arange(1, 81)).mean())
    assert best < risk_coverage(risk, risk[::-1]).value < risk_coverage(risk, -risk).value


def test_a_useless_uncertainty_keeps_the_mean_risk_everywhere():
    risk = np.array([1.0, 5.0, 3.0])
    assert risk_coverage(risk, np.ones(3)).y == pytest.approx(3.0)


def test_ties_do_not_depend_on_the_order_of_the_faces():
    rng = np.random.default_rng(2)
    risk, spread = rng.gamma(2, 1, 40), rng.integers(0, 5, 40).astype(float)
    order = rng.permutation(40)
    assert risk_coverage(risk, spread).value == pytest.approx(
        risk_coverage(risk[order], spread[order]).value
    )


def test_failures_come_last_and_are_counted():
    curve = risk_coverage([1.0, np.inf, 2.0, np.nan], [0.3, 0.1, 0.2, 0.1])
    assert curve.y == pytest.approx([2.0, 1.5, (3 + FAILED_NME) / 3])
    assert failure_auroc([1.0, np.inf, 2.0], [0.3, 0.1, 0.2], 10) == 1.0


def test_auroc_of_failures():
    risk = np.array([1, 2, 9, 11, 3.0])
    spread = np.array([0.1, 0.5, 0.4, 0.9, 0.2])
    pairs = [(a > b) for a in spread[risk > 8] for b in spread[risk <= 8]]
    assert failure_auroc(risk, spread, 8) == pytest.approx(np.mean(pairs))
    assert np.isnan(failure_auroc(risk, spread, 100))


def test_average_nme_by_rank():
    risk = np.array([4.0, 1.0, 3.0, 2.0])
    curve = nme_by_rank(risk, risk, bins=2)
    assert curve.x.tolist() == [1.5, 3.5] and curve.y.tolist() == [1.5, 3.5]
    assert nme_by_rank([2.0], [1.0]).y.tolist() == [2.0]


def test_face_uncertainty_is_a_length_in_percent():
    spread = np.full((2, 68), 4.0)  # |Sigma|^(1/2) of a circle with standard deviation 2
    assert face_uncertainty(spread, [100.0, 50.0]) == pytest.approx([2.0, 4.0])
    spread[1, 3] = np.nan
    assert np.isinf(face_uncertainty(spread, [100.0, 50.0])[1])


def test_lengths_must_agree():
    with pytest.raises(InputError, match="3 values and uncertainty 2"):
        risk_coverage([1, 2, 3], [1, 2])


def test_confidence_reaches_the_metrics(tmp_path) -> None:
    """Two of four faces failed; the confidence knows which, and says so too boldly."""
    from luvli.evaluation.labelled_faces import LabelledFaces
    from luvli.evaluation.metrics import compute_metrics
    from luvli.evaluation.report import value_table
    from luvli.evaluation.report_file import read_parquet, write_predictions

    truth = np.random.default_rng(0).uniform(0, 100, (4, 6, 2))
    truth[:, 0], truth[:, 1] = 0.0, 100.0  # every box has a size of 100
    shift = np.array([1.0, 2.0, 10.0, 20.0])
    predicted = truth + np.stack([shift, np.zeros(4)], axis=1)[:, None]
    faces = LabelledFaces.from_arrays(
        points=predicted, labels=truth, label_visibility=np.ones((4, 6), np.int8),
        covariance=np.tile(np.eye(2), (4, 6, 1, 1)), confidence=np.array([0.9, 0.8, 0.1, 0.2]),
        expected_error=np.array([1.0, 2.0, 11.0, 19.0]),
    )  # fmt: skip
    found = compute_metrics(faces, resamples=10)
    assert found.value("confidence_auroc") == 1.0
    expected = (0.1 + 0.2 + 0.1 + 0.2) / 4
    assert found.value("confidence_calibration_error") == pytest.approx(expected)
    assert found.value("expected_error_gain_share") == pytest.approx(1.0)
    assert found.value("expected_error") == pytest.approx(8.25)
    write_predictions(tmp_path / "p.parquet", faces)
    again = read_parquet(tmp_path / "p.parquet")
    assert again.faces.confidence.tolist() == faces.faces.confidence.tolist()
    rows = {row[0]: row[1] for row in value_table(compute_metrics(again, resamples=10)).rows}
    assert rows["AUROC of the confidence"] == "1.000"
