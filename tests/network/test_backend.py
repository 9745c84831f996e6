"""What a network says must be numbers, whatever runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from luvli.network.backend import CropPrediction, usable


def prediction(faces: int = 2) -> CropPrediction:
    covariance = np.tile(np.array([[4.0, -1.5], [-1.5, 2.0]], np.float32), (faces, 68, 1, 1))
    points = np.full((faces, 68, 2), 60.0, np.float32)
    return CropPrediction(points, covariance, np.full((faces, 68), 0.5, np.float32))


@pytest.mark.parametrize("faces", [0, 1, 2, 9])
def test_numbers_are_usable(faces: int) -> None:
    assert usable(prediction(faces))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("points", (1, 67, 1)),
        ("covariance", (0, 3, 0, 1)),
        ("covariance", (1, 67, 1, 1)),
        ("visibility", (0, 0)),
    ],
)
def test_what_is_no_number_is_not(name: str, place: Any, value: float) -> None:
    found = prediction()
    getattr(found, name)[place] = value
    assert not usable(found)


@pytest.mark.parametrize("place", [(0, 0, 0, 0), (1, 67, 1, 1)])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_variance_is_positive(place: Any, value: float) -> None:
    found = prediction()
    found.covariance[place] = value
    assert not usable(found)
