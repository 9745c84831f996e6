"""Smoothing in time: a Kalman filter that listens to each point as far as the point is sure.

Each landmark has its own constant-velocity filter, state (x, y, vx, vy). Its measurement is
the predicted location, the noise of that measurement is the predicted covariance divided by
the visibility: with probability v the point tells where it is, otherwise it tells nothing,
so it carries v Sigma^-1 of information.

Process noise is white acceleration, as strong as heads move (`ACCELERATION`). When a whole
face departs from its forecast by more than both noises explain, the forecast is trusted less
until it fits again (a fading memory): smoothing is strong on a still face and steps back
when the head turns. Offline, a Rauch-Tung-Striebel pass looks back from `LAG` frames later,
so that nothing lags; it holds `LAG` + `BLOCK` frames in memory, however long the video is.

The covariances of the faces are left as they are. Most of a landmark's error is the same in
neighbouring frames, and time does not average it away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.faces import FaceLandmarks, Faces
from luvli.likelihood.covariance import inverse

ACCELERATION = 0.6
"""Standard deviation of a head's acceleration, in face sizes per second squared, over one
second: white noise of spectral density ACCELERATION^2 per second."""
START_SPEED = 2.0
"""Standard deviation of the unknown first velocity, in face sizes per second."""
MIN_VISIBILITY = 0.02
"""Below it a point is listened to as if it had this much visibility: never not at all."""
LAG, BLOCK = 30, 30
"""frames that the backward pass looks ahead, and that it finishes at a time"""
MAX_FADING = 1e4
SHAPE_CHANGE = 0.006
"""how much the shape of a face changes in a second, in face sizes, for `LiveSmoother`"""
BENDING = 0.03
"""usual size of the quadratic terms of a motion from frame to frame, in face sizes"""
STILL = 0.004
"""motion from frame to frame, in face sizes, half of which is taken for noise"""
UNUSUAL = 6.0
"""departures of so many times the usual one are followed by half"""


class FilterState(NamedTuple):
    """k landmarks after one frame: state (k, 4) as x, y, vx, vy in pixels and pixels per
    second, its covariance (k, 4, 4), and the forecast that the frame was met with."""

    time: float
    mean: Floats
    covariance: Floats
    forecast_mean: Floats
    forecast_covariance: Floats
    transition: Floats
    """(4, 4) from the frame before"""


def measurement_noise(covariance: Floats, visibility: Floats) -> Floats:
    """(k, 2, 2) noise of a predicted location: Sigma / v."""
    return covariance / np.maximum(visibility, MIN_VISIBILITY)[:, None, None]


def face_size(points: Floats) -> float:
    """Geometric mean of the width and height of points (k, 2), in pixels; 1 for a line."""
    return float(np.sqrt(np.prod(np.ptp(points, axis=0)))) or 1.0


def start(time: float, points: Floats, noise: Floats, size: float) -> FilterState:
    """The state after the first frame: the measurement, and a velocity of which only the
    usual amount is known. `size` is the face's, in pixels."""
    k = len(points)
    mean = np.concatenate([points, np.zeros((k, 2))], axis=1)
    covariance = np.zeros((k, 4, 4))
    covariance[:, :2, :2] = noise
    covariance[:, 2:, 2:] = (START_SPEED * size) ** 2 * np.eye(2)
    return FilterState(time, mean, covariance, mean, covariance, np.eye(4))


def step(
    before: FilterState, time: float, points: Floats, noise: Floats, size: float
) -> FilterState:
    """One frame onward: forecast, then correction by the points (k, 2) with noise (k, 2, 2)."""
    seconds = _elapsed(before.time, time)
    transition, process = motion(seconds, ACCELERATION * size)
    mean = before.mean @ transition.T
    carried = transition @ before.covariance @ transition.T
    covariance = carried + process
    surprise = points - mean[:, :2]
    covariance = covariance * _fading(surprise, covariance[:, :2, :2], noise)
    gain = covariance[:, :, :2] @ inverse(covariance[:, :2, :2] + noise)
    corrected = mean + (gain @ surprise[:, :, None])[:, :, 0]
    # Joseph's form: stays symmetric and positive however sure the points are
    keep = np.eye(4) - np.concatenate([gain, np.zeros_like(gain)], axis=2)
    updated = keep @ covariance @ keep.transpose(0, 2, 1) + gain @ noise @ gain.transpose(0, 2, 1)
    return FilterState(time, corrected, updated, mean, covariance, transition)


