"""What people measure on a face, each with a standard deviation.

    face.measures["left_eye_openness"]        Measure(value=0.31, std=0.02, visible=0.99)
    luvli.measure(face, lambda p: np.linalg.norm(p[48] - p[54]))

The standard deviation follows from the landmarks' covariances and the correlation between their
errors by the delta method: the variance of a function f is g^T C g with its gradient g, which is
taken by finite differences. `visible` is the probability that the points it is made of can be seen:
the smallest of theirs, because the points of one part are hidden together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import check_range
from luvli.likelihood import family
from luvli.markup import get_markup

PointsFunction = Callable[[Floats], Any]
"""points (..., k, 2) -> a number for each face (...)"""


@dataclass(frozen=True)
class Measure:
    """A number measured on a face, or (n,) numbers measured on n faces."""

    value: Any
    std: Any
    """standard deviation, in the unit of the value"""
    visible: Any
    """probability that the points it is made of can be seen"""
    unit: str = ""
    likelihood: str = "gauss"
    """distribution of the error, for `interval`"""

    def interval(self, coverage: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper end of the interval that holds the true value with this probability."""
        check_range("coverage", coverage, 0, 1, ends=False)
        reach = self.std * _quantile(self.likelihood, coverage)
        return self.value - reach, self.value + reach

    def __getitem__(self, which: Any) -> Measure:
        """Of n faces: that of one, or of some."""
        parts = (np.asarray(part)[which] for part in (self.value, self.std, self.visible))
        value, std, visible = (float(p) if np.ndim(p) == 0 else p for p in parts)
        return Measure(value, std, visible, self.unit, self.likelihood)

    def __str__(self) -> str:
        return f"{self.value:.3g} ± {self.std:.2g}{' ' if self.unit else ''}{self.unit}"


class Measures(Mapping[str, Measure]):
    """Measures by name; of n faces each holds arrays (n,)."""

    def __init__(self, measures: Mapping[str, Measure]) -> None:
        self._measures = dict(measures)

    def __getitem__(self, name: str) -> Measure:
        if name not in self._measures:
            raise KeyError(f"no measure is called {name!r}: there are {', '.join(self)}")
        return self._measures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._measures)

    def __len__(self) -> int:
        return len(self._measures)

    def __repr__(self) -> str:
        """One line for each measure."""
        return "\n".join(f"{name:24s} {measure!s}" for name, measure in self.items())

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """Plain numbers for JSON; NaN becomes None."""
        return {
            name: {
                part: None if np.isnan(getattr(measure, part)) else float(getattr(measure, part))
                for part in ("value", "std", "visible")
            }
            for name, measure in self.items()
        }


@dataclass(frozen=True)
class Definition:
    """What a measure is."""

    name: str
    unit: str
    function: PointsFunction
    landmarks: tuple[int, ...]
    """those it is made of"""


_EYE_LINES = np.array([[0.0, 1, 0, 0, 0, -1], [0, 0, 1, 0, -1, 0], [1, 0, 0, -1, 0, 0]])
"""an eye's six points -> its two heights and its width, as vectors"""


def eye_openness(points: Floats) -> Floats:
    """Height / width of an eye (..., 6, 2): corner, two above, corner, two below."""
    return openness_and_slopes(points)[0]


def openness_and_slopes(eyes: Floats) -> tuple[Floats, Floats]:
    """The same (...), and its derivatives (..., 6, 2) by the points.

    >>> eye = np.array([[0.0, 0], [1, -1], [3, -1], [4, 0], [3, 1], [1, 1]])
    >>> openness_and_slopes(eye)[0].tolist()
    0.5
    """
    lines = _EYE_LINES @ eyes  # (..., 3, 2)
    length = np.maximum(np.sqrt((lines**2).sum(axis=-1)), 1e-12)
    width = length[..., 2]
    openness = (length[..., 0] + length[..., 1]) / (2 * width)
    by_length = np.stack([0.5 / width, 0.5 / width, -openness / width], axis=-1)
    return openness, _EYE_LINES.T @ (lines * (by_length / length)[..., None])


