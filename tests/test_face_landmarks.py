"""FaceLandmarks: shapes, checks, geometry, JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from luvli import FaceLandmarks, InputError
from luvli.markup import get_markup


def made_up(rng: np.random.Generator, **changes: Any) -> FaceLandmarks:
    factor = rng.normal(size=(68, 2, 2))
    fields: dict[str, Any] = {
        "points": rng.normal(100, 30, (68, 2)),
        "covariance": factor @ factor.transpose(0, 2, 1) + 0.1 * np.eye(2),
        "visibility": rng.uniform(size=68),
        "box": [10.0, 20.0, 110.0, 140.0],
        "score": 0.75,
        "markup": "ibug68",
    }
    return FaceLandmarks(**(fields | changes))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("points", np.zeros((67, 2)), ["ibug68", "68 points", "67"]),
        ("points", np.zeros(68), ["(k, 2)", "(68,)"]),
        ("covariance", np.zeros((68, 2)), ["(68, 2, 2)", "(68, 2)"]),
        ("visibility", np.zeros((68, 1)), ["(68,)", "(68, 1)"]),
        ("visibility", np.full(68, 1.5), ["0..1", "1.5"]),
        ("box", [1, 2, 3], ["(4,)", "(3,)"]),
        ("covariance", np.tile([[1.0, 2.0], [2.0, 1.0]], (68, 1, 1)), ["positive-definite"]),
        ("covariance", np.tile([[1.0, 0.5], [0.1, 1.0]], (68, 1, 1)), ["symmetric"]),
        ("covariance", np.zeros((68, 2, 2)), ["positive-definite"]),
        ("points", "nonsense", ["points"]),
        ("visibility", np.full(68, np.nan), ["visibility", "0..1", "nan"]),
        ("occlusion", np.zeros(67), ["occlusion", "(68,)", "(67,)"]),
        ("occlusion", np.full(68, -0.1), ["occlusion", "0..1", "-0.1"]),
        ("confidence", 1.2, ["confidence", "0..1", "1.2"]),
        ("expected_error", -1.0, ["expected_error", "at least 0"]),
    ],
)
def test_wrong_fields_are_refused_with_expected_and_actual(
    rng: np.random.Generator, field: str, value: Any, words: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        made_up(rng, **{field: value})
    assert all(word in str(error.value) for word in words)


def test_a_markup_of_ones_own_allows_any_count() -> None:
    face = FaceLandmarks(
        np.zeros((3, 2)), np.tile(np.eye(2), (3, 1, 1)), np.ones(3), np.arange(4), markup="x3"
    )
    assert len(face) == 3


def test_ellipses_have_the_wanted_mahalanobis_distance_everywhere(rng: np.random.Generator) -> None:
    face = made_up(rng)
    centre, half_axes, angle = face.ellipses(1.7)
    assert (half_axes[:, 0] >= half_axes[:, 1]).all()
    assert ((angle >= -90) & (angle < 90)).all()
    for t in np.linspace(0, 2 * np.pi, 7):
        turn = np.radians(angle)
        major = np.stack([np.cos(turn), np.sin(turn)], axis=1)
        minor = np.stack([-np.sin(turn), np.cos(turn)], axis=1)
        rim = centre + np.cos(t) * half_axes[:, :1] * major + np.sin(t) * half_axes[:, 1:] * minor
        d = rim - face.points
        distance = np.sqrt(np.einsum("ki,kij,kj->k", d, np.linalg.inv(face.covariance), d))
        np.testing.assert_allclose(distance, 1.7, rtol=1e-9)


def test_transform_keeps_the_box_upright_around_the_moved_one(rng: np.random.Generator) -> None:
    face = made_up(rng)
    quarter_turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    assert face.transform(quarter_turn).box.tolist() == [-140.0, 10.0, -20.0, 110.0]


@pytest.mark.parametrize("trained", [True, False])
def test_json_is_lossless_and_leaves_out_what_is_not_known(
    rng: np.random.Generator, trained: bool
) -> None:
    face = made_up(rng, visibility_trained=trained)
    assert np.isnan(face.occlusion).all() and face.confidence is None and not face.occluded().any()
    row = face.to_dict()
    assert FaceLandmarks.from_dict(json.loads(json.dumps(row, allow_nan=False))) == face
    assert not {"occlusion", "occlusion_trained", "confidence", "expected_error"} & set(row)


@pytest.mark.parametrize("markup", ["ibug68", "wflw98", "cofw29", "aflw19"])
def test_empty_has_the_right_shape_and_survives_json(markup: str) -> None:
    empty = FaceLandmarks.empty(markup)
    k = get_markup(markup).size
    assert empty.points.shape == (k, 2) and empty.covariance.shape == (k, 2, 2)
    assert empty.is_empty and not empty.visible(0.0).any()
    assert (
        FaceLandmarks.from_dict(json.loads(json.dumps(empty.to_dict(), allow_nan=False))) == empty
    )
    assert np.isnan(empty.ellipses().half_axes).all()


def test_occlusion_confidence_and_expected_error_travel_along(rng: np.random.Generator) -> None:
    occlusion = np.linspace(0, 1, 68)
    occlusion[3] = np.nan  # not known
    face = made_up(
        rng, occlusion=occlusion, occlusion_trained=True, confidence=0.75, expected_error=3.5
    )
    assert face.occluded(0.5).sum() == 34
    for other in (FaceLandmarks.from_dict(json.loads(json.dumps(face.to_dict()))), face):
        assert other == face and other.occlusion_trained
        assert (other.confidence, other.expected_error) == (0.75, 3.5)
    moved = face.transform([[2.0, 0, 5], [0, 2.0, 5]])
    assert np.array_equal(moved.occlusion, occlusion, equal_nan=True)
    assert (moved.confidence, moved.expected_error) == (0.75, 3.5)
    for change in ({"occlusion": 1 - occlusion}, {"confidence": 0.7}, {"expected_error": None}):
        assert replace(face, **change) != face  # type: ignore[arg-type]


def test_uncertainty_is_the_geometric_mean_of_the_half_axes(rng: np.random.Generator) -> None:
    face = made_up(rng)
    long, short = face.ellipses(1.0).half_axes.T
    np.testing.assert_allclose(face.uncertainty, np.sqrt(long * short))
    named = face.least_sure(3)
    worst = np.argsort(face.uncertainty)[::-1][:3]
    assert [name for name, _ in named] == [get_markup("ibug68").names[j] for j in worst]
    assert [value for _, value in named] == pytest.approx(face.uncertainty[worst].tolist())


def test_ellipses_of_a_coverage_know_the_likelihood() -> None:
    """A sample of the model's own density falls inside as often as it should."""
    from luvli.likelihood import family

    rng = np.random.default_rng(0)
    covariance = np.array([[[4.0, 1.0], [1.0, 2.0]]])
    for name in ("laplace", "gauss", "student-8"):
        face = FaceLandmarks(
            points=[[10.0, 20.0]], covariance=covariance, visibility=[1.0], box=[0, 0, 20, 20],
            markup="mine1", likelihood=name,
        )  # fmt: skip
        ellipses = face.ellipses(coverage=0.8)
        law = family(name).from_covariance(face.points, covariance)
        drawn = law.sample(20_000, rng)[:, 0] - ellipses.centre[0]
        turn = np.radians(ellipses.angle[0])
        along = drawn @ np.array([np.cos(turn), np.sin(turn)])
        across = drawn @ np.array([-np.sin(turn), np.cos(turn)])
        inside = (along / ellipses.half_axes[0, 0]) ** 2 + (across / ellipses.half_axes[0, 1]) ** 2
        assert (inside <= 1).mean() == pytest.approx(0.8, abs=0.012)
        assert FaceLandmarks.from_dict(face.to_dict()) == face
    with pytest.raises(InputError, match="likelihood"):
        FaceLandmarks(
            points=[[1.0, 2.0]], covariance=covariance, visibility=[1.0], box=[0, 0, 9, 9],
            markup="mine1", likelihood="cauchy",
        )  # fmt: skip


