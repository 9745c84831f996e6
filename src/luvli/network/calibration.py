"""`Calibration`: factors that make a model's ellipses hold what they promise.

Fitted by `luvli.trust.calibrate`, kept in the model file, applied inside the network's last
step (`ModelInfo.cholesky_factors`), so that everything after it sees calibrated covariances.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field

from luvli.errors import InputError

Floats = NDArray[np.float64]


class Calibration(BaseModel):
    """One factor for the covariance of each landmark, and how it was found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scale: list[float] = Field(min_length=1)
    """k factors, all above 0, for covariances (their square roots are for lengths)"""
    faces: int = Field(default=0, ge=0)
    """held-out faces that it was fitted on"""
    before: dict[str, float] = {}
    """coverage on those faces before, by level ("0.5": 0.41, ...)"""
    after: dict[str, float] = {}
    """coverage on those faces after; judge it on others"""

    def apply(self, covariance: ArrayLike) -> Floats:
        """Covariances (..., k, 2, 2), any unit -> calibrated ones.

        >>> Calibration(scale=[4.0]).apply([np.eye(2)]).tolist()
        [[[4.0, 0.0], [0.0, 4.0]]]
        """
        array = np.asarray(covariance, dtype=np.float64)
        if array.shape[-3:] != (len(self.scale), 2, 2):
            raise InputError(
                f"this calibration is for covariances of shape (..., {len(self.scale)}, 2, 2), "
                f"got {array.shape}."
            )
        return np.asarray(array * np.asarray(self.scale)[:, None, None], dtype=np.float64)
