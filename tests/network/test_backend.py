"""A network's outputs must be numbers, whatever runs it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from luvli.errors import InputError
from luvli.faces import Faces
from luvli.network.backend import FIELDS, faces_in_crops, network_outputs
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo

INFO = ModelInfo(name="net", config=NetworkConfig())


def outputs(faces: int = 2) -> dict[str, Any]:
    covariance = np.tile(np.array([[4.0, -1.5], [-1.5, 2.0]], np.float32), (faces, 68, 1, 1))
    return {
        "landmarks": np.full((faces, 68, 2), 60.0, np.float32),
        "covariance": covariance,
        "visibility": np.full((faces, 68), 0.5, np.float32),
    }


@pytest.mark.parametrize("count", [0, 1, 9])
def test_outputs_become_faces(count: int) -> None:
    faces = faces_in_crops(outputs(count), INFO)
    assert len(faces) == count and faces.points.dtype == np.float64
    assert np.isnan(faces.failure_logit).all() and np.isnan(faces.boxes).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("name", "place"),
    [("landmarks", (1, 67, 1)), ("covariance", (0, 3, 0, 1)), ("visibility", (0, 0))],
)
def test_outputs_that_are_no_numbers_are_refused(name: str, place: Any, value: float) -> None:
    wrong = outputs()
    wrong[name][place] = value
    with pytest.raises(InputError, match="net gives locations or covariances that are not numbers"):
        faces_in_crops(wrong, INFO)


@pytest.mark.parametrize(("place", "value"), [((0, 0, 0, 0), -1.0), ((1, 67, 1, 1), -3.0)])
def test_a_negative_variance_is_refused(place: Any, value: float) -> None:
    wrong = outputs()
    wrong["covariance"][place] = value
    with pytest.raises(InputError, match="negative variances"):
        faces_in_crops(wrong, INFO)


def test_a_covariance_that_rounding_made_singular_stays_one() -> None:
    flat = outputs()
    flat["covariance"][1, 5] = [[9.0, 9.0], [9.0, 9.0]]
    flat["covariance"][0, 5] = 0.0
    faces = faces_in_crops(flat, INFO)
    assert (np.linalg.eigvalsh(faces.covariance) > 0).all()
    np.testing.assert_allclose(faces.covariance[1, 5], 9.0, rtol=1e-5)


@pytest.mark.parametrize(
    "heads", [{}, {"occlusion": True}, {"failure_head": 5}, {"occlusion": True, "failure_head": 5}]
)
def test_every_output_has_a_field(heads: dict[str, Any]) -> None:
    shapes = network_outputs(NetworkConfig(**heads))
    assert next(iter(shapes)) == "landmarks"
    assert {FIELDS[name] for name in shapes} <= {field.name for field in fields(Faces)}
    assert len(shapes) == 3 + len(heads)
