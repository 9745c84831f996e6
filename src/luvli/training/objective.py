"""The loss of a stage, and its parts by the names that logs show."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luvli.likelihood import heatmap_loss, luvli_loss
from luvli.network.config import NetworkConfig
from luvli.network.model import UNetOutput
from luvli.network.pixels import contrast_stretch, covariance_to_heatmap, crop_to_heatmap
from luvli.training.data import Batch
from luvli.training.recipe import Stage

CERTAIN = 50.0
"""a logit whose cross-entropy with v = 1 is zero, and so is its gradient"""


def network_input(images: Tensor, config: NetworkConfig) -> Tensor:
    """uint8 crops (B, 3, S, S) as the network wants them: 0..1, stretched if it asks for it.

    Channels last in memory: convolutions are a fifth faster on CPUs that way.
    """
    scaled = images.contiguous(memory_format=torch.channels_last).float() / 255
    return contrast_stretch(scaled) if config.contrast_stretch else scaled


def objective(
    stage: Stage, config: NetworkConfig, outputs: Sequence[UNetOutput], batch: Batch
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss to minimise, and parts worth showing (of the last U-net), all scalars."""
    target = crop_to_heatmap(batch.points, config.pixel_grid)
    weights = None
    if stage.supervise == "last":
        weights = [0.0] * (len(outputs) - 1) + [1.0]
    if stage.loss == "heatmap":
        loss = heatmap_loss(
            outputs, target, batch.visibility, weights=weights, reference=stage.reference
        )
        return loss, {"loss": loss.detach()}
    covariance = None
    if batch.covariance is not None:
        covariance = covariance_to_heatmap(batch.covariance)
    result = luvli_loss(
        [_without_silent(output, batch.teaches) for output in outputs],
        target,
        batch.visibility,
        likelihood="mse" if stage.loss == "mse" else config.likelihood,
        use_visibility=stage.use_visibility,
        weights=weights,
        label_covariance=covariance,
        reference=stage.reference,
    )
    parts = {"loss": result.total, "T1": result.log_det[-1], "T2": result.distance[-1]}
    if stage.use_visibility:
        parts["visibility"] = result.visibility[-1]
    return result.total, {name: value.detach() for name, value in parts.items()}


def _without_silent(output: UNetOutput, teaches: Tensor) -> UNetOutput:
    """Where a label says nothing about visibility, a logit that costs nothing takes its place."""
    silent = torch.full_like(output.visibility_logit, CERTAIN)
    return output._replace(visibility_logit=torch.where(teaches, output.visibility_logit, silent))
