"""The loss of a stage, and its parts by the names that logs show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from luvli.data.record import Visibility
from luvli.likelihood import Teacher, distillation_loss, heatmap_loss, luvli_loss, occlusion_loss
from luvli.likelihood.covariance import to_cholesky
from luvli.network.config import NetworkConfig
from luvli.network.inference import network_input
from luvli.network.model import LUVLi, UNetOutput
from luvli.network.pixels import covariance_to_heatmap, crop_to_heatmap
from luvli.training.batch import Batch
from luvli.training.recipe import Stage

LOGGED = ("loss", "T1", "T2", "visibility", "occlusion", "teacher")


class StageLosses(NamedTuple):
    """Scalars of one step. The parts are those of the last U-net; None where there is none."""

    total: Tensor
    """what is minimised: all U-nets and all parts"""
    log_det: Tensor | None = None
    """T1"""
    distance: Tensor | None = None
    """T2"""
    visibility: Tensor | None = None
    """cross-entropy"""
    occlusion: Tensor | None = None
    """cross-entropy of the occlusion head"""
    teacher: Tensor | None = None
    """what the teacher's distribution costs"""

    def logged(self) -> dict[str, Tensor]:
        """The parts that there are, without their graph, by the names in the logs."""
        named = zip(LOGGED, self, strict=True)
        return {name: value.detach() for name, value in named if value is not None}


def stage_losses(
    stage: Stage, config: NetworkConfig, outputs: Sequence[UNetOutput], batch: Batch
) -> StageLosses:
    """The losses of one batch."""
    weights = [1.0] * len(outputs)
    if stage.supervise == "last":
        weights = [0.0] * (len(outputs) - 1) + [1.0]
    losses = _location_losses(stage, config, outputs, batch, weights)
    if batch.teacher_points is not None:
        taught = distillation_loss(
            outputs,
            _teacher(batch, config),
            likelihood=config.likelihood,
            use_visibility=stage.use_visibility,
            weights=weights,
        )
        share = stage.teacher_weight
        losses = losses._replace(
            total=(1 - share) * losses.total + share * taught.total,
            teacher=taught.location[-1] + taught.visibility[-1],
        )
    if stage.occlusion_weight:
        assert batch.occlusion_labelled is not None
        covered = batch.visibility == Visibility.EXTERNALLY_OCCLUDED
        terms = occlusion_loss(outputs, covered, batch.occlusion_labelled)
        added = (terms * terms.new_tensor(weights)).sum()
        losses = losses._replace(
            total=losses.total + stage.occlusion_weight * added, occlusion=terms[-1]
        )
    return losses


def _location_losses(
    stage: Stage,
    config: NetworkConfig,
    outputs: Sequence[UNetOutput],
    batch: Batch,
    weights: Sequence[float],
) -> StageLosses:
    """What the labels say of locations and visibility."""
    target = crop_to_heatmap(batch.points, config.pixel_grid)
    if stage.loss == "heatmap":
        return StageLosses(
            heatmap_loss(
                outputs, target, batch.visibility, weights=weights, reference=stage.reference
            )
        )
    covariance = None
    if batch.covariance is not None:
        covariance = covariance_to_heatmap(batch.covariance)
    loss = luvli_loss(
        outputs,
        target,
        batch.visibility,
        likelihood="mse" if stage.loss == "mse" else config.likelihood,
        use_visibility=stage.use_visibility,
        visibility_mask=batch.visibility_labelled,
        weights=weights,
        label_covariance=covariance,
        reference=stage.reference,
    )
    return StageLosses(
        loss.total,
        loss.log_det[-1],
        loss.distance[-1],
        loss.visibility[-1] if stage.use_visibility else None,
    )


def _teacher(batch: Batch, config: NetworkConfig) -> Teacher:
    """The batch's teacher in heat-map pixels."""
    points, covariance = batch.teacher_points, batch.teacher_covariance
    assert points is not None and covariance is not None and batch.teacher_visibility is not None
    return Teacher(
        crop_to_heatmap(points, config.pixel_grid),
        to_cholesky(covariance_to_heatmap(covariance)),
        batch.teacher_visibility,
    )


def freeze_unused(network: LUVLi, stage: Stage) -> None:
    """Take parameters that the stage's loss does not reach, or its `train_only` leaves out, out
    of training.

    A heat-map stage has no use for CEN and VEN, direct regression none for heat maps. Found
    by one backward pass: several processes must agree on what to wait for.
    """
    config = network.config
    size, landmarks = config.input_size, config.landmarks
    batch = Batch(
        images=torch.zeros(1, 3, size, size, dtype=torch.uint8),
        points=torch.full((1, landmarks, 2), size / 2),
        visibility=torch.ones(1, landmarks),
        visibility_labelled=torch.ones(1, landmarks, dtype=torch.bool),
        occlusion_labelled=torch.ones(1, landmarks, dtype=torch.bool),
    )
    network.eval()  # leaves the running statistics alone
    outputs = network(network_input(batch.images, config))
    stage_losses(stage, config, outputs, batch).total.backward()  # type: ignore[no-untyped-call]
    for name, parameter in network.named_parameters():
        chosen = not stage.train_only or name.split(".")[0] in stage.train_only
        parameter.requires_grad_(chosen and parameter.grad is not None)
        parameter.grad = None
