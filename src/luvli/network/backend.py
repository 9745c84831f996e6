"""What every way of running a model gives and takes. Needs no PyTorch."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from luvli.image.read import ImageArray
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo

INPUT = "crops"
OUTPUTS = ("landmarks", "covariance", "visibility")
OCCLUSION = "occlusion"
ASTRAY = "astray"
"""names in an ONNX graph; the last two outputs only where the network has them"""


def output_shapes(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    """The outputs of a network's ONNX graph in their order, each without its first axis, the
    faces."""
    k = config.landmarks
    shapes: dict[str, tuple[int, ...]] = dict(zip(OUTPUTS, ((k, 2), (k, 2, 2), (k,)), strict=True))
    if config.occlusion:
        shapes[OCCLUSION] = (k,)
    if config.astray:
        shapes[ASTRAY] = ()
    return shapes


def output_fields(config: NetworkConfig) -> list[str]:
    """The fields of `CropPrediction` that these outputs are, in the same order."""
    return ["points", *list(output_shapes(config))[1:]]


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
    astray: NDArray[np.floating] | None = None
    """(B,) log-odds that the alignment went astray altogether; None where it does not tell"""

    @classmethod
    def join(cls, parts: list[CropPrediction]) -> CropPrediction:
        """Batches, one after the other."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*parts, strict=True)
        return cls(*(None if c[0] is None else np.concatenate(c) for c in columns))  # type: ignore[arg-type]


def usable(found: CropPrediction) -> bool:
    """Whether all that is said about some crops are numbers, and covariances are covariances."""
    # Sums of squares, not `isfinite`: after a run of the network little of NumPy is left in the
    # processor's caches, and fetching it takes longer than all the numbers. A NaN or inf shows.
    squares = 0.0
    for numbers in (found.points, found.covariance, found.visibility, found.astray):
        if numbers is None:
            continue
        flat = numbers.reshape(-1)
        squares += float(np.dot(flat, flat))
    diagonal = found.covariance.reshape(-1, 4)[:, ::3]  # xx and yy
    return math.isfinite(squares) and (
        not diagonal.size or bool(np.minimum.reduce(diagonal, axis=None) > 0)
    )


class Backend(Protocol):
    """A model that can be run. It must be safe to call from several threads."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def threads(self) -> int: ...

    def __call__(self, crops: ImageArray) -> CropPrediction:
        """uint8 RGB crops (B, S, S, 3), as `info.crop_for` cuts them -> predictions."""
        ...
