"""`Faces`: n faces of one image, frame or data set as arrays, from the network to the web page.

faces = model.predict("photo.jpg")
faces[0]                              # one face, a `FaceLandmarks`
faces[faces.confidence > 0.9].points  # (m, k, 2) of those that can be trusted
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.errors import InputError, require
from luvli.face_checks import (
    check_not_infinite,
    check_positive_definite,
    check_probabilities,
)
from luvli.face_landmarks import (
    ARRAY_FIELDS,
    FaceLandmarks,
    confidence_text,
)
from luvli.image import affine as affines
from luvli.likelihood import family
from luvli.likelihood.covariance import spread
from luvli.likelihood.ellipses import Ellipses, RegionRadii
from luvli.markup import get_markup, is_markup
from luvli.markup.parts import Which, is_names, landmark_names, landmark_numbers, select
from luvli.measures.correlation import ErrorModel
from luvli.measures.head_pose import HeadPose, head_pose
from luvli.measures.measure import Measures

if TYPE_CHECKING:
    from luvli.image.read import ImageArray
    from luvli.image.source import AnyImage

__all__ = [
    "ARRAY_FIELDS",
    "Ellipses",
    "FaceLandmarks",
    "Faces",
    "RegionRadii",
]

_LANDMARK_ARRAYS = ("points", "covariance", "visibility", "occlusion")
_FACE_NUMBERS = ("scores", "failure_logit", "confidence", "expected_error", "eyes_closed")
_OPTIONAL = ("accepted", "track", "time", "image", "frame", "image_size")
_ARRAYS = (*_LANDMARK_ARRAYS, "boxes", *_FACE_NUMBERS, *_OPTIONAL, "error_factors")
_SETTINGS = (
    "markup", "likelihood", "visibility_trained", "covariance_trained", "occlusion_trained",
)  # fmt: skip
_TYPES: dict[str, Any] = {"accepted": np.dtype(bool), "track": np.dtype(np.int64),
                          "image": np.dtype(object), "frame": np.dtype(np.int64),
                          "image_size": np.dtype(np.int64)}  # fmt: skip
_FLOAT = np.dtype(np.float64)
_SHAPES: dict[str, tuple[Any, ...]] = {
    "covariance": ("n", "k", 2, 2),
    "visibility": ("n", "k"),
    "occlusion": ("n", "k"),
    "boxes": ("n", 4),
    "image_size": ("n", 2),
}
"""of the fields that are not (n,)"""
_SINGLE = {"boxes": "box", "scores": "score"}
"""what a field is called in a `FaceLandmarks`, where it has another name"""
_RADII = ("radii", "joint")


@dataclass(frozen=True, eq=False, repr=False)
class Faces:
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
        points = values["points"] = _view(self.points)
        if points.ndim != 3 or points.shape[2] != 2:
            raise InputError(f"points must have shape (n, k, 2), got {points.shape}.")
        sizes: dict[Any, int] = {"n": len(points), "k": points.shape[1]}
        if is_markup(self.markup) and get_markup(self.markup).size != sizes["k"]:
            size = get_markup(self.markup).size
            raise InputError(f"the markup {self.markup} has {size} points, got {sizes['k']}.")
        for name in _ARRAYS[1:-1]:
            shape = tuple(sizes.get(side, side) for side in _SHAPES.get(name, ("n",)))
            if values[name] is None:
                if name in _OPTIONAL:
                    continue
                values[name] = np.full(shape, 1.0 if name == "scores" else np.nan)
            values[name] = _view(values[name], _TYPES.get(name, _FLOAT))
            if values[name].shape != shape:
                raise InputError(f"{name} must have shape {shape}, got {values[name].shape}.")

    def check(self) -> Faces:
        """The same faces, after refusing numbers that cannot be what they say."""
        check_not_infinite("points", self.points)
        check_not_infinite("boxes", self.boxes)
        check_positive_definite(self.covariance)
        check_probabilities("visibility", self.visibility, allow_nan=False)
        check_probabilities("occlusion", self.occlusion)
        family(self.likelihood)  # refuses an unknown name
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
        chosen = which if isinstance(which, slice) else np.asarray(which)
        if isinstance(chosen, np.ndarray) and not chosen.size:
            chosen = chosen.astype(np.intp)  # an empty list has no type of its own
        if not isinstance(chosen, slice):
            chosen = np.atleast_1d(np.arange(len(self))[chosen])
        changes: dict[str, Any] = {name: value[chosen] for name, value in self._arrays().items()}
        if self.regions is not None:
            levels, radii, joint = self.regions
            changes["regions"] = RegionRadii(levels, radii[chosen], joint[chosen])
        return replace(self, **changes)

    def part(self, which: Which) -> Faces:
        """Of every face the landmarks chosen by name, number, slice or mask."""
        index, markup = select(self.markup, self.points.shape[1], which)
        changes: dict[str, Any] = {
            name: values[:, index]
            for name, values in self._arrays().items()
            if name in (*_LANDMARK_ARRAYS, "error_factors")
        }
        if self.regions is not None:
            changes["regions"] = self.regions._replace(radii=self.regions.radii[:, index])
        return replace(self, markup=markup, **changes)

    def __eq__(self, other: object) -> bool:
        """Equal when all that is said about the faces is; NaN equals NaN."""
        if not isinstance(other, Faces):
            return NotImplemented
        if any(getattr(self, name) != getattr(other, name) for name in _SETTINGS):
            return False
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=name not in _TYPES)
            for name in _ARRAYS
            if name not in ("image_size", "error_factors")
            and not (getattr(self, name) is None and getattr(other, name) is None)
        )

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
        return _joined(faces, np.stack, _SINGLE)

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
    def names(self) -> tuple[str, ...]:
        """(k) what the landmarks are called."""
        return landmark_names(self.markup, self.points.shape[1])

    def visible(self, threshold: float = 0.5) -> Bools:
        """(n, k) whether each landmark is visible with a probability above `threshold`."""
        return self.visibility > threshold

    @property
    def in_image(self) -> Bools | None:
        """(n, k) whether each landmark lies inside its image; None where the size of the image is
        not known."""
        if self.image_size is None:
            return None
        low = self.points >= -0.5
        return np.asarray((low & (self.points < self.image_size[:, None] - 0.5)).all(axis=2))

    def occluded(self, threshold: float = 0.5) -> Bools:
        """(n, k) whether something covers each landmark, with a probability above `threshold`."""
        return self.occlusion > threshold

    @property
    def uncertainty(self) -> Floats:
        """(n, k) standard deviation of each landmark in pixels, |Sigma|^(1/4)."""
        return np.asarray(spread(self.covariance), dtype=np.float64)

    @property
    def errors(self) -> ErrorModel:
        """How the landmarks may be off, all of a face together."""
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
        """(count, n, k, 2) plausible positions of the landmarks, which err together as far as the
        model was calibrated for it."""
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

    def draw(self, image: AnyImage, **options: Any) -> ImageArray:
        """The faces on a copy of their image: `luvli.draw(image, faces, ...)`."""
        from luvli.drawing.draw import draw

        return draw(image, self, **options)

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
        return {name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None}

    def _face(self, i: int) -> FaceLandmarks:
        values = {
            _SINGLE.get(name, name): array[i]
            for name, array in self._arrays().items()
            if name not in ("image", "frame")
        }
        for name in (*_FACE_NUMBERS[1:], "time"):
            if name in values and np.isnan(values[name]):
                values[name] = None
        if self.regions is not None:
            levels, radii, joint = self.regions
            values["regions"] = RegionRadii(levels, radii[i], joint[i])
        return FaceLandmarks(
            **values,
            measure_scale=self.measure_scale,
            **{name: getattr(self, name) for name in _SETTINGS},
        )


def _joined(
    items: Sequence[Any], join: Callable[[list[Any]], Any], names: Mapping[str, str]
) -> Faces:
    """Several `Faces`, or single faces whose fields are called otherwise (`names`), as one."""
    first = items[0]
    for name in _SETTINGS:
        others = {getattr(item, name) for item in items} - {getattr(first, name)}
        if others:
            raise InputError(
                f"faces with {name} {getattr(first, name)!r} and {others.pop()!r} do not fit into "
                "one Faces."
            )
    values: dict[str, Any] = {}
    for name in _ARRAYS:
        column = [getattr(item, names.get(name, name), None) for item in items]
        unknown = sum(value is None for value in column)
        if unknown and name in _FACE_NUMBERS:
            column = [np.nan if value is None else value for value in column]
        elif 0 < unknown < len(items) and name in _OPTIONAL:
            raise InputError(f"some of the faces have {name}, others have none.")
        elif unknown:
            continue
        values[name] = join(column)
    regions = [item.regions for item in items if item.regions is not None]
    if len(regions) == len(items):
        radii, joint = (join([getattr(each, name) for each in regions]) for name in _RADII)
        values["regions"] = RegionRadii(regions[0].levels, radii, joint)
    values["measure_scale"] = first.measure_scale
    return Faces(**values, **{name: getattr(first, name) for name in _SETTINGS})


def _view(values: ArrayLike, dtype: Any = _FLOAT) -> Any:
    """A read-only array on the same numbers; the array itself where it is that already."""
    if type(values) is np.ndarray and values.dtype == dtype and not values.flags.writeable:
        return values
    array = np.asarray(values, dtype=dtype).view()
    array.flags.writeable = False
    return array


def _cells(number: int, face: FaceLandmarks) -> list[str]:
    box = ", ".join(f"{edge:.0f}" for edge in face.box)
    sure = "" if face.confidence is None else confidence_text(face.confidence)
    hidden = str(int((~face.visible()).sum())) if face.visibility_trained else ""
    return [str(number), box, f"{face.score:.2f}", sure, f"{np.mean(face.uncertainty):.2f}", hidden]