def motion(seconds: float, acceleration: float) -> tuple[Floats, Floats]:
    """Transition (4, 4) and process noise (4, 4) of white acceleration (density a^2)."""
    transition = np.eye(4)
    transition[0, 2] = transition[1, 3] = seconds
    block = np.array([[seconds**3 / 3, seconds**2 / 2], [seconds**2 / 2, seconds]])
    process: Floats = np.kron(acceleration**2 * block, np.eye(2)).astype(np.float64)
    return transition, process


def _elapsed(before: float, now: float) -> float:
    if now <= before:
        raise InputError(f"frames must follow each other in time: {now} s comes too late.")
    return now - before


def _fading(surprise: Floats, forecast: Floats, noise: Floats) -> float:
    """How much larger the forecast's covariance must be to explain the face's surprise.

    Points count by their information, so that a hidden one neither hides nor feigns motion.
    """
    weight = 1 / np.trace(noise, axis1=1, axis2=2)
    weight = weight / weight.sum()
    seen = float((weight * (surprise**2).sum(axis=1)).sum())
    by_noise = float((weight * np.trace(noise, axis1=1, axis2=2)).sum())
    by_forecast = float((weight * np.trace(forecast, axis1=1, axis2=2)).sum())
    return float(np.clip((seen - by_noise) / by_forecast, 1.0, MAX_FADING))


def look_back(states: list[FilterState]) -> list[Floats]:
    """Rauch-Tung-Striebel: (k, 2) locations for each state, given all of them."""
    mean = states[-1].mean
    places = [mean[:, :2]]
    for now, later in zip(reversed(states[:-1]), reversed(states[1:]), strict=True):
        cross = now.covariance @ later.transition.T
        # gain = cross forecast^-1, as a solve: forecast is symmetric
        gain = np.linalg.solve(later.forecast_covariance, cross.transpose(0, 2, 1))
        difference = mean - later.forecast_mean
        mean = now.mean + (gain.transpose(0, 2, 1) @ difference[:, :, None])[:, :, 0]
        places.append(mean[:, :2])
    return places[::-1]


class LiveSmoother:
    """Smooths the landmarks of one face as they come, without looking ahead.

    Heads move as a whole: the quadratic map that best takes the last landmarks to the new ones is
    the forecast, so that faces that move or turn do not lag. Around it each landmark is averaged
    over time, weighted by its covariance and visibility. A landmark that departs from the forecast
    by more than usual (a lid, a lip) follows at once: the usual departure is learnt from the face.
    """

    def __init__(self) -> None:
        self._time = -np.inf
        self._points: Floats | None = None
        self._variance = np.empty(0)
        self._usual = 0.0

    def push(self, time: float, points: Floats, noise: Floats) -> Floats:
        """Landmarks (k, 2) at `time` with their `measurement_noise`, smoothed."""
        variances = np.trace(noise, axis1=1, axis2=2) / 2
        size = face_size(points)
        seconds, self._time = min(_elapsed(self._time, time), 1.0), time
        if self._points is None:
            self._points, self._variance, self._usual = points.copy(), variances, 0.01 * size
            return self._points
        forecast = self._moved(points, 1 / variances, size)
        departure = np.linalg.norm(points - forecast, axis=1)
        variance = self._variance + (SHAPE_CHANGE * size) ** 2 * seconds
        gain = variance / (variance + variances)
        self._variance = (1 - gain) * variance
        unusual = departure**4 / (departure**4 + (UNUSUAL * self._usual) ** 4)
        self._usual += 0.1 * (float(np.median(departure)) - self._usual)
        self._points = forecast + np.maximum(gain, unusual)[:, None] * (points - forecast)
        return self._points

    def _moved(self, points: Floats, weight: Floats, size: float) -> Floats:
        """The last landmarks, moved as the face moved; noise does not count as motion."""
        assert self._points is not None
        x, y = ((self._points - self._points.mean(axis=0)) / size).T
        terms = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)
        information = terms.T @ (weight[:, None] * terms)
        information[3:, 3:] += np.eye(3) / (BENDING * size) ** 2
        coefficients = np.linalg.solve(
            information + 1e-9 * np.eye(6), terms.T @ (weight[:, None] * (points - self._points))
        )
        step = terms @ coefficients
        distance = float(np.sqrt((step**2).sum(axis=1).mean())) / size
        return np.asarray(self._points + distance**2 / (distance**2 + STILL**2) * step)


