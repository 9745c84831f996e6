"""What every way of running a model gives and takes. Needs no PyTorch."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from luvli.image.read import ImageArray
from luvli.network.model_info import ModelInfo

INPUT = "crops"
OUTPUTS = ("landmarks", "covariance", "visibility")
OCCLUSION = "occlusion"
"""names in an ONNX graph; the last output only where the network has it"""


class CropPrediction(NamedTuple):
    """What a model says about B crops, in crop pixels."""

    points: NDArray[np.floating]
    """(B, k, 2) x, y"""
    covariance: NDArray[np.floating]
    """(B, k, 2, 2), calibrated"""
    visibility: NDArray[np.floating]
    """(B, k) probability of not being hidden by the head itself"""
    occlusion: NDArray[np.floating] | None = None
    """(B, k) probability of being covered by something; None where the network does not tell"""

    @classmethod
    def join(cls, parts: list[CropPrediction]) -> CropPrediction:
        """Batches, one after the other."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*parts, strict=True)
        return cls(*(None if c[0] is None else np.concatenate(c) for c in columns))  # type: ignore[arg-type]


def usable(found: CropPrediction) -> NDArray[np.bool_]:
    """(B,) whether all that is said about a crop are numbers, and covariances are covariances."""
    batch = len(found.points)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = found.points.sum() + found.visibility.sum() + found.covariance.sum()
    if np.isfinite(sums) and found.covariance.reshape(-1, 4)[:, ::3].min(initial=1.0) > 0:
        return np.ones(batch, dtype=np.bool_)  # as usual: a NaN or inf would be in the sums
    covariance = found.covariance.astype(np.float64).reshape(batch, -1, 2, 2)
    xx, yy = covariance[..., 0, 0], covariance[..., 1, 1]
    with np.errstate(invalid="ignore", over="ignore"):
        proper = (xx > 0) & (yy > 0) & np.isfinite(xx + yy) & np.isfinite(covariance[..., 0, 1])
    numbers = (found.points, found.visibility)
    finite = [np.isfinite(part).reshape(batch, -1).all(axis=1) for part in numbers]
    return np.asarray(finite[0] & finite[1] & proper.all(axis=1))


class Backend(Protocol):
    """A model that can be run. It must be safe to call from several threads."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def threads(self) -> int: ...

    def __call__(self, crops: ImageArray) -> CropPrediction:
        """uint8 RGB crops (B, S, S, 3), as `info.crop_for` cuts them -> predictions."""
        ...
