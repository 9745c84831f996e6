"""What a network says must be numbers, whatever runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from luvli.network.backend import CropPrediction, output_fields, output_shapes, usable
from luvli.network.config import NetworkConfig


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


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_a_network_says_of_itself_is_a_number(value: float) -> None:
    assert usable(prediction()._replace(astray=np.array([-7.0, 3.0], np.float32)))
    assert not usable(prediction()._replace(astray=np.array([-7.0, value], np.float32)))


@pytest.mark.parametrize(
    "told", [{}, {"occlusion": True}, {"astray": 5}, {"occlusion": True, "astray": 5}]
)
def test_outputs_and_fields_go_together(told: dict[str, Any]) -> None:
    """Every output of a graph has a field of its own, whichever others there are."""
    config = NetworkConfig(**told)
    shapes, fields = output_shapes(config), output_fields(config)
    assert next(zip(shapes, fields, strict=True)) == ("landmarks", "points")
    assert set(fields) <= set(CropPrediction._fields)
    assert fields[1:] == list(shapes)[1:]
    assert ("occlusion" in shapes, "astray" in shapes) == ("occlusion" in told, "astray" in told)


@pytest.mark.parametrize("place", [(0, 0, 0, 0), (1, 67, 1, 1)])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_variance_is_positive(place: Any, value: float) -> None:
    found = prediction()
    found.covariance[place] = value
    assert not usable(found)