@cache
def definitions(markup: str = "ibug68") -> tuple[Definition, ...]:
    """The measures of a point set; only the 68 points of ibug68 have any."""
    if markup != "ibug68":
        return ()
    find = get_markup(markup).find
    right, left = find("right eye"), find("left eye")
    corners = (36, 45)

    def interocular(p: Floats) -> Floats:
        return _distance(p[..., 36, :], p[..., 45, :])

    def brow_height(brow: tuple[int, ...], eye: tuple[int, ...]) -> PointsFunction:
        def height(p: Floats) -> Floats:
            gap = p[..., list(brow), :].mean(axis=-2) - p[..., list(eye), :].mean(axis=-2)
            return -_cross_axis(p, gap) / interocular(p)

        return height

    def side_difference(rights: tuple[int, ...], lefts: tuple[int, ...]) -> PointsFunction:
        def difference(p: Floats) -> Floats:
            middle = (p[..., 27, :] + p[..., 33, :]) / 2
            one = _along_axis(p, p[..., list(rights), :].mean(axis=-2) - middle)
            other = _along_axis(p, p[..., list(lefts), :].mean(axis=-2) - middle)
            return (one + other) / interocular(p)

        return difference

    brows = find("right brow"), find("left brow")
    jaw_right, jaw_left = tuple(range(8)), tuple(range(9, 17))
    return (
        Definition("right_eye_openness", "", lambda p: eye_openness(p[..., list(right), :]), right),
        Definition("left_eye_openness", "", lambda p: eye_openness(p[..., list(left), :]), left),
        Definition(
            "mouth_openness", "",
            lambda p: _distance(p[..., 62, :], p[..., 66, :])
            / _distance(p[..., 48, :], p[..., 54, :]),
            (48, 54, 62, 66),
        ),
        Definition(
            "mouth_width", "",
            lambda p: _distance(p[..., 48, :], p[..., 54, :]) / interocular(p),
            (48, 54, *corners),
        ),
        Definition(
            "right_brow_height", "", brow_height(brows[0], right), (*brows[0], *right, *corners)
        ),
        Definition(
            "left_brow_height", "", brow_height(brows[1], left), (*brows[1], *left, *corners)
        ),
        Definition("interocular_distance", "px", interocular, corners),
        Definition(
            "jaw_asymmetry", "", side_difference(jaw_right, jaw_left),
            (*jaw_right, *jaw_left, 27, 33, *corners),
        ),
        Definition(
            "nose_asymmetry", "", side_difference((31, 32), (34, 35)),
            (31, 32, 34, 35, 27, 33, *corners),
        ),
    )  # fmt: skip


def gradient(
    function: PointsFunction, points: Floats, landmarks: ArrayLike | None = None
) -> Floats:
    """(n, k, 2) derivatives of a function of points (n, k, 2) by central differences, with a step
    of a thousandth of the face's size; by `landmarks` alone, 0 for the others."""
    n, k = points.shape[:2]
    chosen = np.arange(k) if landmarks is None else np.unique(np.asarray(landmarks, dtype=np.intp))
    size = np.sqrt(np.ptp(points[..., 0], axis=1) * np.ptp(points[..., 1], axis=1))
    step = np.maximum(1e-3 * size, 1e-9)
    moves = np.zeros((len(chosen), 2, n, k, 2))
    for axis in range(2):
        moves[np.arange(len(chosen)), axis, :, chosen, axis] = step
    change = np.asarray(function(points + moves)) - np.asarray(function(points - moves))
    slopes = np.zeros((n, k, 2))
    slopes[:, chosen] = (change / (2 * step)).transpose(2, 0, 1)
    return slopes


def _distance(one: Floats, other: Floats) -> Floats:
    return np.asarray(np.linalg.norm(one - other, axis=-1))


def _axis(points: Floats) -> Floats:
    """(..., 2) unit vector from the right to the left outer eye corner."""
    across = points[..., 45, :] - points[..., 36, :]
    return np.asarray(across / np.maximum(np.linalg.norm(across, axis=-1, keepdims=True), 1e-9))


def _along_axis(points: Floats, vectors: Floats) -> Floats:
    return np.asarray((vectors * _axis(points)).sum(axis=-1))


def _cross_axis(points: Floats, vectors: Floats) -> Floats:
    """Component downwards in an upright face."""
    axis = _axis(points)
    return np.asarray(vectors[..., 1] * axis[..., 0] - vectors[..., 0] * axis[..., 1])


@cache
def _quantile(likelihood: str, coverage: float) -> float:
    """Standard deviations that hold `coverage` of one coordinate of a standard member."""
    density = family(likelihood).standard_marginal
    x = np.linspace(0.0, 40.0, 40001)
    half = np.concatenate([[0.0], np.cumsum((density(x)[1:] + density(x)[:-1]) / 2 * np.diff(x))])
    return float(np.interp(coverage / 2, half, x))
