"""The fields of faces, written down once for `Faces` and `FaceLandmarks`, and what they must be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import InputError, check_range
from luvli.likelihood import family
from luvli.likelihood.covariance import is_covariance, spread
from luvli.markup import get_markup, is_markup
from luvli.markup.parts import landmark_names

if TYPE_CHECKING:
    from luvli.image.read import ImageArray
    from luvli.image.source import AnyImage


@dataclass(frozen=True)
class FaceField:
    """A field with one value for each face: an array in `Faces`, one entry in `FaceLandmarks`."""

    shape: tuple[Any, ...] | None = ()
    """of one face's value; "k", the number of landmarks, comes first; None: not checked"""
    kind: type = float
    missing: float | None = None
    """what stands for a value that is not given; None: the whole field is None"""
    single: str = ""
    """its name in `FaceLandmarks`, if that is another"""

    def array(self, name: str, value: Any, k: int, n: int | None = None) -> Any:
        """A read-only array of n faces, or of one."""
        if value is None and self.missing is None:
            return None
        shape = None
        if self.shape is not None:
            one = (k, *self.shape[1:]) if self.shape[:1] == ("k",) else self.shape
            shape = one if n is None else (n, *one)
        value = np.full(shape or (), self.missing) if value is None else value
        array = read_only(name, value, self.kind)
        if shape is not None and array.shape != shape:
            raise InputError(f"{name} must have shape {shape}, got {array.shape}.")
        return array

    def value(self, name: str, value: Any, k: int) -> Any:
        """What one face has: an array, or a plain number; None where it is not known."""
        if self.shape != ():
            return self.array(name, value, k)
        if value is None or self.kind is not float:
            return None if value is None else self.kind(value)
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{name} must be a number, got {value!r:.40}.") from error
        if math.isinf(number):
            raise InputError(f"{name} must be finite, got {number}.")
        known = self.missing is not None and not math.isnan(self.missing)
        return number if known or not math.isnan(number) else None


FIELDS = {
    "points": FaceField(("k", 2)),
    "covariance": FaceField(("k", 2, 2)),
    "visibility": FaceField(("k",)),
    "occlusion": FaceField(("k",), missing=math.nan),
    "boxes": FaceField((4,), missing=math.nan, single="box"),
    "scores": FaceField(missing=1.0, single="score"),
    "failure_logit": FaceField(missing=math.nan),
    "confidence": FaceField(missing=math.nan),
    "expected_error": FaceField(missing=math.nan),
    "eyes_closed": FaceField(missing=math.nan),
    "accepted": FaceField(kind=bool),
    "track": FaceField(kind=int),
    "time": FaceField(),
    "image_size": FaceField((2,), kind=int),
    "image": FaceField(kind=object),
    "frame": FaceField(kind=int),
    "error_factors": FaceField(None),
}
"""those with one value for each face"""
LANDMARK_FIELDS = ("points", "covariance", "visibility", "occlusion", "error_factors")
"""those with one value for each landmark"""
SETTINGS = (
    "markup", "likelihood", "visibility_trained", "covariance_trained", "occlusion_trained",
)  # fmt: skip
"""what all faces of a `Faces` have in common"""


class LandmarkMethods:
    """What one face with (k, ...) arrays and n faces with (n, k, ...) arrays have in common."""

    points: Floats
    covariance: Floats
    visibility: Floats
    occlusion: Floats
    markup: str
    image_size: Any

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        """Faces are several arrays: `points`, `covariance`, ..."""
        raise InputError("faces are not one array: use .points, .covariance or .visibility.")

    @property
    def names(self) -> tuple[str, ...]:
        """(k) what the landmarks are called, for instance "left eye outer corner"."""
        return landmark_names(self.markup, self.points.shape[-2])

    def visible(self, threshold: float = 0.5) -> Bools:
        """(..., k) whether each landmark is visible with a probability above `threshold`."""
        return self.visibility > threshold

    def occluded(self, threshold: float = 0.5) -> Bools:
        """(..., k) whether something covers each landmark with a probability above `threshold`;
        nowhere, where the model does not estimate it."""
        return self.occlusion > threshold

    @property
    def in_image(self) -> Bools | None:
        """(..., k) whether each landmark lies inside its image; None where the size of the image is
        not known."""
        if self.image_size is None:
            return None
        size = np.asarray(self.image_size)[..., None, :]
        return np.asarray(((self.points >= -0.5) & (self.points < size - 0.5)).all(axis=-1))

    @property
    def uncertainty(self) -> Floats:
        """(..., k) standard deviation of each landmark in pixels: |Sigma|^(1/4), the geometric mean
        of the half-axes of its ellipse at Mahalanobis distance 1."""
        return np.asarray(spread(self.covariance), dtype=np.float64)

    def draw(self, image: AnyImage, **options: Any) -> ImageArray:
        """The landmarks on a copy of their image: `luvli.draw(image, faces, ...)`."""
        from luvli.drawing.faces import draw

        return draw(image, self, **options)  # type: ignore[arg-type]


def read_only(name: str, values: ArrayLike, kind: Any = float) -> Any:
    """A read-only array on the same numbers; the array itself where it is that already."""
    if type(values) is np.ndarray and values.dtype == kind and not values.flags.writeable:
        return values
    try:
        array = np.asarray(values, dtype=kind).view()
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}.") from error
    array.flags.writeable = False
    return array


def landmark_count(points: Floats, markup: str, ndim: int) -> int:
    """k of points (k, 2) or (n, k, 2), which must be as many as the markup has, if it is known."""
    if points.ndim != ndim or points.shape[-1] != 2:
        wanted = "(k, 2)" if ndim == 2 else "(n, k, 2)"
        raise InputError(f"points must have shape {wanted}, got {points.shape}.")
    k: int = points.shape[-2]
    if is_markup(markup) and get_markup(markup).size != k:
        size = get_markup(markup).size
        raise InputError(f"the markup {markup} has {size} points, got {k}.")
    return k


def check_numbers(faces: Any, boxes: Floats) -> None:
    """Refuse numbers of faces that cannot be what they say; NaN means that something is not known,
    which a visibility always is."""
    for name, values in {"points": faces.points, "boxes": boxes}.items():
        if np.isinf(values).any():
            raise InputError(f"{name} must be finite, or NaN where there is no location.")
    located = ~np.isnan(faces.covariance).all(axis=(-2, -1))  # all-NaN means "no location"
    bad = located & ~is_covariance(faces.covariance, 1e-6)
    if bad.any():
        place = np.argwhere(bad)[0]
        raise InputError(
            f"covariance of landmark {place[-1]} is not symmetric and positive-definite: "
            f"{faces.covariance[tuple(place)].tolist()}."
        )
    for name, values in {"visibility": faces.visibility, "occlusion": faces.occlusion}.items():
        wrong = ~((values >= 0) & (values <= 1))
        if name == "occlusion":
            wrong &= ~np.isnan(values)
        if wrong.any():
            check_range(name, values[wrong][0], 0, 1)
    family(faces.likelihood)  # refuses an unknown name
