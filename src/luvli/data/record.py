"""One labelled face, whatever data set or file it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.markup import get_markup, is_markup

BoxKind = Literal["detector", "given", "tight"]
"""Where a record's box comes from: a face detector, the data set's own file, the landmarks."""

IMAGE_NAME = "image_name"
"""attribute: what the label file calls an image that was not looked for"""


def check_file_name(name: str) -> None:
    """Refuse what a label file calls an image and no file can be called."""
    try:
        if b"\0" not in os.fsencode(name):
            return
    except UnicodeEncodeError:
        pass
    raise InputError(f"{ascii(name)[:80]} cannot be the name of a file: mend the label file.")


class Visibility(IntEnum):
    """The visibility classes of section 4 of the paper, and "nobody said"."""

    UNLABELLED = -1
    """neither location nor visibility is known"""
    SELF_OCCLUDED = 0
    """hidden by the head itself: v = 0, no location"""
    UNOCCLUDED = 1
    """in plain sight: v = 1"""
    EXTERNALLY_OCCLUDED = 2
    """hidden by hair or an object: v = 1, the location was estimated by the labeller"""


class LabelledPoints(NamedTuple):
    """Landmarks as a label file gives them."""

    points: NDArray[np.float64]
    """(k, 2) image pixels, first pixel centre (0, 0); NaN where there is no location"""
    visibility: NDArray[np.int8]
    """(k,) `Visibility` classes"""


@dataclass(frozen=True, eq=False, repr=False)
class FaceRecord:
    """One labelled face: by a person, or by a model (then with covariance and probability)."""

    points: NDArray[np.float64]
    """(k, 2) image pixels, first pixel centre (0, 0); NaN where there is no location"""
    visibility: NDArray[np.int8]
    """(k,) `Visibility` classes"""
    image: Path | None = None
    """the image, or None when only labels are at hand"""
    box: NDArray[np.float64] | None = None
    """(4,) x0, y0, x1, y1 image pixels"""
    box_kind: BoxKind = "tight"
    """always `tight` without a box"""
    markup: str = "ibug68"
    dataset: str = ""
    face_id: str = ""
    """unique within the data set"""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """pose class, subset, WFLW attributes ...: plain values that survive JSON"""
    covariance: NDArray[np.float64] | None = None
    """(k, 2, 2) how sure a model was of its label; None for human labels"""
    visibility_probability: NDArray[np.float64] | None = None
    """(k,) a model's probability of visibility; None for human labels"""
    score: float | None = None
    """a detector's confidence, when the face was found by one"""

    def __repr__(self) -> str:
        """One line: whose face, how many points, what is known besides them.

        >>> FaceRecord(points=np.zeros((68, 2)), visibility=np.ones(68, np.int8), face_id="a")
        FaceRecord(a, 68 points of ibug68, 68 visible)
        """
        words = [f"{len(self.points)} points of {self.markup}", f"{self.visible.sum()} visible"]
        words += [f"{key} {value}" for key, value in self.attributes.items()]
        return f"FaceRecord({', '.join([self.name, *words] if self.name else words)})"

    def __post_init__(self) -> None:
        k = len(self.points)
        if is_markup(self.markup) and k != (size := get_markup(self.markup).size):
            raise self._error(f"markup {self.markup} has {size} points, got {k}")
        shapes = {"points": (k, 2), "visibility": (k,), "box": (4,), "covariance": (k, 2, 2)}
        for name, shape in {**shapes, "visibility_probability": (k,)}.items():
            if getattr(self, name) is not None:
                kind = np.int8 if name == "visibility" else np.float64
                array = np.array(getattr(self, name), dtype=kind)
                if array.shape != shape:
                    raise self._error(f"{name} must have shape {shape}, got {array.shape}")
                object.__setattr__(self, name, array)
        if self.box is None:
            object.__setattr__(self, "box_kind", "tight")
        self.points[~self.visible] = np.nan  # what has no location must not look as if it had one
        lost = self.visible & ~np.isfinite(self.points).all(axis=1)
        if lost.any():
            raise self._error(f"landmark {int(np.argmax(lost))} is visible but has no location")
        if self.image is not None:
            check_file_name(str(self.image))
            object.__setattr__(self, "image", Path(self.image))

    def _error(self, sentence: str) -> InputError:
        return InputError(f"{sentence}{f' ({self.name})' if self.name else ''}.")

    @property
    def name(self) -> str:
        """A word for messages: the face id, or the image's file name."""
        return self.face_id or (Path(self.image).name if self.image else "")

    @property
    def visible(self) -> NDArray[np.bool_]:
        """(k,) v_j of the paper: True for unoccluded and externally occluded landmarks."""
        return self.visibility > Visibility.SELF_OCCLUDED

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """(k,) whether anything is known of the landmark at all."""
        return np.asarray(self.visibility != Visibility.UNLABELLED)

    @property
    def tight_box(self) -> NDArray[np.float64]:
        """(4,) the smallest upright box around the located landmarks; NaN when there are none."""
        located = self.points[self.visible]
        if not len(located):
            return np.full(4, np.nan)
        return np.concatenate([located.min(axis=0), located.max(axis=0)])

    def with_changes(self, **changes: Any) -> FaceRecord:
        """A copy with some fields replaced."""
        return replace(self, **changes)

    @classmethod
    def from_landmarks(
        cls, face: FaceLandmarks, image: Path | None = None, threshold: float = 0.5, **fields: Any
    ) -> FaceRecord:
        """A prediction as a label: self-occluded where visibility is at most `threshold`."""
        visible = face.visible(threshold) if face.visibility_trained else np.full(len(face), True)
        located = visible & np.isfinite(face.points).all(axis=1)
        return cls(
            points=face.points,
            visibility=np.where(located, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED),
            image=image,
            box=face.box,
            box_kind="detector",
            markup=face.markup,
            covariance=face.covariance if face.covariance_trained else None,
            visibility_probability=face.visibility,
            score=face.score,
            **fields,
        )
