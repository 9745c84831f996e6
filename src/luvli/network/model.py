"""`LUVLi`: DU-Net with mean estimator, CEN and VEN on every U-net (figure 2 of the paper)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from luvli.network.config import NetworkConfig
from luvli.network.dunet import Block
from luvli.network.heads import (
    CholeskyEstimator,
    FailureEstimator,
    VisibilityEstimator,
    argmax_location,
    cholesky_entries,
    spatial_mean,
)
from luvli.network.trunks import make_trunk


class UNetOutput(NamedTuple):
    """What one U-net says about the N_p landmarks of B faces, in heat-map pixels."""

    heatmaps: Tensor
    """(B, N_p, S/4, S/4), raw: any sign"""
    mean: Tensor
    """(B, N_p, 2) x, y"""
    cholesky: Tensor
    """(B, N_p, 3) L11, L21, L22 of Sigma = L L^T"""
    visibility: Tensor
    """(B, N_p) probability of being visible"""
    visibility_logit: Tensor
    """(B, N_p) the same before the sigmoid; losses use it, because it does not saturate"""
    occlusion_logit: Tensor | None = None
    """(B, N_p) of being covered by something in front of the face; None unless
    `NetworkConfig.occlusion`"""
    failure_logit: Tensor | None = None
    """(B,) of the alignment having failed completely; of the last U-net alone, and None unless
    `NetworkConfig.failure_head`"""


class LUVLi(nn.Module):
    """The whole network: images (B, 3, S, S), RGB in 0..1 -> one `UNetOutput` for each U-net.

    The last U-net's output is the prediction; the others are there for training.

    >>> network = build(NetworkConfig(
    ...     unets=2, channels=8, bn_size=1, growth=4, landmarks=5, input_size=64, markup="mine5"))
    >>> last = network.eval()(torch.zeros(1, 3, 64, 64))[-1]
    >>> tuple(last.mean.shape), tuple(last.cholesky.shape), tuple(last.visibility.shape)
    ((1, 5, 2), (1, 5, 3), (1, 5))
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.trunk = make_trunk(config)
        inputs, landmarks = config.bottleneck_size, config.landmarks
        self.cholesky = CholeskyEstimator(
            inputs, landmarks, config.heatmap_size, direct=config.mean_estimator == "direct"
        )
        self.visibility = VisibilityEstimator(inputs, landmarks)
        # drawn last: without them, a seed gives the same network as ever
        self.occlusion = VisibilityEstimator(inputs, landmarks) if config.occlusion else None
        self.failure = (
            FailureEstimator(config.unets * inputs, config.failure_head)
            if config.failure_head
            else None
        )

    def forward(self, images: Tensor) -> list[UNetOutput]:
        features = self.trunk(images)
        outputs = [self._estimate(*each) for each in features]
        if self.failure is not None:
            logit = self.failure([each.bottleneck for each in features]).float()
            outputs[-1] = outputs[-1]._replace(failure_logit=logit)
        return outputs

    def _estimate(self, heatmaps: Tensor, bottleneck: Tensor) -> UNetOutput:
        config = self.config
        raw = self.cholesky(bottleneck).float()
        logit = self.visibility(bottleneck).float()
        if config.mean_estimator == "direct":
            mean = raw[..., 3:]
        elif config.mean_estimator == "argmax":
            mean = argmax_location(heatmaps, corners=config.pixel_grid == "corners")
        else:
            mean = spatial_mean(
                heatmaps, config.mean_estimator, tau=config.tau, epsilon=config.mean_epsilon
            )
        cholesky = cholesky_entries(raw[..., :3], config.cholesky_floor)
        covered = None if self.occlusion is None else self.occlusion(bottleneck).float()
        return UNetOutput(heatmaps, mean, cholesky, torch.sigmoid(logit), logit, covered)


def build(config: NetworkConfig, *, activation_checkpointing: bool = False) -> LUVLi:
    """A network with fresh weights.

    `activation_checkpointing` trades time for memory in training (`Block.recompute`); it is a
    property of the run, not of the model, and is not stored in model files.
    """
    network = LUVLi(config)
    for module in network.modules():
        if isinstance(module, Block):
            module.recompute = activation_checkpointing
    return network
