"""Measures: values by hand, error bars against samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import luvli
from luvli import FaceLandmarks, Faces, InputError
from luvli.markup import get_markup
from luvli.measures.correlation import ErrorModel, fit_factors
from luvli.measures.measure import Measure, definitions, openness_and_slopes

SHAPE = get_markup("ibug68").schematic


def a_face(rng: np.random.Generator, turn: float = 0.0, factors: bool = True) -> FaceLandmarks:
    cos, sin = np.cos(turn), np.sin(turn)
    way = np.array([[cos, -sin, 200.0], [sin, cos, 150.0]])
    root = rng.normal(size=(68, 2, 2)) * 0.4 + np.eye(2)
    face = FaceLandmarks(
        points=60 * SHAPE, covariance=root @ root.swapaxes(1, 2),
        visibility=rng.uniform(0.3, 1, 68), box=[-60, -60, 60, 60],
        error_factors=rng.uniform(-0.35, 0.35, (68, 2, 3)) if factors else None,
    )  # fmt: skip
    return face.transform(way)


@pytest.mark.parametrize("factors", [True, False])
@pytest.mark.parametrize("turn", [0.0, 0.7])
def test_error_bars_are_those_of_samples(turn: float, factors: bool) -> None:
    """Monte Carlo: the delta method is right where errors are small beside the face."""
    face = a_face(np.random.default_rng(3), turn, factors)
    small = replace(face, covariance=face.covariance / 25)
    samples = small.sample(20_000, seed=1)
    for each in definitions():
        measure = small.measures[each.name]
        values = each.function(samples)
        assert measure.value == pytest.approx(float(each.function(small.points[None])[0]))
        assert measure.std == pytest.approx(values.std(), rel=0.06), each.name


def test_samples_keep_every_covariance_and_err_together() -> None:
    face = a_face(np.random.default_rng(0))
    errors = face.sample(40_000, seed=2) - face.points
    covariance = np.einsum("cki,ckj->kij", errors, errors) / len(errors)
    size = np.abs(face.covariance).max(axis=(1, 2), keepdims=True)
    assert (np.abs(covariance - face.covariance) / size).max() < 0.06
    apart = a_face(np.random.default_rng(0), factors=False).sample(40_000, seed=2) - face.points
    together, alone = (np.corrcoef(e.reshape(len(e), -1).T) for e in (errors, apart))
    assert np.abs(together[0, 2:]).max() > 0.1 > np.abs(alone[0, 2:]).max()


def test_correlation_turns_with_the_face() -> None:
    upright, turned = a_face(np.random.default_rng(5)), a_face(np.random.default_rng(5), 1.2)
    for name in ("left_eye_openness", "mouth_width", "jaw_asymmetry"):
        one, other = upright.measures[name], turned.measures[name]
        assert one.value == pytest.approx(other.value)
        assert one.std == pytest.approx(other.std, rel=1e-3)


def test_values_by_hand() -> None:
    points = 100 * SHAPE.copy()
    points[[36, 37, 38, 39, 40, 41]] = [[0, 0], [1, -1], [3, -1], [4, 0], [3, 1], [1, 1]]
    points[45] = [10, 0]
    points[[48, 54, 62, 66]] = [[2, 10], [7, 10], [5, 9], [5, 11]]
    face = FaceLandmarks(points, np.tile(np.eye(2), (68, 1, 1)), np.ones(68), [0, 0, 9, 9])
    measures = face.measures
    assert measures["right_eye_openness"].value == pytest.approx(0.5)
    assert measures["interocular_distance"].value == pytest.approx(10)
    assert measures["mouth_width"].value == pytest.approx(0.5)
    assert measures["mouth_openness"].value == pytest.approx(0.4)
    assert measures["interocular_distance"].std == pytest.approx(np.sqrt(2))
    own = luvli.measure(face, lambda p: np.linalg.norm(p[36] - p[45]))
    assert (own.value, own.std) == pytest.approx((10, np.sqrt(2)))
    with pytest.raises(KeyError, match="no measure is called 'ear'"):
        measures["ear"]


def test_symmetric_faces_are_symmetric() -> None:
    shape = (SHAPE + SHAPE[get_markup("ibug68").flip] * (-1, 1)) / 2
    face = FaceLandmarks(50 * shape, np.tile(np.eye(2), (68, 1, 1)), np.ones(68), [0, 0, 9, 9])
    for name in ("jaw_asymmetry", "nose_asymmetry", "yaw", "roll"):
        assert face.measures[name].value == pytest.approx(0, abs=1e-6)


def test_many_faces_at_once_and_visibility(rng: np.random.Generator) -> None:
    faces = [a_face(rng, turn) for turn in (0.0, 0.3, -0.4)]
    several = Faces.stack(faces).measures
    for name, measure in several.items():
        for i, face in enumerate(faces):
            alone = face.measures[name]
            assert measure[i].value == pytest.approx(alone.value, abs=0.02 * alone.std)
            assert measure[i].std == pytest.approx(alone.std, rel=1e-2)
    mouth = [48, 54, 62, 66]
    expected = min(faces[0].visibility[mouth])
    assert faces[0].measures["mouth_openness"].visible == pytest.approx(expected)


@pytest.mark.parametrize(("likelihood", "reach"), [("gauss", 1.959964), ("student-8", 1.997)])
def test_intervals_hold_what_they_promise(likelihood: str, reach: float) -> None:
    low, high = Measure(1.0, 0.5, 1.0, likelihood=likelihood).interval(0.95)
    assert (high - 1.0) / 0.5 == pytest.approx(reach, abs=2e-3) and low == pytest.approx(2 - high)
    with pytest.raises(InputError, match="coverage"):
        Measure(1.0, 0.5, 1.0).interval(1.0)


def test_factors_are_found_again(rng: np.random.Generator) -> None:
    """Errors drawn from a known correlation give that correlation back."""
    true = rng.uniform(-0.5, 0.5, (20, 2, 2))
    model = ErrorModel(np.tile(np.eye(2), (1, 20, 1, 1)), true[None])
    errors = model.sample(6000, rng)[:, 0]
    errors[rng.random((6000, 20)) < 0.2] = np.nan
    factors = fit_factors(errors, rank=2)
    wanted, found = (f.reshape(40, 2) @ f.reshape(40, 2).T for f in (true, factors))
    apart = np.abs(np.subtract.outer(np.arange(40) // 2, np.arange(40) // 2)) > 0
    assert np.abs(wanted - found)[apart].max() < 0.08


def test_other_point_sets_have_no_measures() -> None:
    with pytest.raises(InputError, match="measures need the 68 points"):
        Faces.empty("wflw98").measures  # noqa: B018


def test_slopes_of_openness_are_its_differences(rng: np.random.Generator) -> None:
    eyes = SHAPE[36:42] + rng.normal(0, 0.02, (5, 6, 2))
    openness, slopes = openness_and_slopes(eyes)
    for j, axis in np.ndindex(6, 2):
        step = np.zeros((6, 2))
        step[j, axis] = 1e-6
        change = openness_and_slopes(eyes + step)[0] - openness_and_slopes(eyes - step)[0]
        np.testing.assert_allclose(slopes[:, j, axis], change / 2e-6, atol=1e-6)
    assert openness_and_slopes(eyes[0])[0] == pytest.approx(openness[0])
