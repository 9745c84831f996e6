"""What a model file knows about when to trust the model: plain numbers, fitted by `luvli.trust`.

Everything here is applied with numpy alone. Fitting is done by `luvli calibrate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field, field_validator

from luvli.arrays import Floats
from luvli.faces import FaceLandmarks, Faces, RegionRadii
from luvli.network.face_features import (
    ASTRAY,
    FEATURE_COLUMNS,
    FEATURES,
    ShapeModel,
    feature_table,
    pose_kinds,
)

ALL_POSES = "all"
JOINT = "joint"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Additive(_Table):
    """A sum of one broken line for each feature, and a constant.

    Feature x counts as clip((x - centre) / spread, -limit, limit); its line bends at `knots`.
    """

    features: list[str]
    centre: list[float]
    spread: list[float]
    knots: list[float]
    """standardised places where every line may bend"""
    slopes: list[list[float]]
    """for each feature: the slope at the left, and the change of slope at each knot"""
    constant: float
    limit: float = 4.0

    def __call__(self, features: ArrayLike) -> Floats:
        """(n, d) features in the order of their names -> (n,)."""
        centre, spread, knots, slopes = self._arrays
        return bent(features, centre, spread, knots, self.limit) @ slopes + self.constant

    def of_columns(self, table: Floats) -> Floats:
        """The same of a `feature_table` (n, 13), of which the columns are taken by their names.

        What the network says counts as ordinary where it is not known.
        """
        columns, astray = self._columns
        chosen = table[:, columns]
        if astray is not None:
            missing = np.isnan(chosen[:, astray])
            if missing.any():
                chosen[missing, astray] = self.centre[astray]
        return self(chosen)

    @cached_property
    def _columns(self) -> tuple[list[int], int | None]:
        """Places of the features in a `feature_table`, and that of `ASTRAY` among them."""
        places = [FEATURE_COLUMNS.index(name) for name in self.features]
        return places, self.features.index(ASTRAY) if ASTRAY in self.features else None

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Centre, spread, knots and slopes: made once, not for every face."""
        slopes = np.array(self.slopes).reshape(-1)
        return np.array(self.centre), np.array(self.spread), np.array(self.knots), slopes


def basis(
    features: ArrayLike,
    centre: ArrayLike,
    spread: ArrayLike,
    knots: ArrayLike,
    limit: float = 4.0,
) -> Floats:
    """(n, d) features as the (n, d (1 + knots) + 1) terms that `Additive` sums."""
    terms = bent(features, np.asarray(centre), np.asarray(spread), np.asarray(knots), limit)
    return np.concatenate([terms, np.ones((len(terms), 1))], axis=1)


def bent(
    features: ArrayLike, centre: Floats, spread: Floats, knots: Floats, limit: float
) -> Floats:
    """The same without the constant's column."""
    raw = np.asarray(features, dtype=np.float64)
    raw = raw if raw.ndim == 2 else np.atleast_2d(raw)
    x = np.minimum(np.maximum((raw - centre) / spread, -limit), limit)
    terms = np.empty((*x.shape, 1 + len(knots)))
    terms[:, :, 0] = x
    np.maximum(x[:, :, None] - knots, 0.0, out=terms[:, :, 1:])
    return terms.reshape(len(x), -1)


def expected_log(near: Floats, odds: Floats, astray_from: float, astray_error: float) -> Floats:
    """(n,) log of the expected error of faces that go astray with log-odds `odds` (n,), and have
    `near` (n,) for the logarithm of their expected error otherwise."""
    astray = 1 / (1 + np.exp(-np.minimum(np.maximum(odds, -30.0), 30.0)))
    close = np.exp(np.minimum(near, math.log(astray_from)))
    return np.asarray(np.log((1 - astray) * close + astray * astray_error))


