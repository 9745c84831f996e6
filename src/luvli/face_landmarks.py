"""`FaceLandmarks`: one face. `luvli.Faces` holds n of them as arrays.

Coordinates are image pixels, x to the right, y down, and the centre of the first pixel is (0, 0). A
face is a set of mixed random variables (section 3.2 of the paper): landmark j is visible with
probability `visibility[j]`, and, if visible, lies around `points[j]` with covariance
`covariance[j]`. A visible landmark may still be covered by something in front of the face, a hand
or hair: `occlusion[j]`, where the model was trained for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError, check_range
from luvli.face_fields import (
    FIELDS,
    SETTINGS,
    LandmarkMethods,
    check_numbers,
    landmark_count,
    read_only,
)
from luvli.image import affine as affines
from luvli.image.align import Template, align_affine
from luvli.image.box import Box
from luvli.likelihood import family
from luvli.likelihood.ellipses import Ellipses, RegionRadii
from luvli.markup import get_markup
from luvli.markup.parts import Which, whole_markup
from luvli.measures.head_pose import HeadPose
from luvli.measures.measure import Measures

if TYPE_CHECKING:
    from luvli.faces import Faces
    from luvli.image.read import ImageArray
    from luvli.image.source import AnyImage, Color

_ARRAYS_IN_FILES = ("points", "covariance", "visibility", "box", "occlusion")
_NUMBERS_IN_FILES = ("confidence", "expected_error", "accepted", "eyes_closed", "track", "time")
_IN_FILES = (*SETTINGS, *_ARRAYS_IN_FILES, "score", *_NUMBERS_IN_FILES)
"""the fields that travel in files; the others stay with the model that made the face"""


def confidence_text(confidence: float | None) -> str:
    """A confidence for people: no face is certain, so none is printed as 1.00.

    >>> confidence_text(0.9973), confidence_text(0.412), confidence_text(None)
    ('> 0.99', '0.41', 'not calibrated')
    """
    if confidence is None:
        return "not calibrated"
    text = f"{confidence:.2f}"
    return "> 0.99" if text == "1.00" else text


@dataclass(frozen=True, eq=False, repr=False)
class FaceLandmarks(LandmarkMethods):
    """Where the k landmarks of one face are, how sure that is, and whether they can be seen.

    >>> face = FaceLandmarks(
    ...     points=np.zeros((2, 2)), covariance=np.tile(np.eye(2), (2, 1, 1)),
    ...     visibility=[1.0, 0.2], box=[0, 0, 9, 9], score=0.9, markup="mine2")
    >>> face.visible(0.5).tolist()
    [True, False]
    """

    # as in `luvli.Faces`, of one face
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
    """False when the model never learnt its covariances (heat-map or MSE loss)"""
    occlusion: Floats = None  # type: ignore[assignment]
    """(k,) probability that something in front of the face covers the landmark; NaN where the
    model does not estimate it"""
    occlusion_trained: bool = False
    failure_logit: float | None = None
    """log-odds that the alignment failed, of the network itself"""
    confidence: float | None = None
    """calibrated probability that the alignment succeeded; None without a calibration"""
    expected_error: float | None = None
    """expected mean error of the landmarks, in percent of the box; None as above"""
    eyes_closed: float | None = None
    """calibrated probability that the eyes are closed; None without a calibration"""
    accepted: bool | None = None
    """whether the triage accepts the face or leaves it for review; None without triage"""
    likelihood: str = "laplace"
    """the density that the covariances belong to (`luvli.likelihood.family`)"""
    regions: RegionRadii | None = None
    """radii with a coverage guarantee, of a calibrated model"""
    error_factors: Floats | None = None
    """(k, 2, r) how the landmarks err together (`luvli.measures.correlation`)"""
    measure_scale: Mapping[str, float] = field(default_factory=dict)
    """factors of the measures' standard deviations, of a calibrated model"""
    track: int | None = None
    """in a video: the number that stays with a face as long as it is tracked"""
    time: float | None = None
    """in a video: seconds from its start"""
    image_size: tuple[int, int] | None = None
    """width and height of the image, where known"""

    def __post_init__(self) -> None:
        values = self.__dict__  # plain entries: the dataclass is frozen for everybody else
        k = landmark_count(read_only("points", self.points), self.markup, 2)
        for name, each in FIELDS.items():
            if (name := each.single or name) in values:
                values[name] = each.value(name, values[name], k)
        for name in ("visibility_trained", "covariance_trained", "occlusion_trained"):
            values[name] = bool(values[name])
        if self.image_size is not None:
            values["image_size"] = tuple(map(int, self.image_size))
        check_numbers(self, self.box)
        if self.confidence is not None:
            check_range("confidence", self.confidence, 0, 1)
        if self.expected_error is not None:
            check_range("expected_error", self.expected_error, 0)

    def __len__(self) -> int:
        return len(self.points)

    def __eq__(self, other: object) -> bool:
        """Equal when everything that travels in files is; NaN equals NaN."""
        if not isinstance(other, FaceLandmarks):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
            if name in _ARRAYS_IN_FILES
            else getattr(self, name) == getattr(other, name)
            for name in _IN_FILES
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """One line: how many points, where, how sure."""
        if self.is_empty:
            return f"FaceLandmarks({len(self)} points of {self.markup}, no face)"
        x0, y0, x1, y1 = (round(float(edge), 1) for edge in self.box)
        words = [
            f"{len(self)} point{'' if len(self) == 1 else 's'} of {self.markup}",
            f"box ({x0}, {y0}, {x1}, {y1})",
            f"score {self.score:.2f}",
        ]
        if not np.isnan(self.uncertainty).all():  # points of another program have none
            words.append(f"uncertainty {np.nanmean(self.uncertainty):.2f} px")
        if self.visibility_trained:
            words.append(f"{int((self.visibility <= 0.5).sum())} hidden")
        if self.confidence is not None:
            words.append(f"confidence {confidence_text(self.confidence)}")
        if self.track is not None:
            words.append(f"track {self.track}")
        return f"FaceLandmarks({', '.join(words)})"

    @classmethod
    def empty(cls, markup: str) -> FaceLandmarks:
        """A face without locations: right shapes, NaN points, visibility and score 0."""
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
        """True when no landmark has a location."""
        return bool(np.isnan(self.points).all())

    # -- landmarks ---------------------------------------------------------------------------

    def __getitem__(self, which: Which) -> FaceLandmarks:
        """Some of the landmarks, as a face of their own: `face["left_eye"]`, `face[36:42]`,
        `face[["left_eye", "chin"]]`, `face[face.visible()]`; left and right are the person's."""
        return self._as_faces.part(which)[0]

    @property
    def doubtful(self) -> bool:
        """Whether the alignment probably failed, or was left for review by the triage."""
        if self.accepted is not None:
            return not self.accepted
        return self.confidence is not None and self.confidence < 0.5

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
            check_range("coverage", coverage, 0, 1, ends=False)
            mahalanobis = float(family(self.likelihood).radius_quantile(coverage))
        return Ellipses.of(self.points, self.covariance, np.full(len(self), mahalanobis))

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
        return Ellipses.of(self.points, self.covariance, self.regions.at(coverage, joint))

    # -- geometry ----------------------------------------------------------------------------

    def head_pose(self) -> HeadPose:
        """Yaw, pitch and roll of the head in degrees with their covariance.

        Landmarks count by covariance and visibility; see `luvli.measures.head_pose`. Needs 68
        points; NaN where too few are visible.
        """
        pose = self._as_faces.head_pose()
        yaw, pitch, roll = (float(angle[0]) for angle in pose[:3])
        return HeadPose(yaw, pitch, roll, pose.covariance[0])

    @property
    def measures(self) -> Measures:
        """Openness of eyes and mouth, brows, symmetry and head pose, each with its standard
        deviation: `face.measures["left_eye_openness"].std`."""
        several = self._as_faces.measures
        return Measures({name: measure[0] for name, measure in several.items()})

    def sample(self, count: int, seed: int = 0) -> Floats:
        """(count, k, 2) plausible positions of the landmarks; their errors are correlated if the
        model was calibrated for it."""
        return self._as_faces.sample(count, seed)[:, 0]

    @property
    def _as_faces(self) -> Faces:
        from luvli.faces import Faces

        return Faces.stack([self])

    def transform(self, affine: ArrayLike) -> FaceLandmarks:
        """Move the face by x -> A x + t: points, covariances (A S A^T) and box together.

        `affine` is (2, 3) or (3, 3). The box becomes the upright box around the moved
        corners. A mirror image also needs the markup's flip permutation; this method moves
        landmarks and does not rename them.
        """
        return self._as_faces.transform(affines.as_affine(affine))[0]

    def relative(self, width: float, height: float) -> Floats:
        """(k, 2) points as fractions of the image's width and height: 0 at its left and top edge,
        1 at its right and bottom edge."""
        return np.asarray((self.points + 0.5) / (width, height))

    def five_points(self) -> Floats:
        """(5, 2) centres of the eyes, nose tip, corners of the mouth; the person's right first.
        NaN where the point set has none."""
        markup = whole_markup(self.markup, "eyes, nose and mouth to align by")
        points = [self.points[list(eye)].mean(axis=0) for eye in markup.eyes]
        for name in ("nose tip", "right mouth corner", "left mouth corner"):
            known = name in markup.names
            points.append(self.points[markup.names.index(name)] if known else np.full(2, np.nan))
        return np.stack(points)

    def align_affine(self, size: int = 112, template: Template = "arcface") -> Floats:
        """(2, 3) from image pixels to those of the aligned face: `face.transform` takes it."""
        return align_affine(self.five_points(), size, template)

    # -- images ------------------------------------------------------------------------------

    def crop(
        self, image: AnyImage, size: int | None = None, margin: float = 0.25, color: Color = "rgb"
    ) -> ImageArray:
        """The face cut out of its image: a square around the box, wider by `margin` on each side.

        Black beyond the image's edge. `size` is the side in pixels; by default the image's own
        resolution is kept.
        """
        from luvli.image.crop import Crop
        from luvli.image.source import image_pixels

        if np.isnan(self.box).any():
            raise InputError("there is no face to cut out: its box has no location.")
        edges = Box(*(float(edge) for edge in self.box))
        side = max(edges.width, edges.height) * (1 + 2 * margin)
        wanted = max(2, round(side)) if size is None else size
        window = Crop.from_box(edges, wanted, 1 + 2 * margin)
        return window.warp(image_pixels(image, color))

    def align(
        self,
        image: AnyImage,
        size: int = 112,
        template: Template = "arcface",
        color: Color = "rgb",
    ) -> ImageArray:
        """The face upright, (size, size, 3) RGB, with eyes, nose and mouth at the places of the
        template. `align_affine` gives the transformation itself."""
        from luvli.image.crop import warp_affine
        from luvli.image.source import image_pixels

        pixels = image_pixels(image, color)
        return warp_affine(pixels, self.align_affine(size, template), size)

    # -- tables and files --------------------------------------------------------------------

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with one row for each landmark; `landmark` is its number in the
        whole point set, for parts of a face, too."""
        return self._as_faces.to_pandas().drop(columns="face")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists for JSON, lossless; NaN becomes null.

        What the model does not estimate (occlusion, confidence, expected error) is left out.
        """
        known = self.occlusion_trained or not np.isnan(self.occlusion).all()
        left_out = set() if known else {"occlusion", "occlusion_trained"}
        if self.likelihood == "laplace":
            left_out.add("likelihood")
        return {
            name: _listed(value) if name in _ARRAYS_IN_FILES else value
            for name in _IN_FILES
            if name not in left_out and (value := getattr(self, name)) is not None
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FaceLandmarks:
        """The inverse of `to_dict`."""
        missing = {"points", "covariance", "visibility", "box"} - set(data)
        if missing:
            raise InputError(f"a face needs the field {sorted(missing)[0]!r}, which is missing.")
        return cls(**{name: data[name] for name in _IN_FILES if name in data})


def _listed(array: Floats) -> Any:
    unknown = np.isnan(array)
    if not unknown.any():
        return array.tolist()
    values = array.astype(object)
    values[unknown] = None
    return values.tolist()
