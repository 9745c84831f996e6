"""What every way of running a model gives and takes. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image.read import ImageArray
from luvli.likelihood.covariance import determinant
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo

INPUT = "crops"
OUTPUTS = ("landmarks", "covariance", "visibility")
OCCLUSION = "occlusion"
FAILURE = "failure_logit"
"""names in an ONNX graph; the last two outputs only where the network has them"""
FIELDS = {
    "landmarks": "points",
    "covariance": "covariance",
    "visibility": "visibility",
    OCCLUSION: "occlusion",
    FAILURE: "failure_logit",
}
"""outputs -> fields of `Faces`"""


def output_shapes(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    """The outputs of a network's ONNX graph in their order, each without its first axis, the
    faces."""
    k = config.landmarks
    shapes: dict[str, tuple[int, ...]] = dict(zip(OUTPUTS, ((k, 2), (k, 2, 2), (k,)), strict=True))
    if config.occlusion:
        shapes[OCCLUSION] = (k,)
    if config.failure_head:
        shapes[FAILURE] = ()
    return shapes


def faces_in_crops(outputs: Mapping[str, Any], info: ModelInfo) -> Faces:
    """A network's outputs for n crops, by their names, as faces in crop pixels without boxes.

    Refuses outputs that are not numbers: weights can be whole and overflow all the same.
    """
    values: dict[str, Any] = {FIELDS[name]: value for name, value in outputs.items()}
    values["covariance"] = _positive_definite(np.asarray(outputs[OUTPUTS[1]], np.float64), info)
    if not all(np.isfinite(array).all() for name, array in values.items() if name != "covariance"):
        raise _no_numbers(info)
    return Faces(
        **values,
        markup=info.config.markup,
        likelihood=info.likelihood,
        visibility_trained=info.config.visibility_trained,
        covariance_trained=info.config.covariance_trained,
        occlusion_trained=info.occlusion_trained,
    )


def _positive_definite(covariance: Floats, info: ModelInfo) -> Floats:
    """Covariances (..., 2, 2), with a millionth of their size added to those that rounding made
    singular: a network without a floor can be that sure in float32."""
    area = determinant(covariance)
    if (area > 0).all() and (area < np.inf).all():
        return covariance
    if not np.isfinite(covariance).all():
        raise _no_numbers(info)
    xx, yy, singular = covariance[..., 0, 0], covariance[..., 1, 1], area <= 0
    if (np.minimum(xx, yy) < 0)[singular].any():
        raise InputError(
            f"the model {info.name} gives negative variances: fetch or train it again."
        )
    size = (xx + yy)[singular] + 1e-6
    covariance[singular] += 1e-6 * size[:, None, None] * np.eye(2)
    return covariance


def _no_numbers(info: ModelInfo) -> InputError:
    return InputError(
        f"the model {info.name} gives locations or covariances that are not numbers: it was "
        "damaged, or its training diverged; fetch it again, or train it again."
    )


class Backend(Protocol):
    """A model that can be run. It must be safe to call from several threads."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def threads(self) -> int: ...

    def __call__(self, crops: ImageArray) -> Faces:
        """uint8 RGB crops (n, S, S, 3), as `info.crop_for` cuts them -> faces in crop pixels."""
        ...
