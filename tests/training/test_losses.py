"""The loss of a stage: what teaches, what is silent, what pulls less."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from luvli.likelihood import heatmap_loss, luvli_loss
from luvli.network import LUVLi, NetworkConfig, build
from luvli.network.inference import network_input
from luvli.network.pixels import crop_to_heatmap
from luvli.training.batch import Batch
from luvli.training.callbacks import Divergence
from luvli.training.log import mean_losses
from luvli.training.losses import StageLosses, freeze_unused, stage_losses
from luvli.training.recipe import Stage
from luvli.training.run import StepCounter

CONFIG = NetworkConfig(
    unets=2, channels=8, bn_size=1, growth=4, landmarks=5, input_size=64, markup="mine5"
)


@pytest.fixture
def network() -> LUVLi:
    torch.manual_seed(0)
    return build(CONFIG)


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(1)
    visibility = torch.tensor([[1, 0, -1, 2, 1]] * 3)
    return Batch(
        images=torch.randint(0, 256, (3, 3, 64, 64), generator=generator, dtype=torch.uint8),
        points=torch.rand(3, 5, 2, generator=generator) * 63,
        visibility=visibility,
        visibility_labelled=visibility >= 0,
        covariance=None,
    )


def run(network: LUVLi, batch: Batch, **stage: Any) -> StageLosses:
    outputs = network(network_input(batch.images, network.config))
    return stage_losses(Stage(**stage), network.config, outputs, batch)


@pytest.mark.parametrize(
    ("stage", "options"),
    [
        ({"loss": "luvli"}, {}),
        ({"loss": "luvli", "supervise": "last"}, {"weights": [0, 1]}),
        ({"loss": "mse", "use_visibility": False}, {"likelihood": "mse", "use_visibility": False}),
        ({"loss": "luvli", "reference": True}, {"reference": True}),
    ],
)
def test_losses_are_the_librarys_in_heatmap_pixels(
    network: LUVLi, batch: Batch, stage: dict[str, Any], options: dict[str, Any]
) -> None:
    network.eval()
    outputs = network(network_input(batch.images, CONFIG))
    target = crop_to_heatmap(batch.points, "centres")
    expected = luvli_loss(outputs, target, batch.visibility, **options)
    losses = run(network, batch, **stage)
    parts = {"loss": expected.total, "T1": expected.log_det[-1], "T2": expected.distance[-1]}
    if losses.visibility is not None:
        parts["visibility"] = expected.visibility[-1]
    logged = {name: value.item() for name, value in losses.logged().items()}
    assert logged == pytest.approx({name: value.item() for name, value in parts.items()})
    maps = heatmap_loss(outputs, target, batch.visibility)
    plain = run(network, batch, loss="heatmap").logged()
    assert set(plain) == {"loss"} and plain["loss"].item() == pytest.approx(maps.item())


def test_labels_without_visibility_do_not_move_ven(network: LUVLi, batch: Batch) -> None:
    silent = batch._replace(
        visibility_labelled=torch.zeros(3, 5, dtype=torch.bool),
        visibility=torch.where(batch.visibility == 0, -1, batch.visibility),
    )
    losses = run(network, silent, loss="luvli")
    losses.total.backward()
    assert losses.visibility is not None and losses.visibility.item() == 0
    assert network.visibility.linear.weight.grad.abs().max() == 0  # type: ignore[union-attr]
    assert network.cholesky.linear.weight.grad.abs().max() > 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("loss", "estimator", "idle"),
    [
        ("heatmap", "relu", {"cholesky", "visibility"}),
        ("luvli", "relu", set()),
        ("mse", "relu", {"cholesky"}),
        ("luvli", "direct", {"trunk"}),
    ],
)
def test_parameters_without_a_loss_are_taken_out(loss: Any, estimator: Any, idle: set[str]) -> None:
    network = build(CONFIG.model_copy(update={"mean_estimator": estimator}))
    before = {name: t.clone() for name, t in network.state_dict().items()}
    freeze_unused(network, Stage(loss=loss))
    frozen = {n.split(".")[0] for n, p in network.named_parameters() if not p.requires_grad}
    assert frozen == idle
    assert all(torch.equal(before[name], t) for name, t in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())


def parts(*values: float) -> list[dict[str, torch.Tensor]]:
    return [StageLosses(torch.tensor(value)).logged() for value in values]


def test_a_loss_that_breaks_or_runs_away_ends_the_run() -> None:
    assert mean_losses(parts(1.0, 3.0), StepCounter("x", global_step=2)) == {"loss": 2.0}
    with pytest.raises(Divergence, match=r"stage x.* at step 5\b"):
        broken = parts(1.0, 1.0, float("inf"), float("nan"))
        mean_losses(broken, StepCounter("x", global_step=6))
    for first, fine, runaway in ((2.0, 20.0, 30.0), (-0.01, 5.0, 12.0)):
        counter = StepCounter("x", global_step=1, first_loss=first)
        mean_losses(parts(fine), counter)
        with pytest.raises(Divergence, match=f"grown to {runaway:g} by step 1"):
            mean_losses(parts(runaway), counter)
