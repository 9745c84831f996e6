"""The losses that stages can choose, and their parts by the names that logs show.

A loss of your own, in a module that `luvli train RECIPE --import my_losses` imports:

    def distance(inputs):
        return StageLosses((inputs.outputs[-1].mean - inputs.target).square().mean())

    register_loss("distance", distance)              # then, in a recipe: loss: distance
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """how far the prediction is from the teacher's distribution"""

    def logged(self) -> dict[str, Tensor]:
        """The parts that there are, without their graph, by the names in the logs."""
        parts = zip(LOGGED, self, strict=True)
        return {name: value.detach() for name, value in parts if value is not None}


class LossInputs(NamedTuple):
    """What a loss is computed from."""

    outputs: Sequence[UNetOutput]
    target: Tensor
    """(B, k, 2) the labels in heat-map pixels"""
    batch: Batch
    stage: Stage
    config: NetworkConfig
    weights: Sequence[float]
    """of each U-net"""


@dataclass(frozen=True)
class Loss:
    """A loss and which outputs of the network it trains besides locations."""

    function: Callable[[LossInputs], StageLosses]
    trains_covariance: bool
    trains_visibility: bool


LOSSES: dict[str, Loss] = {}
"""by the names that recipes use"""


def register_loss(
    name: str,
    function: Callable[[LossInputs], StageLosses],
    *,
    trains_covariance: bool = False,
    trains_visibility: bool = False,
) -> None:
    """Make a loss available to recipes as `loss: NAME`."""
    LOSSES[name] = Loss(function, trains_covariance, trains_visibility)


def _heatmap(inputs: LossInputs) -> StageLosses:
    outputs, target, batch, stage, _, weights = inputs
    return StageLosses(
        heatmap_loss(outputs, target, batch.visibility, weights=weights, reference=stage.reference)
    )


def _luvli(inputs: LossInputs) -> StageLosses:
    outputs, target, batch, stage, config, weights = inputs
    covariance = None if batch.covariance is None else covariance_to_heatmap(batch.covariance)
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
    visibility = loss.visibility[-1] if stage.use_visibility else None
    return StageLosses(loss.total, loss.log_det[-1], loss.distance[-1], visibility)


register_loss("heatmap", _heatmap)
register_loss("luvli", _luvli, trains_covariance=True, trains_visibility=True)
register_loss("mse", _luvli, trains_visibility=True)


def stage_losses(
    stage: Stage, config: NetworkConfig, outputs: Sequence[UNetOutput], batch: Batch
) -> StageLosses:
    """The losses of one batch: of its labels, its teacher, and what covers its landmarks."""
    weights = [1.0] * len(outputs)
    if stage.supervise == "last":
        weights = [0.0] * (len(outputs) - 1) + [1.0]
    target = crop_to_heatmap(batch.points, config.pixel_grid)
    inputs = LossInputs(outputs, target, batch, stage, config, weights)
    losses = LOSSES[stage.loss].function(inputs)
    if batch.teacher_points is not None:
        losses = _with_teacher(losses, inputs)
    if stage.occlusion_weight:
        assert batch.occlusion_labelled is not None
        covered = batch.visibility == Visibility.EXTERNALLY_OCCLUDED
        terms = occlusion_loss(outputs, covered, batch.occlusion_labelled)
        added = (terms * terms.new_tensor(weights)).sum()
        losses = losses._replace(
            total=losses.total + stage.occlusion_weight * added, occlusion=terms[-1]
        )
    return losses


def _with_teacher(losses: StageLosses, inputs: LossInputs) -> StageLosses:
    """The losses of the labels and of the teacher, weighted."""
    outputs, _, batch, stage, config, weights = inputs
    assert batch.teacher_points is not None
    assert batch.teacher_covariance is not None and batch.teacher_visibility is not None
    teacher = Teacher(
        crop_to_heatmap(batch.teacher_points, config.pixel_grid),
        to_cholesky(covariance_to_heatmap(batch.teacher_covariance)),
        batch.teacher_visibility,
    )
    distilled = distillation_loss(
        outputs,
        teacher,
        likelihood=config.likelihood,
        use_visibility=stage.use_visibility,
        weights=weights,
    )
    share = stage.teacher_weight
    return losses._replace(
        total=(1 - share) * losses.total + share * distilled.total,
        teacher=distilled.location[-1] + distilled.visibility[-1],
    )


def freeze_unused(network: LUVLi, stage: Stage) -> None:
    """Take parameters that the stage's loss does not reach, or its `train_only` leaves out, out
    of training.

    A heat-map stage has no use for CEN and VEN, direct regression none for heat maps. Determined
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
