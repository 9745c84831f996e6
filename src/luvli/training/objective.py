"""The loss of a stage, and its parts by the names that logs show."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luvli.likelihood import heatmap_loss, luvli_loss
from luvli.network.config import NetworkConfig
from luvli.network.model import LUVLi, UNetOutput
from luvli.network.pixels import contrast_stretch, covariance_to_heatmap, crop_to_heatmap
from luvli.training.recipe import Stage
from luvli.training.sources import Batch

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


def freeze_unused(network: LUVLi, stage: Stage) -> None:
    """Take parameters that the stage's loss does not reach out of training.

    A heat-map stage has no use for CEN and VEN, direct regression none for heat maps. Found
    by one backward pass: several processes must agree on what to wait for.
    """
    config = network.config
    size, landmarks = config.input_size, config.landmarks
    batch = Batch(
        images=torch.zeros(1, 3, size, size, dtype=torch.uint8),
        points=torch.full((1, landmarks, 2), size / 2),
        visibility=torch.ones(1, landmarks),
        teaches=torch.ones(1, landmarks, dtype=torch.bool),
        covariance=None,
    )
    network.eval()  # leaves the running statistics alone
    loss, _ = objective(stage, config, network(network_input(batch.images, config)), batch)
    loss.backward()  # type: ignore[no-untyped-call]
    for parameter in network.parameters():
        parameter.requires_grad_(parameter.grad is not None)
        parameter.grad = None