def test_regions_scale_each_ellipse_and_stay_out_of_files() -> None:
    from luvli.faces import RegionRadii

    radii = RegionRadii(
        np.array([0.5, 0.9]), np.array([[1.0, 2.0], [3.0, np.inf]]), np.array([4.0, 5.0])
    )
    face = FaceLandmarks(
        points=np.zeros((2, 2)), covariance=np.tile(np.eye(2), (2, 1, 1)), visibility=[1, 1],
        box=[0, 0, 9, 9], markup="mine2", regions=radii,
    )  # fmt: skip
    assert face.region(0.5).half_axes.tolist() == [[1, 1], [3, 3]]
    assert face.region(0.6).half_axes[0].tolist() == [2, 2]  # the next higher level
    assert np.isinf(face.region(0.9).half_axes[1]).all()
    assert face.region(0.9, joint=True).half_axes.tolist() == [[5, 5], [5, 5]]
    again = FaceLandmarks.from_dict(face.to_dict())
    assert again == face and again.regions is None
    with pytest.raises(InputError, match="luvli calibrate"):
        again.region(0.9)
    with pytest.raises(InputError, match="between 0 and 1"):
        face.region(1.5)


def test_head_pose_of_a_face() -> None:
    from luvli.measures.head_fit import mean_head

    points = mean_head().mean[:, :2] * (10, -10) + 200  # seen from far away, straight ahead
    face = FaceLandmarks(
        points=points, covariance=np.tile(np.eye(2), (68, 1, 1)), visibility=np.ones(68),
        box=[0, 0, 400, 400],
    )  # fmt: skip
    pose = face.head_pose()
    assert (np.abs(pose[:3]) < 3 * pose.deviation + 0.5).all()
    turned = face.transform([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]).head_pose()  # clockwise, as seen
    assert turned.roll - pose.roll == pytest.approx(90, abs=1e-3)
    small = FaceLandmarks(
        points=[[1.0, 2.0]], covariance=[np.eye(2)], visibility=[1.0], box=[0, 0, 9, 9],
        markup="mine1",
    )  # fmt: skip
    with pytest.raises(InputError, match="68 points"):
        small.head_pose()
