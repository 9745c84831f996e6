"""Smoothing against motion with known truth and noise as large as the model says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from luvli.faces import Faces
from luvli.prediction.smooth import (
    FilterState,
    LiveSmoother,
    look_back,
    measurement_noise,
    motion,
    smooth_tracks,
    start,
    step,
)

from .conftest import SHAPE

FRAMES, RATE, HALF = 240, 30.0, 75.0
TIMES = (np.arange(FRAMES) / RATE).tolist()


class Item(NamedTuple):
    faces: Faces


def spreads(rng: np.random.Generator) -> np.ndarray:
    root = rng.normal(0, 1.0, (68, 2, 2))
    return root @ root.transpose(0, 2, 1) + 0.8 * np.eye(2)


def still() -> np.ndarray:
    return np.tile(300 + HALF * SHAPE, (FRAMES, 1, 1))


def head_turn(period: float, degrees: float = 45.0) -> np.ndarray:
    """Points on a round head that looks from side to side."""
    depth = HALF * np.sqrt(np.maximum(1.3 - SHAPE[:, 0] ** 2, 0))
    yaw = np.radians(degrees) * np.sin(2 * np.pi * np.array(TIMES) / period)[:, None]
    x = np.cos(yaw) * HALF * SHAPE[:, 0] + np.sin(yaw) * depth
    y = np.broadcast_to(HALF * SHAPE[:, 1], x.shape)
    return 300 + np.stack([x, y], axis=-1)


def walk() -> np.ndarray:
    """Stands, runs off at two face widths a second, stops."""
    way = np.interp(TIMES, [0, 2, 2.3, 5, 5.3, 9], [0, 0, 45, 855, 900, 900])
    return still() + np.stack([way, 0 * way], axis=-1)[:, None]


def run(
    truth: np.ndarray, offline: bool, visibility: np.ndarray | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    covariance = spreads(rng)
    noise = np.einsum("kij,nkj->nki", np.linalg.cholesky(covariance), rng.normal(size=truth.shape))
    measured = truth + noise
    seen = np.ones(68) if visibility is None else visibility
    return measured, smoothed(measured, covariance, seen, offline)


def smoothed(
    points: np.ndarray, covariance: np.ndarray, visibility: np.ndarray, offline: bool = True
) -> np.ndarray:
    items = (
        Item(
            Faces(
                frame[None],
                covariance[None],
                visibility[None],
                track=np.array([1]),
                time=np.array([time]),
            )
        )
        for time, frame in zip(TIMES, points, strict=True)
    )
    return np.array([item.faces.points[0] for item in smooth_tracks(items, offline)])


def jitter(points: np.ndarray, truth: np.ndarray) -> float:
    """Root mean square of what moves from frame to frame and should not."""
    return float(np.sqrt((np.diff(points - truth, axis=0) ** 2).mean()))


def error(points: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(((points - truth) ** 2).mean()))


@pytest.mark.parametrize(("offline", "most"), [(True, 0.2), (False, 0.5)])
def test_jitter_of_a_still_face_is_cut_by_half_and_more(offline: bool, most: float) -> None:
    truth = still()
    measured, smooth = run(truth, offline)
    assert jitter(smooth, truth) < most * jitter(measured, truth)
    assert error(smooth, truth) < error(measured, truth)


@pytest.mark.parametrize("offline", [True, False], ids=["RTS", "filter"])
@pytest.mark.parametrize(
    "truth", [head_turn(4), head_turn(2), head_turn(1), walk()], ids=["4 s", "2 s", "1 s", "walk"]
)
def test_a_moving_face_is_not_lagged_behind(truth: np.ndarray, offline: bool) -> None:
    measured, smooth = run(truth, offline)
    velocity = np.gradient(truth, axis=0)
    delay = -((smooth - truth) * velocity).sum() / (velocity**2).sum()  # frames
    assert abs(delay) < (0.02 if offline else 0.15)
    speed = np.linalg.norm(velocity, axis=-1)
    ahead = ((smooth - truth) * velocity).sum(-1)[speed > 0.5] / speed[speed > 0.5]
    noise = error(measured, truth)
    assert abs(ahead.mean()) < (0.05 if offline else 0.25) * noise
    # nowhere is the whole face further off than the noise of a single point
    assert np.abs((smooth - truth).mean(axis=1)).max() < noise
    assert error(smooth, truth) < error(measured, truth)


def test_hidden_points_are_trusted_less() -> None:
    """A hidden point's noise is three times what the model says; visibility makes up for it."""
    truth = head_turn(3)
    rng = np.random.default_rng(1)
    covariance = np.tile(np.eye(2) * 2, (68, 1, 1))
    hidden = np.arange(68) < 17
    noise = rng.normal(0, np.sqrt(2), truth.shape) * np.where(hidden, 4.0, 1.0)[:, None]
    results = []
    for visibility in (np.ones(68), np.where(hidden, 0.06, 1.0)):
        results.append(smoothed(truth + noise, covariance, visibility))
    told, ignored = (error(r[:, hidden], truth[:, hidden]) for r in (results[1], results[0]))
    assert told < 0.8 * ignored
    np.testing.assert_allclose(
        measurement_noise(covariance, np.full(68, 0.25)), 4 * covariance
    )  # Sigma / v


