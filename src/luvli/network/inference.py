"""The one way from crops to predictions, for a network in PyTorch.

Validation, relabelling, evaluation, export and prediction with PyTorch all go through
`CropPredictor`; the ONNX graph is written from it and compared with it. What a crop is, the model
itself says (`ModelInfo.crop_for`).
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from luvli.errors import InputError, check_range, unknown_choice
from luvli.faces import Faces
from luvli.files import PathLike
from luvli.image import affine
from luvli.image.read import ImageArray
from luvli.likelihood.covariance import from_cholesky
from luvli.network.backend import Windows, faces_in_crops, network_outputs
from luvli.network.config import NetworkConfig
from luvli.network.model import LUVLi
from luvli.network.model_info import ModelInfo
from luvli.network.pixels import cholesky_to_crop, contrast_stretch, heatmap_to_crop
from luvli.network.weights import load_model


def network_input(
    images: Tensor, config: NetworkConfig, dtype: torch.dtype = torch.float32
) -> Tensor:
    """uint8 crops (B, 3, S, S) as the network wants them: 0..1, stretched if it asks for it.

    Channels last in memory: convolutions are a fifth faster on CPUs that way.
    """
    scaled = images.contiguous(memory_format=torch.channels_last).to(dtype) / 255
    return contrast_stretch(scaled) if config.contrast_stretch else scaled


class CropPredictor:
    """A network with its model information: uint8 crops in, calibrated predictions out.

    The network is used as it is, not copied: one that is being trained may be asked between
    two steps. Without `info` it is taken as it comes from training, uncalibrated.
    """

    def __init__(self, network: LUVLi, info: ModelInfo | None = None) -> None:
        self.network = network
        self.info = info or ModelInfo(name="network", config=network.config)
        if self.info.config != network.config:
            raise InputError(
                f"the information of {self.info.name} is about another network: save it again."
            )
        self._process = os.getpid()

    @classmethod
    def load(cls, path: PathLike, threads: int | None = None, device: str = "cpu") -> CropPredictor:
        """From a safetensors file, ready to predict."""
        if device not in ("cpu", "cuda"):
            raise unknown_choice("device", device, ("cpu", "cuda"))
        if device == "cuda" and not torch.cuda.is_available():
            raise InputError("PyTorch finds no CUDA device: use 'cpu'.")
        if threads is not None:
            check_range("threads", threads, 1)
            torch.set_num_threads(threads)
        network, info = load_model(path)
        return cls(
            network.to(device), ModelInfo.from_training(Path(path).stem, network.config, info)
        )

    def with_mean_estimator(self, name: str) -> CropPredictor:
        """The same weights, and heat maps read in another way: "argmax" for a plain DU-Net."""
        fields = self.network.config.model_dump() | {"mean_estimator": name}
        try:
            config = NetworkConfig(**fields)
            network = LUVLi(config).to(next(self.network.parameters()).device)
            network.load_state_dict(self.network.state_dict())
        except ValidationError as error:
            raise InputError(f"{error.errors()[0]['msg']}: {name}.") from error
        except RuntimeError as error:
            raise InputError(
                f"{self.info.name} has other weights than {name} needs: train it anew."
            ) from error
        return CropPredictor(network.eval(), self.info.model_copy(update={"config": config}))

    @property
    def threads(self) -> int:
        return torch.get_num_threads()

    def __call__(self, crops: ImageArray, windows: Windows | None = None) -> Faces:
        """uint8 RGB crops (B, S, S, 3) -> faces in crop pixels."""
        if not len(crops):  # PyTorch cannot reshape nothing
            size = self.network.config.input_size
            return self(np.zeros((1, size, size, 3), np.uint8))[:0]
        windows = windows or Windows.of_crops(len(crops), self.info)
        if self._process != os.getpid():
            # OpenMP's threads do not survive a fork, and it waits for them for ever
            torch.set_num_threads(1)
            self._process = os.getpid()
        network = self.network
        device = next(network.parameters()).device
        was_training = network.training
        if was_training:
            network.eval()
        with torch.inference_mode():
            outputs = self.predict(torch.from_numpy(np.ascontiguousarray(crops)).to(device))
        if was_training:
            network.train()
        faces = faces_in_crops({name: o.cpu().numpy() for name, o in outputs.items()}, self.info)
        return finish(faces, self.info, windows)

    def predict(self, crops: Tensor) -> dict[str, Tensor]:
        """uint8 crops (B, S, S, 3) -> the `network_outputs` in crop pixels and in the network's
        precision, not calibrated. The last U-net's prediction counts."""
        config = self.network.config
        dtype = next(self.network.parameters()).dtype
        output = self.network(network_input(crops.permute(0, 3, 1, 2), config, dtype))[-1]
        points = heatmap_to_crop(output.mean, config.pixel_grid)
        covariance = from_cholesky(cholesky_to_crop(output.cholesky))
        outputs = [points, covariance, output.visibility]
        if output.occlusion_logit is not None:
            outputs.append(output.occlusion_logit.sigmoid())
        if output.failure_logit is not None:
            outputs.append(output.failure_logit)
        return dict(zip(network_outputs(config), outputs, strict=True))


def finish(faces: Faces, info: ModelInfo, windows: Windows) -> Faces:
    """What the last part of an ONNX file does (`luvli.network.onnx_outputs`): calibration,
    confidence and expected error. `faces` are in crop pixels."""
    calibration, trust = info.calibration, info.trust
    in_image = faces.transform(affine.invert(windows.affines))
    if calibration is not None:
        occlusion = faces.occlusion if info.occlusion_trained else None
        covariance = calibration.apply(in_image.covariance, occlusion, in_image.points)
        in_image = replace(in_image, covariance=covariance)
        in_crop = affine.push_covariance(windows.affines, covariance)
        faces = replace(faces, covariance=in_crop)
    if trust is None or trust.failure_model is None:
        return faces
    placed = replace(in_image, boxes=windows.boxes, scores=windows.scores)
    confidence, expected_error = trust.failure_model(placed)
    return replace(faces, confidence=confidence, expected_error=expected_error)