class ConfidenceTable(_Table):
    """From what a prediction looks like to the probability that it succeeded."""

    success: float = Field(default=5.0, gt=0)
    """an alignment succeeded when its visible landmarks are off by less than this, on average,
    in percent of the box (square root of the label box's area)"""
    shape: ShapeModel
    error: Additive
    """log of the expected error in percent of the box, for faces with a detector's score, if they
    did not go astray"""
    error_unscored: Additive
    """for faces whose box was given without one"""
    astray: Additive | None = None
    """log-odds that an alignment went astray altogether, for faces with a score; None in older
    files, whose `error` is that of all faces"""
    astray_unscored: Additive | None = None
    astray_from: float = Field(default=15.0, gt=0)
    """error, in percent of the box, from which that is so"""
    astray_error: float = Field(default=40.0, gt=0)
    """mean error of such faces"""
    odds: Additive
    """log-odds of success by that logarithm, its only feature, for faces with a score"""
    odds_unscored: Additive
    largest_error: float = 50.0
    """percent of the box: what counts for no alignment at all"""
    faces: int = 0
    """faces that it was fitted on"""
    spoilt: int = 0
    """and how many of them had been spoilt"""

    @field_validator("error", "error_unscored", "astray", "astray_unscored")
    @classmethod
    def _of_known_features(cls, lines: Additive | None) -> Additive | None:
        unknown = set(lines.features) - set(FEATURE_COLUMNS) if lines is not None else set()
        if unknown:
            raise ValueError(f"no feature is called {sorted(unknown)[0]!r}")
        return lines

    def judge(self, face: FaceLandmarks) -> tuple[float, float]:
        """Confidence (0..1) and expected error (percent of the box) of one face."""
        confidence, error = self.judge_features(feature_table([face], self.shape))
        return float(confidence[0]), float(error[0])

    def judge_features(self, features: ArrayLike) -> tuple[Floats, Floats]:
        """The same for the `feature_table` (n, 13) of many faces.

        A face without locations (NaN) has confidence 0 and the largest error.
        """
        table = np.atleast_2d(np.asarray(features, dtype=np.float64))
        located = np.isfinite(table[:, : len(FEATURES)]).all(axis=1)
        scored = np.isfinite(table[:, -1])
        if located.all() and scored.all():  # as usual
            logs = self._log_error(table, self.error, self.astray)
            return self._numbers(self.odds(logs[:, None]), logs)
        safe = table.copy()
        safe[~located, : len(FEATURES)] = 0.0
        safe[~scored, -1] = 0.0
        logs = np.where(
            scored,
            self._log_error(safe, self.error, self.astray),
            self._log_error(safe, self.error_unscored, self.astray_unscored),
        )
        odds = np.where(scored, self.odds(logs[:, None]), self.odds_unscored(logs[:, None]))
        sure, error = self._numbers(odds, logs)
        return np.where(located, sure, 0.0), np.where(located, error, self.largest_error)

    def _log_error(self, table: Floats, error: Additive, astray: Additive | None) -> Floats:
        near = error.of_columns(table)
        if astray is None:
            return near
        return expected_log(near, astray.of_columns(table), self.astray_from, self.astray_error)

    def _numbers(self, odds: Floats, logs: Floats) -> tuple[Floats, Floats]:
        """Log-odds as probabilities, logarithms as errors, neither beyond its bounds."""
        sure = 1 / (1 + np.exp(-np.minimum(np.maximum(odds, -30.0), 30.0)))
        highest = math.log(self.largest_error)
        return sure, np.exp(np.minimum(np.maximum(logs, -3.0), highest))


class RegionTable(_Table):
    """Mahalanobis radii of regions with a guarantee, by class of pose and group of landmarks."""

    levels: list[float]
    """coverages, ascending"""
    groups: dict[str, list[int]]
    radii: dict[str, dict[str, list[float | None]]]
    """pose class ("all" among them) -> group (or "joint") -> radius for each level; None where
    too few faces were seen for any promise"""
    faces: dict[str, int]
    """calibration faces of each class of pose"""

    def for_pose(self, pose: str) -> RegionRadii:
        """The radii for a face of this class of pose; those of all poses where few were seen."""
        return self._by_pose[pose if pose in self.radii else ALL_POSES]

    def for_poses(self, poses: Sequence[str]) -> RegionRadii:
        """The radii (n, k, L) for n faces of these classes of pose."""
        each = [self.for_pose(pose) for pose in poses]
        return RegionRadii(
            np.array(self.levels),
            np.stack([radii.radii for radii in each]),
            np.stack([radii.joint for radii in each]),
        )

    def radius(self, pose: str, coverage: float, joint: bool = False) -> Floats:
        """(k,) radii that hold the truth with at least this probability; infinite if unknown."""
        return self.for_pose(pose).at(coverage, joint)

    @cached_property
    def _by_pose(self) -> dict[str, RegionRadii]:
        size = sum(len(group) for group in self.groups.values())
        made = {}
        for pose, rows in self.radii.items():
            each = np.full((size, len(self.levels)), np.inf)
            for name, group in self.groups.items():
                each[group] = _numbers(rows[name])
            each.setflags(write=False)
            made[pose] = RegionRadii(np.array(self.levels), each, _numbers(rows[JOINT]))
        return made


def _numbers(row: list[float | None]) -> Floats:
    return np.array([np.inf if value is None else value for value in row])


class TriageTable(_Table):
    """How many calibration faces are accepted and failed at each threshold of confidence."""

    thresholds: list[float]
    """descending"""
    accepted: list[int]
    failed: list[int]
    faces: int
    spoilt_share: float
    """share of spoilt images among them"""
    expected: list[float] = []
    """share that was accepted of the faces that the confidence was fitted on, which are others: it
    tells where tests should begin; [] in older files"""


class ShiftTable(_Table):
    """What predictions of the calibration faces looked like."""

    quantiles: dict[str, list[float]]
    """by feature, ascending"""
    faces: int


class TrustTables(_Table):
    """Everything that `luvli calibrate` adds to a model, beside the scale of its covariances."""

    confidence: ConfidenceTable | None = None
    regions: RegionTable | None = None
    triage: TriageTable | None = None
    shift: ShiftTable | None = None
    trained_on: str = ""
    """which photographs the model was trained on, as a `luvli.trust.seen.Seen` filter in
    base64; "" where unknown"""
    data: list[str] = []
    """the calibration faces, in words"""

    def assess(self, faces: Faces, accept_threshold: float | None = None) -> Faces:
        """The faces with confidence, expected error, guaranteed regions and, with a threshold of
        confidence, whether they are accepted."""
        if not len(faces):
            return faces
        changes: dict[str, Any] = {}
        if self.confidence is not None:
            table = feature_table(faces, self.confidence.shape)
            confidence, expected_error = self.confidence.judge_features(table)
            changes = {"confidence": confidence, "expected_error": expected_error}
            if accept_threshold is not None:
                changes["accepted"] = confidence >= accept_threshold
        if self.regions is not None:
            changes["regions"] = self.regions.for_poses(pose_kinds(faces))
        return replace(faces, **changes)
