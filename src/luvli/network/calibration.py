"""`Calibration`: what makes a model's ellipses hold what they promise.

Fitted by `luvli.trust.calibrate` and kept in the model file. The factors are applied inside the
network's last step (`ModelInfo.cholesky_factors`), the pixels' own variance on the way back to
the image (`ModelInfo.to_image`), so that everything after it sees calibrated covariances.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field, model_validator

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.likelihood import family

LEAST = 1e-6
"""smallest factor, and 1 / the largest: what lies beyond is no calibration, and leaves the range
of float32 when it is multiplied"""


class Calibration(BaseModel):
    """For each landmark a factor and a least variance, the law of what is left, and how they
    were found.

    A network sees crops of one size, whatever size the image was. Pixels and labels of a small
    image are coarse beside its face, and no crop shows that: in the image each covariance is
    `scale` times the network's, plus `pixel_variance` along both axes. A network may also be too
    sure of landmarks that something covers: `occlusion` makes their covariances grow. `likelihood`
    says how the
    labels lie around the landmarks then: which radius holds 95 %, and how likely each place is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    scale: list[Annotated[float, Field(ge=LEAST, le=1 / LEAST)]] = Field(min_length=1)
    """k factors, all above 0, for covariances (their square roots are for lengths)"""
    pixel_variance: list[Annotated[float, Field(ge=0, le=1 / LEAST)]] = []
    """k variances in square pixels of the image, or none"""
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
    """coverage on those faces after; judge it on others"""

    @model_validator(mode="after")
    def _same_landmarks(self) -> Calibration:
        if self.pixel_variance and len(self.pixel_variance) != len(self.scale):
            raise ValueError(
                f"{len(self.scale)} factors and {len(self.pixel_variance)} pixel variances"
            )
        if self.likelihood is not None:
            family(self.likelihood)  # refuses an unknown name
        return self

    def apply(self, covariance: ArrayLike, occlusion: ArrayLike | None = None) -> Floats:
        """Covariances (..., k, 2, 2) in image pixels -> calibrated ones.

        `occlusion` (..., k) are the probabilities that landmarks are covered, where they are told.

        >>> Calibration(scale=[4.0]).apply([np.eye(2)]).tolist()
        [[[4.0, 0.0], [0.0, 4.0]]]
        """
        array = np.asarray(covariance, dtype=np.float64)
        if array.shape[-3:] != (len(self.scale), 2, 2):
            raise InputError(
                f"this calibration is for covariances of shape (..., {len(self.scale)}, 2, 2), "
                f"got {array.shape}."
            )
        scaled: Floats = array * np.asarray(self.scale)[:, None, None]
        return self.in_image(scaled, None if occlusion is None else np.nan_to_num(occlusion))

    def in_image(self, covariance: Floats, occlusion: ArrayLike | None = None) -> Floats:
        """The part of it that comes after the network, whose last step has the factors inside:
        covariances (..., k, 2, 2) in image pixels. `occlusion` (..., k) has no NaN."""
        if self.occlusion and occlusion is not None:
            growth = np.exp(np.asarray(occlusion, np.float64) * self.occlusion)
            covariance = covariance * growth[..., None, None]
        return covariance + self.added

    def undo(self, covariance: ArrayLike, occlusion: ArrayLike | None = None) -> Floats:
        """The inverse of `apply`.

        >>> Calibration(scale=[4.0], pixel_variance=[1.0]).undo([5 * np.eye(2)]).tolist()
        [[[1.0, 0.0], [0.0, 1.0]]]
        """
        ones = np.broadcast_to(np.eye(2), np.shape(covariance))
        factor = self.apply(ones, occlusion) - self.added
        return (np.asarray(covariance, dtype=np.float64) - self.added) / factor[..., :1, :1]

    @cached_property
    def added(self) -> Floats:
        """(k, 2, 2) what the pixels add to each covariance, in square pixels of the image."""
        variance = np.asarray(self.pixel_variance or np.zeros(len(self.scale)))
        added = np.asarray(variance[:, None, None] * np.eye(2), dtype=np.float64)
        added.setflags(write=False)  # made once, not for every face
        return added
