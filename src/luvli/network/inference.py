"""`Deployed`: a trained network as it is used. The torch backend runs it, ONNX is made from it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from luvli.errors import InputError
from luvli.likelihood.covariance import from_cholesky
from luvli.network.model import LUVLi
from luvli.network.model_info import ModelInfo
from luvli.network.pixels import cholesky_to_crop, contrast_stretch, heatmap_to_crop


class Deployed(nn.Module):
    """uint8 RGB crops (B, S, S, 3) -> landmarks, covariance, visibility, in crop pixels.

    Crops enter as they lie in memory after cropping, so that nothing is left to do outside.
    The last U-net's answer counts; the calibration is part of the covariance.
    """

    calibration: Tensor

    def __init__(self, network: LUVLi, info: ModelInfo) -> None:
        super().__init__()
        self.network = network
        k = network.config.landmarks
        scale = torch.ones(k)
        if info.calibration is not None:
            scale = torch.tensor(info.calibration.scale)
        if scale.shape != (k,):
            raise InputError(
                f"the calibration of {info.name} is for {len(scale)} landmarks, the network "
                f"has {k}: calibrate it again."
            )
        # in lengths, for Cholesky entries: covariances are then exactly symmetric
        self.register_buffer("calibration", scale.sqrt()[:, None])

    def forward(self, crops: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, k, 2) crop pixels, (B, k, 2, 2) crop pixels squared, (B, k) probabilities."""
        config = self.network.config
        images = crops.permute(0, 3, 1, 2).to(self.calibration.dtype) / 255
        if config.contrast_stretch:
            images = contrast_stretch(images)
        answer = self.network(images)[-1]
        points = heatmap_to_crop(answer.mean, config.pixel_grid)
        cholesky = cholesky_to_crop(answer.cholesky) * self.calibration
        return points, from_cholesky(cholesky), answer.visibility
