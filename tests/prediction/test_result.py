"""Results as they are written: fewer digits, the same numbers."""

from __future__ import annotations

import json

import numpy as np

from luvli.faces import FaceLandmarks
from luvli.prediction.result import Result, significant


def test_significant_digits_are_those_of_python() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=2000) * 10.0 ** rng.integers(-10, 15, 2000)
    values[:4] = 0.0, 1e300, 999999.5, -1e-300
    written = [float(f"{value:.6g}") for value in values[4:]]
    assert significant(values)[4:].tolist() == written
    assert significant(values)[:4].tolist() == [0.0, 1e300, 1e6, -1e-300]


def test_a_line_keeps_a_thousandth_of_a_pixel_and_what_is_unknown() -> None:
    face = FaceLandmarks(
        points=[[1.23456, 7.0], [np.nan, np.nan]],
        covariance=[[[2.0, 1e-4 / 3], [1e-4 / 3, 5e-7 / 3]], np.eye(2)],
        visibility=[0.123456, 1.0],
        box=[0, 0, 9.87654, 9],
        score=0.98765,
        markup="mine2",
        confidence=0.5,
    )
    row = json.loads(Result("a.jpg", (face,)).to_line())["faces"][0]
    assert row["points"] == [[1.235, 7.0], [None, None]]
    assert row["covariance"][0] == [[2.0, 3.33333e-05], [3.33333e-05, 1.66667e-07]]
    assert (row["visibility"], row["score"], row["confidence"]) == ([0.1235, 1.0], 0.9877, 0.5)
    assert row["box"] == [0.0, 0.0, 9.877, 9.0]