# -- all faces of a video ----------------------------------------------------------------------


class HasFaces(Protocol):
    """A named tuple with tracked faces that have times: a frame, a row of results."""

    @property
    def faces(self) -> Faces: ...


_Item = TypeVar("_Item", bound=HasFaces)


def smooth_tracks(items: Iterable[_Item], offline: bool = True) -> Iterator[_Item]:
    """The same items with each tracked face smoothed in time; with `offline` they come out at most
    `LAG` + `BLOCK` items later, otherwise each comes out at once."""
    if not offline:
        yield from map(TrackSmoother[_Item]().push, items)
        return
    waiting: deque[tuple[_Item, dict[int, FilterState]]] = deque()
    for item in items:
        before = waiting[-1][1] if waiting else {}
        waiting.append((item, _filtered(item, before)))
        if len(waiting) == LAG + BLOCK:
            yield from _release(waiting, BLOCK)
    yield from _release(waiting, len(waiting))


class TrackSmoother(Generic[_Item]):
    """Smooths the landmarks of every tracked face as they come."""

    def __init__(self) -> None:
        self._smoothers: dict[int, LiveSmoother] = {}

    def push(self, item: _Item) -> _Item:
        """The next item, smoothed."""
        faces, before = _by_track(item), self._smoothers
        self._smoothers = {track: before.get(track) or LiveSmoother() for track in faces}
        return _moved_to(
            item,
            [
                self._smoothers[track].push(time, face.points, noise)
                for track, (time, face, noise) in faces.items()
            ],
        )


def _filtered(item: HasFaces, before: dict[int, FilterState]) -> dict[int, FilterState]:
    """The filter's state of each track, after those of the item before."""
    states = {}
    for track, (time, face, noise) in _by_track(item).items():
        about = (time, face.points, noise, face_size(face.points))
        states[track] = step(before[track], *about) if track in before else start(*about)
    return states


def _release(waiting: deque[tuple[_Item, dict[int, FilterState]]], count: int) -> Iterator[_Item]:
    """The first items, smoothed with all that is known of their future."""
    states = [known for _, known in waiting]
    smoothed: list[dict[int, Floats]] = [{} for _ in waiting]
    for first in range(count):
        for track in states[first].keys() - smoothed[first].keys():
            future = takewhile(lambda known, t=track: t in known, states[first:])  # type: ignore[misc]
            places = look_back([known[track] for known in future])
            for known, points in zip(smoothed[first:], places, strict=False):
                known[track] = points
    for known in smoothed[:count]:
        item, tracks = waiting.popleft()
        yield _moved_to(item, [known[track] for track in tracks])


def _by_track(item: HasFaces) -> dict[int, tuple[float, FaceLandmarks, Floats]]:
    """Time, face, and noise of each track."""
    known = {}
    for track, face in zip(
        [] if item.faces.track is None else item.faces.track.tolist(), item.faces, strict=True
    ):
        visibility = face.visibility if face.visibility_trained else np.ones(len(face))
        known[track] = face.time or 0.0, face, measurement_noise(face.covariance, visibility)
    return known


def _moved_to(item: _Item, points: list[Floats]) -> _Item:
    """The item with these points of its faces."""
    if not points:
        return item
    moved: Any = item  # any named tuple can do this, but no type says so
    return moved._replace(faces=replace(item.faces, points=np.array(points)))  # type: ignore[no-any-return]
