"""Head pose: exact on the mean head, calibrated on random ones, better with weights."""

from __future__ import annotations

import numpy as np
import pytest

from luvli.errors import InputError
from luvli.markup import get_markup
from luvli.measures.correlation import ErrorModel
from luvli.measures.head_fit import mean_head, part_factors
from luvli.measures.head_pose import FRONTAL_PITCH, head_pose, pose_classes
from luvli.measures.rotation import (
    angle_jacobian,
    euler_angles,
    rotation_matrix,
    rotation_of_vector,
)


def _project(points: np.ndarray, angles: np.ndarray, distance: float, scale: float = 20.0):
    turned = points @ rotation_matrix(*angles).T
    flat = scale * turned[:, :2] / (1 - turned[:, 2:] / distance)
    return flat * (1, -1) + (300, 200)


def test_angles_come_back_from_the_matrix() -> None:
    for angles in [(30, -10, 5), (-70, 20, -40), (100, 5, 10), (-115, -30, 60), (0, 80, 170)]:
        matrix = rotation_matrix(*angles)
        assert euler_angles(matrix) == pytest.approx(angles)


def test_angle_jacobian_is_the_derivative() -> None:
    angles = np.random.default_rng(0).uniform(-80, 80, (20, 3))
    step = 1e-6
    turns = rotation_of_vector(step * np.concatenate([np.eye(3), -np.eye(3)]))
    turned = euler_angles(turns @ rotation_matrix(*angles.T)[:, None])
    derivative = (turned[:, :3] - turned[:, 3:]) / (2 * step)
    assert angle_jacobian(angles) == pytest.approx(derivative.swapaxes(1, 2), abs=1e-6)


@pytest.mark.parametrize("angles", [(0, 0, 0), (25, -10, 15), (-60, 5, -30), (80, 15, 100)])
@pytest.mark.parametrize("weighted", [True, False])
def test_mean_head_is_found_exactly(angles: tuple[float, ...], weighted: bool) -> None:
    points = _project(mean_head().mean, np.array(angles), 120.0)  # the distance thought likeliest
    covariance = np.tile(1e-4 * np.eye(2), (68, 1, 1)) if weighted else None
    pose = head_pose(points, covariance)
    assert np.allclose(pose[:3], angles, atol=0.02)


def test_deviations_are_honest_and_weights_help() -> None:
    """People differ as the model says, landmarks of one part err together by as much as is
    known of photographs; ten landmarks are far off and say so."""
    rng = np.random.default_rng(2)
    head = mean_head()
    scores, weighted, alike = [], [], []
    for _ in range(40):
        angles = np.array([rng.uniform(-50, 50), rng.normal(0, 12), rng.normal(0, 15)])
        person = head.mean + np.tensordot(rng.normal(size=len(head.modes)), head.modes, 1)
        person = person + rng.normal(size=(68, 3)) * head.rest[:, None]
        sigma = np.full(68, 1.0)
        sigma[rng.choice(68, 10, replace=False)] = 25.0
        points = _project(person, angles, rng.uniform(60, 400))
        shared = np.zeros((68, 2))
        for part in get_markup("ibug68").groups.values():
            shared[list(part)] = rng.normal(size=2)
        noise = np.sqrt(0.3) * shared + np.sqrt(0.7) * rng.normal(size=(68, 2))
        points = points + noise * sigma[:, None]
        covariance = sigma[:, None, None] ** 2 * np.eye(2)
        pose = head_pose(points, covariance)
        error = np.array(pose[:3]) - angles
        scores.append(error / pose.deviation)
        weighted.append(np.abs(error))
        alike.append(np.abs(np.array(head_pose(points)[:3]) - angles))
    spread = np.std(scores, axis=0)
    assert (spread > 0.7).all() and (spread < 1.35).all()
    assert (np.mean(weighted, axis=0) < 0.5 * np.mean(alike, axis=0)).all()


