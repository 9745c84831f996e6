"""`Faces`: n faces of one image, frame or data set as arrays, from the network to the web page.

faces = model.predict("photo.jpg")
faces[0]                              # one face, a `FaceLandmarks`
faces[faces.confidence > 0.9].points  # (m, k, 2) of those that can be trusted
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.errors import InputError, require
from luvli.face_fields import (
    FIELDS,
    LANDMARK_FIELDS,
    SETTINGS,
    LandmarkMethods,
    check_numbers,
    landmark_count,
)
from luvli.face_landmarks import FaceLandmarks, confidence_text
from luvli.image import affine as affines
from luvli.likelihood.ellipses import Ellipses, RegionRadii
from luvli.markup import get_markup, is_markup
from luvli.markup.parts import (
    Which,
    chosen_places,
    is_names,
    landmark_numbers,
    select,
)
from luvli.measures.correlation import ErrorModel
from luvli.measures.head_pose import HeadPose, head_pose
from luvli.measures.measure import Measures

__all__ = ["Ellipses", "FaceLandmarks", "Faces", "RegionRadii"]


@dataclass(frozen=True, eq=False, repr=False)
class Faces(LandmarkMethods):
    """n faces with k landmarks each. Iterates and has a length like a list of `FaceLandmarks`.

    >>> faces = Faces.empty("ibug68")
    >>> len(faces), faces.points.shape, bool(faces)
    (0, (0, 68, 2), False)
    """

    points: Floats
    """(n, k, 2) pixels"""
    covariance: Floats
    """(n, k, 2, 2) pixels squared"""
    visibility: Floats
    """(n, k) probability that the landmark is visible, that is, not hidden by the head itself"""
    boxes: Floats = None  # type: ignore[assignment]
    """(n, 4) x0, y0, x1, y1; NaN where there is none"""
    scores: Floats = None  # type: ignore[assignment]
    """(n,) of the face detector; 1 for boxes that were given"""
    occlusion: Floats = None  # type: ignore[assignment]
    """(n, k) probability that something covers the landmark; NaN where it is not estimated"""
    failure_logit: Floats = None  # type: ignore[assignment]
    """(n,) log-odds that the alignment failed, of the network itself; NaN without such an output"""
    confidence: Floats = None  # type: ignore[assignment]
    """(n,) calibrated probability that the alignment succeeded; NaN without a calibration"""
    expected_error: Floats = None  # type: ignore[assignment]
    """(n,) expected mean error of the landmarks, percent of the box; NaN without a calibration"""
    accepted: Bools | None = None
    """(n,) whether the triage accepts the face; None without triage"""
    track: NDArray[np.int64] | None = None
    """(n,) in a video: numbers that stay with a face as long as it is tracked"""
    time: Floats | None = None
    """(n,) in a video: seconds from its start"""
    image: NDArray[np.object_] | None = None
    """(n,) of faces that `luvli.read` gives: names of their images"""
    image_size: NDArray[np.int64] | None = None
    """(n, 2) width and height of their images"""
    frame: NDArray[np.int64] | None = None
    """(n,) numbers of their frames, of a video"""
    regions: RegionRadii | None = None
    """radii (n, k, L) with a coverage guarantee, of a calibrated model"""
    eyes_closed: Floats = None  # type: ignore[assignment]
    """(n,) calibrated probability that the eyes are closed; NaN without a calibration"""
    error_factors: Floats | None = None
    """(n, k, 2, r) how the landmarks err together (`luvli.measures.correlation`), of a calibrated
    model"""
    measure_scale: Mapping[str, float] = field(default_factory=dict)
    """factors of the measures' standard deviations, of a calibrated model"""
    markup: str = "ibug68"
    likelihood: str = "laplace"
    """the density that the covariances belong to (`luvli.likelihood.family`)"""
    visibility_trained: bool = True
    covariance_trained: bool = True
    occlusion_trained: bool = False

    def __post_init__(self) -> None:
        """Checks shapes. Arrays are not copied; those of the faces are read-only views of them."""
        values = self.__dict__  # plain entries: the dataclass is frozen for everybody else
        points = np.asarray(self.points, dtype=np.float64)
        k, n = landmark_count(points, self.markup, 3), len(points)
        for name, each in FIELDS.items():
            values[name] = each.array(name, values[name], k, n)

    def check(self) -> Faces:
        """The same faces; refuses impossible values, such as a probability above 1."""
        check_numbers(self, self.boxes)
        return self

    # -- a sequence of faces -----------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[FaceLandmarks]:
        return (self._face(i) for i in range(len(self)))

    @overload
    def __getitem__(self, which: int | np.integer[Any]) -> FaceLandmarks: ...
    @overload
    def __getitem__(self, which: str | slice | ArrayLike) -> Faces: ...
    def __getitem__(self, which: Any) -> FaceLandmarks | Faces:
        """One face by its number; several by a slice, a mask or numbers; of every face a part by
        name: `faces["left_eye"]`."""
        if isinstance(which, int | np.integer) and not isinstance(which, bool | np.bool_):
            return self._face(range(len(self))[which])  # IndexError where there is no such face
        if is_names(which):
            return self.part(which)
        chosen = chosen_places(len(self), which)
        changes = {name: values[chosen] for name, values in self._arrays().items()}
        regions = self.regions and self.regions.of_faces(chosen)
        return replace(self, **changes, regions=regions)

    def part(self, which: Which) -> Faces:
        """Of every face the landmarks chosen by name, number, slice or mask."""
        index, markup = select(self.markup, self.points.shape[1], which)
        arrays = self._arrays()
        changes = {name: arrays[name][:, index] for name in LANDMARK_FIELDS if name in arrays}
        regions = self.regions and self.regions._replace(radii=self.regions.radii[:, index])
        return replace(self, markup=markup, **changes, regions=regions)

    def __eq__(self, other: object) -> bool:
        """Equal when all that is said about the faces is; NaN equals NaN."""
        if not isinstance(other, Faces):
            return NotImplemented
        if any(getattr(self, name) != getattr(other, name) for name in SETTINGS):
            return False
        one, two = self._arrays(), other._arrays()
        for name in {*one, *two} - {"image_size", "error_factors"}:
            nan = FIELDS[name].kind is float
            if not np.array_equal(one.get(name), two.get(name), equal_nan=nan):  # type: ignore[arg-type]
                return False
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """One line: how many faces, and how many can be trusted."""
        count = len(self)
        words = [f"{count} face{'' if count == 1 else 's'}", f"{self.markup}"]
        if count and not np.isnan(self.confidence).all():
            words.append("confidence " + ", ".join(map(confidence_text, self.confidence[:6])))
        return f"Faces({', '.join(words)}{', ...' if count > 6 else ''})"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        heads = ("", "box", "score", "confidence", "uncertainty, px", "hidden")
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(i, face)) + "</tr>"
            for i, face in enumerate(self)
        )
        head = "".join(f"<th>{name}</th>" for name in heads)
        return f"<p>{escape(repr(self))}</p><table><tr>{head}</tr>{rows}</table>"

    # -- making them -------------------------------------------------------------------------

    @classmethod
    def empty(cls, markup: str) -> Faces:
        """No face, with arrays of the right shapes."""
        k = get_markup(markup).size
        none = np.empty((0, k, 2))
        return cls(none, np.empty((0, k, 2, 2)), np.empty((0, k)), markup=markup)

    @classmethod
    def stack(cls, faces: Sequence[FaceLandmarks], markup: str = "ibug68") -> Faces:
        """Single faces of one point set as arrays; `markup` is that of an empty list."""
        if not faces:
            return cls.empty(markup)
        names = {name: each.single for name, each in FIELDS.items() if each.single}
        return _joined(faces, np.stack, names)

    @classmethod
    def concatenate(cls, parts: Sequence[Faces]) -> Faces:
        """Faces of one point set, one after the other; empty parts are skipped."""
        if not parts:
            raise InputError("nothing to concatenate: Faces.empty(markup) makes no faces.")
        filled = [part for part in parts if len(part)]
        if len(filled) < 2:
            return filled[0] if filled else parts[0]
        return _joined(filled, np.concatenate, {})

    # -- what they say -----------------------------------------------------------------------

    @property
    def errors(self) -> ErrorModel:
        """The joint distribution of the errors of a face's landmarks."""
        return ErrorModel.of(self.covariance, self.error_factors, self.roll)

    @property
    def roll(self) -> Floats:
        """(n,) radians by which the faces are turned clockwise; 0 where that is not known."""
        if not is_markup(self.markup):
            return np.zeros(len(self))
        right, left = get_markup(self.markup).outer_eye_corners
        across = self.points[:, left] - self.points[:, right]
        return np.asarray(np.arctan2(across[:, 1], across[:, 0]))

    def sample(self, count: int, seed: int = 0) -> Floats:
        """(count, n, k, 2) plausible positions of the landmarks; their errors are correlated if
        the model was calibrated for it."""
        return self.points + self.errors.sample(count, np.random.default_rng(seed))

    @property
    def measures(self) -> Measures:
        """Openness of eyes and mouth, brows, symmetry and head pose, each with arrays (n,) of
        values and standard deviations."""
        from luvli.face_measures import measures_of

        return measures_of(self)

    def head_pose(self) -> HeadPose:
        """Yaw, pitch and roll (n,) of the heads in degrees with their covariance (n, 3, 3).

        Landmarks count by covariance and visibility; see `luvli.measures.head_pose`. Needs 68
        points; NaN where too few are visible.
        """
        if self.points.shape[1] != 68:
            raise InputError(
                f"head pose needs the 68 points of ibug68, got {self.points.shape[1]} points."
            )
        return head_pose(
            self.points,
            self.covariance if self.covariance_trained else None,
            self.visibility if self.visibility_trained else None,
            None if self.error_factors is None else self.errors.factors,
            other_convention=True,
        )

    def transform(self, affine: ArrayLike) -> Faces:
        """Move all faces by one affine (2, 3), or each by its own (n, 2, 3)."""
        matrix = np.asarray(affine, dtype=np.float64)
        if matrix.ndim == 2:
            matrix = affines.as_affine(matrix)
        elif matrix.shape != (len(self), 2, 3):
            raise InputError(f"affines must have shape ({len(self)}, 2, 3), got {matrix.shape}.")
        return replace(
            self,
            points=affines.apply(matrix, self.points),
            covariance=affines.push_covariance(matrix, self.covariance),
            boxes=affines.box_around(matrix, self.boxes),
            image_size=None,
        )

    # -- tables and files --------------------------------------------------------------------

    def to_dicts(self) -> list[dict[str, Any]]:
        """`FaceLandmarks.to_dict` of every face."""
        return [face.to_dict() for face in self]

    @classmethod
    def from_dicts(cls, rows: Sequence[Mapping[str, Any]], markup: str = "ibug68") -> Faces:
        """The inverse of `to_dicts`; `markup` is that of an empty list."""
        return cls.stack([FaceLandmarks.from_dict(row) for row in rows], markup)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with one row for each landmark of each face, numbered by `face`."""
        pandas = require("pandas", "tables")
        n, k = self.points.shape[:2]
        columns = {
            "x": self.points[..., 0],
            "y": self.points[..., 1],
            "var_x": self.covariance[..., 0, 0],
            "var_y": self.covariance[..., 1, 1],
            "cov_xy": self.covariance[..., 0, 1],
            "uncertainty": self.uncertainty,
            "visibility": self.visibility,
            "occlusion": self.occlusion,
        }
        table = {
            "face": np.repeat(np.arange(n), k),
            "landmark": np.tile(landmark_numbers(self.markup, k), n),
            "name": list(self.names) * n,
        }
        return pandas.DataFrame(table | {name: each.ravel() for name, each in columns.items()})

    def _arrays(self) -> dict[str, Any]:
        """Fields that are arrays with one entry for each face, as far as they are known."""
        return {name: getattr(self, name) for name in FIELDS if getattr(self, name) is not None}

    def _face(self, i: int) -> FaceLandmarks:
        values = {
            FIELDS[name].single or name: array[i]
            for name, array in self._arrays().items()
            if name not in ("image", "frame")
        }
        return FaceLandmarks(
            **values,
            regions=self.regions and self.regions.of_faces(i),
            measure_scale=self.measure_scale,
            **{name: getattr(self, name) for name in SETTINGS},
        )


def _joined(
    items: Sequence[Any], join: Callable[[list[Any]], Any], names: Mapping[str, str]
) -> Faces:
    """Several `Faces`, or single faces whose fields are called otherwise (`names`), as one."""
    first = items[0]
    for name in SETTINGS:
        others = {getattr(item, name) for item in items} - {getattr(first, name)}
        if others:
            raise InputError(
                f"faces with {name} {getattr(first, name)!r} and {others.pop()!r} do not fit into "
                "one Faces."
            )
    values: dict[str, Any] = {}
    for name, each in FIELDS.items():
        column = [getattr(item, names.get(name, name), None) for item in items]
        unknown = sum(value is None for value in column)
        if unknown and each.missing is not None:
            column = [each.missing if value is None else value for value in column]
        elif 0 < unknown < len(items) and name != "error_factors":
            raise InputError(f"some of the faces have {name}, others have none.")
        elif unknown:
            continue
        values[name] = join(column)
    regions = [item.regions for item in items if item.regions is not None]
    if len(regions) == len(items):
        columns = zip(*(each[1:] for each in regions), strict=True)
        values["regions"] = RegionRadii(regions[0].levels, *map(join, map(list, columns)))
    settings = {name: getattr(first, name) for name in SETTINGS}
    return Faces(**values, **settings, measure_scale=first.measure_scale)


def _cells(number: int, face: FaceLandmarks) -> list[str]:
    box = ", ".join(f"{edge:.0f}" for edge in face.box)
    sure = "" if face.confidence is None else confidence_text(face.confidence)
    hidden = str(int((~face.visible()).sum())) if face.visibility_trained else ""
    return [str(number), box, f"{face.score:.2f}", sure, f"{np.mean(face.uncertainty):.2f}", hidden]
