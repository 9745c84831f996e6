"""`FaceLandmarks`: the one result type, from the network to the web page.

Coordinates are image pixels, x to the right, y down, and the centre of the first pixel is
(0, 0). A face is a set of mixed random variables (section 3.2 of the paper): landmark j is
visible with probability `visibility[j]`, and, if visible, lies around `points[j]` with
covariance `covariance[j]`. A visible landmark may still be covered by something in front of
the face, a hand or hair: `occlusion[j]`, where the model was trained for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.face_checks import (
    as_array,
    as_number,
    check_positive_definite,
    check_probabilities,
    expect_shape,
)
from luvli.face_views import FaceViews
from luvli.image import affine as affines
from luvli.image.head_pose import HeadPose, head_pose
from luvli.likelihood import family
from luvli.likelihood.covariance import spread
from luvli.markup import get_markup, is_markup


class Ellipses(NamedTuple):
    """Error ellipses of k landmarks: what to draw, in pixels and degrees."""

    centre: Floats
    """(k, 2)"""
    half_axes: Floats
    """(k, 2), the longer one first"""
    angle: Floats
    """(k,) degrees from the x axis to the longer half-axis, turning towards +y; in [-90, 90)"""


class RegionRadii(NamedTuple):
    """How far regions with a guarantee reach around the landmarks of one face.

    Mahalanobis radii, from the calibration faces of the same class of pose.
    """

    levels: Floats
    """(L,) coverages, ascending"""
    radii: Floats
    """(k, L) for each landmark by itself; infinite where too few faces were seen"""
    joint: Floats
    """(L,) for all visible landmarks of the face at once"""

    def at(self, coverage: float, joint: bool = False) -> Floats:
        """(k,) radii for this coverage, or for the next higher level that is known."""
        if not 0 < coverage < 1:
            raise InputError(f"coverage must lie between 0 and 1, got {coverage}.")
        place = int(np.searchsorted(self.levels, coverage - 1e-9))
        if place == len(self.levels):
            return np.full(len(self.radii), np.inf)
        return np.full(len(self.radii), self.joint[place]) if joint else self.radii[:, place]


@dataclass(frozen=True, eq=False)
class FaceLandmarks(FaceViews):
    """Where the k landmarks of one face are, how sure that is, and whether they can be seen.

    >>> face = FaceLandmarks(
    ...     points=np.zeros((2, 2)), covariance=np.tile(np.eye(2), (2, 1, 1)),
    ...     visibility=[1.0, 0.2], box=[0, 0, 9, 9], score=0.9, markup="mine2")
    >>> face.visible(0.5).tolist()
    [True, False]
    """

    points: Floats
    """(k, 2) image pixels"""
    covariance: Floats
    """(k, 2, 2) image pixels squared, symmetric positive-definite"""
    visibility: Floats
    """(k,) probability that the landmark is visible, that is, not hidden by the head itself"""
    box: Floats
    """(4,) x0, y0, x1, y1 image pixels"""
    score: float = 1.0
    """confidence of the face detector"""
    markup: str = "ibug68"
    """name of the point set (see `luvli.markup`); a name of your own allows any k"""
    visibility_trained: bool = True
    """False when the model saw no visibility labels, so that `visibility` means nothing"""
    covariance_trained: bool = True
    """False when nothing taught the model its covariances (heat-map or MSE loss)"""
    occlusion: Floats = None  # type: ignore[assignment]
    """(k,) probability that something in front of the face (hand, hair, glasses, mask) covers
    the landmark; NaN where the model does not tell"""
    occlusion_trained: bool = False
    """True when the model saw labels of occlusion"""
    astray: float | None = None
    """log-odds that the alignment went astray altogether, as the network itself says; None where
    it does not. A part of `confidence`; it stays with the model, not in files"""
    confidence: float | None = None
    """calibrated probability that the alignment succeeded; None when the model does not tell"""
    expected_error: float | None = None
    """expected mean error of the landmarks, in percent of the box; None as above"""
    accepted: bool | None = None
    """whether the triage accepts the face or leaves it for review; None when nobody asked"""
    likelihood: str = "laplace"
    """the density that the covariances belong to: laplace, gauss, or one that a calibration fitted
    (`luvli.likelihood.family`)"""
    regions: RegionRadii | None = None
    """radii with a guarantee, of a calibrated model; they stay with the model, not in files"""
    track: int | None = None
    """in a video: the number that stays with a face as long as it is followed"""
    time: float | None = None
    """in a video: seconds from its start"""

    def __post_init__(self) -> None:
        points = as_array("points", self.points)
        if is_markup(self.markup):
            expect_shape(
                "points", points, (get_markup(self.markup).size, 2), f" for markup {self.markup}"
            )
        elif points.ndim != 2 or points.shape[1] != 2:
            raise InputError(f"points must have shape (k, 2), got {points.shape}.")
        k = len(points)
        covariance = as_array("covariance", self.covariance)
        visibility = as_array("visibility", self.visibility)
        box = as_array("box", self.box)
        expect_shape("covariance", covariance, (k, 2, 2))
        expect_shape("visibility", visibility, (k,))
        expect_shape("box", box, (4,))
        for name, array in (("points", points), ("box", box)):
            if np.isinf(array).any():
                raise InputError(f"{name} must be finite, or NaN where there is no location.")
        check_positive_definite(covariance)
        check_probabilities("visibility", visibility, allow_nan=False)
        occlusion = np.full(k, np.nan)
        if self.occlusion is not None:
            occlusion = as_array("occlusion", self.occlusion)
            expect_shape("occlusion", occlusion, (k,))
            check_probabilities("occlusion", occlusion)
        for name, array in zip(
            ARRAYS, (points, covariance, visibility, box, occlusion), strict=True
        ):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "score", as_number("score", self.score))
        for name in ("astray", "confidence", "expected_error", "time"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else as_number(name, value))
        for name in ("visibility_trained", "covariance_trained", "occlusion_trained"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        if self.accepted is not None:
            object.__setattr__(self, "accepted", bool(self.accepted))
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise InputError(f"confidence must lie in 0..1, got {self.confidence}.")
        if self.expected_error is not None and not self.expected_error >= 0:
            raise InputError(f"expected_error must be at least 0, got {self.expected_error}.")
        family(self.likelihood)  # refuses an unknown name

    @classmethod
    def _trusted(cls, **given: Any) -> FaceLandmarks:
        """A face from numbers that are known to be right: float64 arrays of fitting shapes that
        nobody else writes to. Checks and copies cost more than moving the face; prediction,
        which makes faces by the thousand, leaves them out.

        `_judge`, a function without arguments, gives the fields of `JUDGED` as a dictionary; it
        is called when somebody asks for the first of them."""
        face = object.__new__(cls)
        if given.get("occlusion") is None:
            given["occlusion"] = np.full(len(given["points"]), np.nan)
        for name in ARRAYS:
            given[name].setflags(write=False)
        known = face.__dict__
        known.update(_UNJUDGED if "_judge" in given else _DEFAULTS)
        known.update(given)
        return face

    if not TYPE_CHECKING:  # or every attribute would be one of a face

        def __getattr__(self, name: str) -> Any:
            """Called for what is not there: the fields of `JUDGED`, before they are judged."""
            known = self.__dict__
            judge = known.get("_judge")
            if judge is not None and name in JUDGED:
                known.update({each: _DEFAULTS[each] for each in JUDGED} | judge())
                known.pop("_judge", None)
            if name in known:  # perhaps by another thread, just now
                return known[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """All fields by name, judged: what a copy is made from, here or in another process."""
        _ = self.confidence
        return dict(self.__dict__)

    def __len__(self) -> int:
        return len(self.points)

    def __eq__(self, other: object) -> bool:
        """Equal when every number is; NaN equals NaN, so that empty results compare equal."""
        if not isinstance(other, FaceLandmarks):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in PLAIN_FIELDS) and all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
            for name in ARRAYS
        )

    __hash__ = None  # type: ignore[assignment]
    __repr__ = FaceViews.__repr__  # not the one that dataclasses make, which is ten pages long

    @classmethod
    def empty(cls, markup: str) -> FaceLandmarks:
        """Where no face was found: right shapes, NaN locations, visibility and score 0."""
        k = get_markup(markup).size
        return cls(
            points=np.full((k, 2), np.nan),
            covariance=np.full((k, 2, 2), np.nan),
            visibility=np.zeros(k),
            box=np.full(4, np.nan),
            score=0.0,
            markup=markup,
        )

    @property
    def is_empty(self) -> bool:
        """True when there is no face: no landmark has a location."""
        return bool(np.isnan(self.points).all())

    def visible(self, threshold: float = 0.5) -> NDArray[np.bool_]:
        """(k,) whether each landmark is visible with a probability above `threshold`."""
        return self.visibility > threshold

    def occluded(self, threshold: float = 0.5) -> NDArray[np.bool_]:
        """(k,) whether something covers each landmark with a probability above `threshold`;
        nowhere, where the model does not tell."""
        return self.occlusion > threshold

    @property
    def doubtful(self) -> bool:
        """Whether the alignment probably failed, or was left for review by the triage."""
        if self.accepted is not None:
            return not self.accepted
        return self.confidence is not None and self.confidence < 0.5

    @property
    def uncertainty(self) -> Floats:
        """(k,) standard deviation of each landmark in pixels: |Sigma|^(1/4), the geometric mean
        of the half-axes of its ellipse at Mahalanobis distance 1."""
        return np.asarray(spread(self.covariance), dtype=np.float64)

    def least_sure(self, count: int = 5) -> list[tuple[str, float]]:
        """Names and uncertainties, in pixels, of the least sure landmarks, the worst first."""
        sigma, names = self.uncertainty, self.names
        return [(names[j], float(sigma[j])) for j in np.argsort(-sigma)[:count]]

    def ellipses(self, mahalanobis: float = 1.0, coverage: float | None = None) -> Ellipses:
        """Curves of constant Mahalanobis distance around the landmarks.

        `mahalanobis` = 1 is what the paper draws; with `coverage`, the ellipses hold that
        probability if the model is right (its own likelihood is taken). `region` gives
        ellipses with a guarantee. Landmarks without a location give NaN.
        """
        if coverage is not None:
            if not 0 < coverage < 1:
                raise InputError(f"coverage must lie between 0 and 1, got {coverage}.")
            mahalanobis = float(family(self.likelihood).radius_quantile(coverage))
        return self._ellipses(np.full(len(self), mahalanobis))

    def region(self, coverage: float = 0.9, joint: bool = False) -> Ellipses:
        """Ellipses that hold the truth with at least this probability, whatever the model.

        The guarantee is that of split conformal prediction: for faces like those that the
        model was calibrated on (`luvli calibrate`), a visible landmark lies inside its ellipse
        with at least probability `coverage`; with `joint`, all visible landmarks of the face
        lie inside theirs at once. Infinite where the calibration faces were too few.
        """
        if self.regions is None:
            raise InputError(
                "this face comes from a model without guaranteed regions: calibrate the model "
                "with luvli calibrate, or use ellipses(coverage=...), the model's own."
            )
        return self._ellipses(self.regions.at(coverage, joint))

    def head_pose(self) -> HeadPose:
        """Yaw, pitch and roll of the head in degrees with their covariance.

        Landmarks count by covariance and visibility; see `luvli.image.head_pose`. Needs 68
        points; NaN where too few are visible.
        """
        if len(self) != 68:
            raise InputError(f"head pose needs the 68 points of ibug68, got {len(self)} points.")
        return head_pose(
            self.points,
            self.covariance if self.covariance_trained else None,
            self.visibility if self.visibility_trained else None,
            other_convention=True,
        )

    def _ellipses(self, radius: Floats) -> Ellipses:
        known = ~np.isnan(self.covariance).any(axis=(1, 2))
        half_axes = np.full((len(self), 2), np.nan)
        angle = np.full(len(self), np.nan)
        values, vectors = np.linalg.eigh(self.covariance[known])  # ascending
        half_axes[known] = radius[known, None] * np.sqrt(values[:, ::-1])
        longest = vectors[:, :, 1]
        degrees = np.degrees(np.arctan2(longest[:, 1], longest[:, 0]))
        angle[known] = (degrees + 90.0) % 180.0 - 90.0
        return Ellipses(self.points.copy(), half_axes, angle)

    def transform(self, affine: ArrayLike) -> FaceLandmarks:
        """Move the face by x -> A x + t: points, covariances (A S A^T) and box together.

        `affine` is (2, 3) or (3, 3). The box becomes the upright box around the moved
        corners. A mirror image also needs the markup's flip permutation; this method moves
        landmarks and does not rename them.
        """
        matrix = affines.as_affine(affine)
        x0, y0, x1, y1 = self.box
        corners = affines.apply(matrix, [(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
        return replace(
            self,
            points=affines.apply(matrix, self.points),
            covariance=affines.push_covariance(matrix, self.covariance),
            box=np.concatenate([corners.min(axis=0), corners.max(axis=0)]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists for JSON, lossless; NaN becomes null.

        What the model does not tell (occlusion, confidence, expected error) is left out.
        """
        told: dict[str, Any] = {}
        if self.occlusion_trained or not np.isnan(self.occlusion).all():
            told["occlusion_trained"] = self.occlusion_trained
            told["occlusion"] = _listed(self.occlusion)
        if self.confidence is not None:
            told["confidence"] = self.confidence
        if self.expected_error is not None:
            told["expected_error"] = self.expected_error
        if self.accepted is not None:
            told["accepted"] = self.accepted
        if self.likelihood != "laplace":
            told["likelihood"] = self.likelihood
        if self.track is not None:
            told["track"] = self.track
        if self.time is not None:
            told["time"] = self.time
        return {
            "markup": self.markup,
            "score": self.score,
            "visibility_trained": self.visibility_trained,
            "covariance_trained": self.covariance_trained,
            "box": _listed(self.box),
            "points": _listed(self.points),
            "covariance": _listed(self.covariance),
            "visibility": _listed(self.visibility),
            **told,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FaceLandmarks:
        """The inverse of `to_dict`."""
        missing = {"points", "covariance", "visibility", "box"} - set(data)
        if missing:
            raise InputError(f"a face needs the field {sorted(missing)[0]!r}, which is missing.")
        return cls(**{name: data[name] for name in (*ARRAYS, *PLAIN_FIELDS) if name in data})


ARRAYS = ("points", "covariance", "visibility", "box", "occlusion")
"""the fields of `FaceLandmarks` that are arrays"""
_DEFAULTS: dict[str, Any] = {
    made.name: made.default for made in fields(FaceLandmarks) if made.name not in ARRAYS
}
"""the other fields"""
JUDGED = ("confidence", "expected_error", "accepted", "regions")
"""those that a model's tables say about a face, when somebody asks"""
_UNJUDGED = {name: default for name, default in _DEFAULTS.items() if name not in JUDGED}
for _name in JUDGED:
    delattr(FaceLandmarks, _name)  # the class's own default would be found before `__getattr__`
PLAIN_FIELDS = [name for name in _DEFAULTS if name not in ("astray", "regions")]
"""those that belong to the face itself and travel in files"""


def _listed(array: Floats) -> Any:
    unknown = np.isnan(array)
    if not unknown.any():
        return array.tolist()
    values = array.astype(object)
    values[unknown] = None
    return values.tolist()
