"""What every way of running a model gives and takes. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image.read import ImageArray
from luvli.likelihood.covariance import determinant
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo

CROPS, AFFINE, BOX, SCORE = "crops", "affine", "box", "score"
"""names of the inputs of an ONNX file"""
OCCLUSION, FAILURE = "occlusion", "failure_logit"
"""outputs of networks that were built with them"""
CONFIDENCE, EXPECTED_ERROR = "confidence", "expected_error"
"""outputs of models with a failure model"""
FIELDS = {
    "landmarks": "points",
    "covariance": "covariance",
    "visibility": "visibility",
    OCCLUSION: "occlusion",
    FAILURE: "failure_logit",
    CONFIDENCE: "confidence",
    EXPECTED_ERROR: "expected_error",
}
"""outputs of an ONNX file -> fields of `Faces`"""


@dataclass(frozen=True, eq=False)
class Windows:
    """Where n crops lie in their images."""

    affines: Floats
    """(n, 2, 3) from image to crop pixels, as in `Crop.affine`"""
    boxes: Floats
    """(n, 4) of the faces, in image pixels"""
    scores: Floats
    """(n,) of the detector; 1 for boxes that somebody gave"""

    @classmethod
    def of_crops(cls, count: int, info: ModelInfo) -> Windows:
        """Of images that are face crops by themselves."""
        size = info.config.input_size
        middle, half = (size - 1) / 2, size / info.enlarge / 2
        box = [middle - half, middle - half, middle + half, middle + half]
        return cls(np.tile(np.eye(2, 3), (count, 1, 1)), np.tile(box, (count, 1)), np.ones(count))

    def __getitem__(self, which: slice) -> Windows:
        return Windows(self.affines[which], self.boxes[which], self.scores[which])

    def inputs(self, crops: ImageArray) -> dict[str, NDArray[Any]]:
        """The inputs of an ONNX file by name, with these crops (n, S, S, 3)."""
        arrays = (self.affines, self.boxes, self.scores)
        places = zip((AFFINE, BOX, SCORE), arrays, strict=True)
        return {CROPS: np.ascontiguousarray(crops)} | {k: v.astype(np.float32) for k, v in places}


def input_types(config: NetworkConfig) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of the inputs of an ONNX file, without the first axis, the faces."""
    side = config.input_size
    return {
        CROPS: ("uint8", (side, side, 3)),
        AFFINE: ("float", (2, 3)),
        BOX: ("float", (4,)),
        SCORE: ("float", ()),
    }


def network_outputs(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    """The outputs of a network and their shapes, each without its first axis, the faces."""
    k = config.landmarks
    shapes: dict[str, tuple[int, ...]] = {
        "landmarks": (k, 2), "covariance": (k, 2, 2), "visibility": (k,)
    }  # fmt: skip
    if config.occlusion:
        shapes[OCCLUSION] = (k,)
    if config.failure_head:
        shapes[FAILURE] = ()
    return shapes


def output_shapes(info: ModelInfo) -> dict[str, tuple[int, ...]]:
    """The outputs of a model's ONNX file in their order: the network's, and the confidence."""
    shapes = network_outputs(info.config)
    if info.trust is not None and info.trust.failure_model is not None:
        shapes |= {CONFIDENCE: (), EXPECTED_ERROR: ()}
    return shapes


def faces_in_crops(outputs: Mapping[str, Any], info: ModelInfo) -> Faces:
    """A network's outputs for n crops, by their names, as faces in crop pixels without boxes.

    Refuses outputs that are not numbers: weights can be whole and overflow all the same.
    """
    values: dict[str, Any] = {FIELDS[name]: value for name, value in outputs.items()}
    values["covariance"] = _positive_definite(np.asarray(outputs["covariance"], np.float64), info)
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


def no_faces(info: ModelInfo) -> Faces:
    """What a model gives for no crops."""
    shapes = output_shapes(info).items()
    return faces_in_crops({name: np.empty((0, *shape)) for name, shape in shapes}, info)


def _positive_definite(covariance: Floats, info: ModelInfo) -> Floats:
    """Covariances (..., 2, 2), with a millionth of their size added to those that rounding made
    singular: a network without a floor can be that sure in float32."""
    if not np.isfinite(covariance).all():
        raise _no_numbers(info)
    area = determinant(covariance)
    if (area > 0).all():
        return covariance
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

    def __call__(self, crops: ImageArray, windows: Windows | None = None) -> Faces:
        """uint8 RGB crops (n, S, S, 3), as `info.crop_for` cuts them -> faces in crop pixels, with
        calibrated covariances and confidence, without boxes. `windows` say where the crops lie in
        their images; by default they are images of their own.
        """
        ...