def test_filter_and_look_back_agree_with_least_squares() -> None:
    """The smoothed path is the one that explains all measurements and motions best."""
    rng = np.random.default_rng(3)
    n, size = 12, 50.0
    points = np.cumsum(rng.normal(0, 0.3, (n, 1, 2)), axis=0)  # calm: the memory does not fade
    noise = np.array([[[2.0, 0.5], [0.5, 1.0]]])
    states: list[FilterState] = [start(0.0, points[0], noise, size)]
    for i in range(1, n):
        states.append(step(states[-1], i / 30, points[i], noise, size))
    smooth = np.array(look_back(states))[:, 0]
    transition, process = motion(1 / 30, 0.6 * size)
    information, vector = np.zeros((4 * n, 4 * n)), np.zeros(4 * n)
    first = np.linalg.inv(states[0].covariance[0])
    information[:4, :4] += first
    vector[:4] += first @ states[0].mean[0]
    for i in range(1, n):
        link = np.zeros((4, 4 * n))
        link[:, 4 * i : 4 * i + 4], link[:, 4 * i - 4 : 4 * i] = np.eye(4), -transition
        information += link.T @ np.linalg.inv(process) @ link
        at = slice(4 * i, 4 * i + 2)
        information[at, at] += np.linalg.inv(noise[0])
        vector[at] += np.linalg.inv(noise[0]) @ points[i, 0]
    best = np.linalg.solve(information, vector).reshape(n, 4)[:, :2]
    np.testing.assert_allclose(smooth, best, atol=1e-6)


def test_lids_that_shut_are_followed_at_once() -> None:
    """Live smoothing keeps still lids still and lets a blink of four frames through."""
    rng = np.random.default_rng(0)
    upper, lower = [37, 38, 43, 44], [41, 40, 47, 46]
    smoother = LiveSmoother()
    gaps = []
    for i in range(60):
        points = 300 + HALF * SHAPE
        if 40 <= i < 44:
            middle = (points[upper] + points[lower]) / 2
            points[upper] = points[lower] = middle
        points = points + rng.normal(0, 0.2, points.shape)
        smooth = smoother.push(i / 30, points, np.tile(np.eye(2), (68, 1, 1)))
        gaps.append(float((smooth[lower, 1] - smooth[upper, 1]).mean()))
    open_gap = np.mean(gaps[20:40])
    assert np.std(gaps[20:40]) < 0.1
    assert max(gaps[40:44]) < 0.25 * open_gap and min(gaps[45:50]) > 0.8 * open_gap
