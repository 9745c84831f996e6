"""`Calibration`: what makes a model's ellipses hold what they promise.

Fitted by `luvli.calibration.covariance` and kept in the model file. Every model gives calibrated
covariances: an ONNX file by its last nodes (`luvli.network.onnx_outputs`), a network in PyTorch by
`luvli.network.inference.finish`.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field, model_validator

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.likelihood import family

MIN_SCALE = 1e-6
"""smallest factor, and 1 / the largest: what lies beyond is no calibration, and leaves the range
of float32 when it is multiplied"""


class Calibration(BaseModel):
    """For each landmark a factor, added variances, the distribution of errors, and the coverage
    that it was fitted to.

    In the image each covariance is `scale` times the network's, plus two variances along both axes.
    `pixel_variance`, in image pixels: pixels and labels of a small image are coarse beside its
    face, and the crop, which has one size, does not show it. `convention_variance`, in units of the
    face's box: annotators of another data set place the point elsewhere. `occlusion` makes the
    covariances of covered landmarks grow. `likelihood` is the distribution of the labels around
    the landmarks: which radius holds 95 %, and how likely each place is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    scale: list[Annotated[float, Field(ge=MIN_SCALE, le=1 / MIN_SCALE)]] = Field(min_length=1)
    """k factors, all above 0, for covariances (their square roots are for lengths)"""
    pixel_variance: list[Annotated[float, Field(ge=0, le=1 / MIN_SCALE)]] = []
    """k variances in square pixels of the image, or none"""
    convention_variance: list[Annotated[float, Field(ge=0, le=1)]] = []
    """k variances between the label conventions of data sets, in units of the squared box size
    (geometric mean of the sides of the box around the predicted points), or none"""
    occlusion: float = Field(default=0.0, ge=0, le=5)
    """covariances grow by exp(occlusion * p) where a landmark is covered with probability p"""
    likelihood: str | None = None
    """the density that the calibrated covariances belong to, by name (`luvli.likelihood.family`);
    None, as in older files: that of the network's training"""
    faces: int = Field(default=0, ge=0)
    """held-out faces that it was fitted on"""
    before: dict[str, float] = {}
    """coverage on those faces before, by level ("0.5": 0.41, ...)"""
    after: dict[str, float] = {}
    """coverage on those faces after"""

    @model_validator(mode="after")
    def _same_landmarks(self) -> Calibration:
        for name in ("pixel_variance", "convention_variance"):
            count = len(getattr(self, name))
            if count and count != len(self.scale):
                raise ValueError(f"{len(self.scale)} factors and {count} values of {name}")
        if self.likelihood is not None:
            family(self.likelihood)  # refuses an unknown name
        return self

    def apply(
        self,
        covariance: ArrayLike,
        occlusion: ArrayLike | None = None,
        points: ArrayLike | None = None,
    ) -> Floats:
        """Covariances (..., k, 2, 2) in image pixels -> calibrated ones.

        `occlusion` (..., k) are the probabilities that landmarks are covered, NaN where they are
        not estimated; `points` (..., k, 2) say how large the face is.

        >>> Calibration(scale=[4.0]).apply([np.eye(2)]).tolist()
        [[[4.0, 0.0], [0.0, 4.0]]]
        """
        array = np.asarray(covariance, dtype=np.float64)
        if array.shape[-3:] != (len(self.scale), 2, 2):
            raise InputError(
                f"this calibration is for covariances of shape (..., {len(self.scale)}, 2, 2), "
                f"got {array.shape}."
            )
        return np.asarray(array * self._factor(occlusion) + self._added(points))

    def undo(
        self,
        covariance: ArrayLike,
        occlusion: ArrayLike | None = None,
        points: ArrayLike | None = None,
    ) -> Floats:
        """The inverse of `apply`.

        >>> Calibration(scale=[4.0], pixel_variance=[1.0]).undo([5 * np.eye(2)]).tolist()
        [[[1.0, 0.0], [0.0, 1.0]]]
        """
        scaled = np.asarray(covariance, dtype=np.float64) - self._added(points)
        return np.asarray(scaled / self._factor(occlusion))

    def _factor(self, occlusion: ArrayLike | None) -> Floats:
        """(..., k, 1, 1)"""
        factor = np.asarray(self.scale)
        if self.occlusion and occlusion is not None:
            probability = np.nan_to_num(np.asarray(occlusion, np.float64))
            factor = factor * np.exp(probability * self.occlusion)
        return factor[..., None, None]

    def _added(self, points: ArrayLike | None) -> Floats:
        """(..., k, 2, 2) or (k, 2, 2): added to each covariance, in square pixels."""
        none = [0.0] * len(self.scale)
        variance = np.array(self.pixel_variance or none)
        if self.convention_variance and points is not None:
            variance = variance + face_area(points)[..., None] * np.array(self.convention_variance)
        return np.asarray(variance[..., None, None] * np.eye(2), dtype=np.float64)


def face_area(points: ArrayLike) -> Floats:
    """(...) area of the upright box around points (..., k, 2), in square pixels."""
    array = np.asarray(points, dtype=np.float64)
    return np.asarray((array.max(axis=-2) - array.min(axis=-2)).prod(axis=-1))