def test_deviations_are_those_of_samples_that_err_together() -> None:
    """Monte Carlo: with a model's correlation between landmarks, which shifts whole parts, the
    deviations are those of the poses of samples; taken for independent, landmarks seem too sure."""
    rng = np.random.default_rng(4)
    head, count = mean_head(), 300
    angles = np.column_stack([rng.uniform(-40, 40, count), rng.normal(0, 10, (count, 2))])
    people = head.mean + np.tensordot(rng.normal(size=(count, len(head.modes))), head.modes, 1)
    people = people + rng.normal(size=(count, 68, 3)) * head.rest[:, None]
    points = np.stack(
        [_project(person, each, 120.0) for person, each in zip(people, angles, strict=True)]
    )
    factors = rng.normal(size=(68, 1, 1)) * 0.1 + np.array([[[0.6, 0.0], [0.0, 0.6]]])
    factors = factors * np.sign(np.arange(68) - 16.5)[:, None, None]  # jaw against the rest
    covariance = np.tile(64.0 * np.eye(2), (count, 68, 1, 1))  # 8 px on a face of 250
    errors = ErrorModel.of(covariance, np.tile(factors, (count, 1, 1, 1)))
    sampled = points + errors.sample(1, rng)[0]
    together = head_pose(sampled, covariance, factors=factors)
    apart = head_pose(sampled, covariance, factors=np.zeros((68, 2, 0)))
    spread, too_sure = (
        np.std((np.stack(pose[:3], axis=1) - angles) / pose.deviation, axis=0)
        for pose in (together, apart)
    )
    assert (np.abs(spread - 1) < 0.15).all()  # 3.5 standard errors
    assert (too_sure > 1.1).all()


def test_parts_that_move_together_look_like_a_turn_and_many_faces_equal_one_by_one() -> None:
    rng = np.random.default_rng(3)
    angles = np.array([[10.0, 5.0, 0.0], [-40.0, 0.0, 20.0]])
    points = np.stack([_project(mean_head().mean, each, 100.0) for each in angles])
    points = points + rng.normal(size=points.shape)
    covariance = np.tile(4.0 * np.eye(2), (2, 68, 1, 1))
    factors = part_factors()
    apart = head_pose(points, covariance, factors=np.zeros((68, 2, 0)))
    together = head_pose(points, covariance, factors=factors)
    assert (together.deviation[:, 0] > apart.deviation[:, 0]).all()  # yaw: the nose, the jaw
    for i in range(2):
        single = head_pose(points[i], covariance[i], factors=factors)
        assert single[:3] == pytest.approx([each[i] for each in together[:3]], abs=0.05)
        assert single.covariance == pytest.approx(together.covariance[i], rel=0.02)


def test_mirror_image_looks_the_other_way() -> None:
    rng = np.random.default_rng(0)
    points = _project(mean_head().mean, np.array([30.0, 8.0, 12.0]), 90.0)
    points = points + rng.normal(0, 2, (68, 2))
    covariance = np.tile(np.eye(2), (68, 1, 1))
    flip = get_markup("ibug68").flip
    mirrored = (points * (-1, 1))[flip]
    one, other = head_pose(points, covariance), head_pose(mirrored, covariance)
    assert np.allclose(
        (one.yaw, one.pitch, one.roll), (-other.yaw, other.pitch, -other.roll), atol=0.3
    )
    assert one.direction[0] == pytest.approx(-other.direction[0], abs=0.01)


def test_hidden_landmarks_do_not_count_and_too_few_give_nan() -> None:
    points = _project(mean_head().mean, np.array([40.0, 0.0, 0.0]), 120.0)
    visible = np.ones(68)
    visible[:8] = 0.0
    moved = points.copy()
    moved[:8] += 500
    covariance = np.tile(np.eye(2), (68, 1, 1))
    assert head_pose(moved, covariance, visible).yaw == pytest.approx(40.0, abs=0.5)
    assert np.isnan(head_pose(points, covariance, np.zeros(68)).yaw)
    with pytest.raises(InputError, match="68 points"):
        head_pose(points[:20])


def test_landmarks_of_another_convention_are_less_certain() -> None:
    """The same pose, less sure: pitch most, because parts that sit higher look like a nod."""
    points = _project(mean_head().mean, np.array((20.0, 5.0, -3.0)), 120.0)
    covariance = np.tile(np.eye(2), (68, 1, 1))
    own, other = head_pose(points, covariance), head_pose(points, covariance, other_convention=True)
    assert np.allclose(np.subtract(other[:3], own[:3]), (0, -FRONTAL_PITCH, 0))
    expected = 1.5**2 * np.diag(own.covariance) + (0.0, 4.5**2, 0.0)
    assert np.diag(other.covariance) == pytest.approx(expected)
    assert (np.linalg.eigvalsh(other.covariance) > 0).all()


def test_pose_classes() -> None:
    tilt = np.array([[0.8, -0.6], [0.6, 0.8]]) * 40
    for yaw, kind in {0: "frontal", 12: "frontal", 32: "half-profile", 60: "profile"}.items():
        for side in (yaw, -yaw):
            turned = (mean_head().mean @ rotation_matrix(side, 0, 0).T)[:, :2] * (1, -1)
            both = pose_classes(np.stack([turned, turned @ tilt.T + 100]))
            assert both.tolist() == [kind, kind]
    assert pose_classes(np.full((68, 2), np.nan)) == "unknown"
