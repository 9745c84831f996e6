"""The published implementation's numbers, from random weights in its own file format.

`tests/data_golden` holds one pair of files; the others are read from the shared folder
where it exists.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luvli.likelihood import heatmap_targets, luvli_loss
from luvli.network import load_official, spatial_mean
from luvli.network.official import official_names

HERE = Path(__file__).parent.parent / "data_golden"
NAMES = ("tiny_k3_o1_c5", "tiny_k4_o2_c5", "small_k2_o1_c3_w128")
TOLERANCE = 1e-5


def relative_error(ours: Any, golden: np.ndarray) -> float:
    """Largest difference, as a fraction of the largest golden value."""
    ours = np.asarray(ours)
    assert ours.shape == golden.shape
    return float(np.abs(ours - golden).max() / np.abs(golden).max())


def golden_stem(name: str, request: pytest.FixtureRequest) -> Path:
    if (HERE / f"{name}.npz").exists():
        return HERE / name
    return request.getfixturevalue("shared") / "golden" / name


@pytest.fixture(scope="module", params=NAMES)
def golden(request: pytest.FixtureRequest) -> Any:
    stem = golden_stem(request.param, request)
    numbers = np.load(f"{stem}.npz")
    network, info = load_official(f"{stem}.pth.tar")
    images = torch.from_numpy(numbers["image_u8"]).float() / 255
    with torch.no_grad():
        outputs = network(images)
    return stem, numbers, network, info, images, outputs


def test_configuration_is_found_from_the_tensors(golden: Any) -> None:
    _, numbers, network, info, _, _ = golden
    config = network.config
    found = [config.unets, config.landmarks, config.order, config.channels, config.bn_size]
    assert [*found, config.growth, config.input_size] == numbers["meta"].tolist()
    assert config.reference
    assert info["parameters"] == sum(p.numel() for p in network.parameters())
    assert info["epoch"] == 49


def test_every_unet_gives_the_golden_answer(golden: Any) -> None:
    _, numbers, network, _, images, outputs = golden
    with torch.no_grad():
        features = network.trunk(images)
        raw = [network.cholesky(f.bottleneck) for f in features]
    assert len(outputs) == numbers["meta"][0]
    for i, output in enumerate(outputs):
        for ours, name in (
            (output.heatmaps, "heat"),
            (features[i].bottleneck, "neck"),
            (output.mean, "mean"),
            (raw[i], "chol_raw"),
            (output.cholesky, "chol"),
            (output.visibility, "vis"),
        ):
            assert relative_error(ours, numbers[f"{name}{i}"]) < TOLERANCE, (name, i)


@pytest.mark.parametrize("tau", [1.0, 0.02])
def test_softmax_means(golden: Any, tau: float) -> None:
    _, numbers, _, _, _, outputs = golden
    heatmaps = outputs[-1].heatmaps
    ours = spatial_mean(heatmaps, "tau-softmax", tau=tau, epsilon=1e-5)
    assert relative_error(ours, numbers[f"mean_last_softmax_tau{tau}"]) < TOLERANCE
    if tau == 1.0:
        assert torch.equal(ours, spatial_mean(heatmaps, "softmax", epsilon=1e-5))


@pytest.mark.parametrize("likelihood", ["laplace", "gauss"])
def test_losses_and_their_parts(golden: Any, likelihood: Any) -> None:
    _, numbers, _, _, _, outputs = golden
    target = torch.from_numpy(numbers["gt_heatpix"])
    visibility = torch.from_numpy(numbers["vis_gt"])
    loss = luvli_loss(outputs, target, visibility, likelihood=likelihood, reference=True)
    ours = (loss.location, loss.log_det, loss.distance, loss.visibility)
    for part, column in zip(ours, numbers[f"loss_{likelihood}"].T, strict=True):
        assert relative_error(part, column) < TOLERANCE
    assert float(loss.total) == pytest.approx(float(numbers[f"total_{likelihood}"]), rel=TOLERANCE)
    mse = luvli_loss(outputs, target, visibility, likelihood="mse", reference=True)
    assert relative_error(mse.distance, numbers["mse_per_unet"]) < TOLERANCE
    assert not mse.log_det.any()


def test_training_pass_and_gradients(golden: Any) -> None:
    stem, numbers, _, _, images, _ = golden
    if "train_grad_names" not in numbers:
        pytest.skip("this golden file has no training pass")
    network, _ = load_official(f"{stem}.pth.tar")
    outputs = network.train()(images)
    target = torch.from_numpy(numbers["gt_heatpix"])
    loss = luvli_loss(outputs, target, torch.from_numpy(numbers["vis_gt"]), reference=True)
    loss.total.backward()
    last = outputs[-1]
    total = float(loss.total.detach())
    assert total == pytest.approx(float(numbers["train_total_laplace"]), rel=TOLERANCE)
    assert relative_error(last.heatmaps.detach(), numbers["train_heat_last"]) < TOLERANCE
    heads = torch.cat([last.cholesky, last.visibility[..., None]], -1).detach()
    assert relative_error(heads, numbers["train_chol_last"]) < TOLERANCE

    ours_by_official = {theirs: ours for ours, theirs in official_names(network.config).items()}
    norms = {name: float(p.grad.norm()) for name, p in network.named_parameters()}
    names = [str(name).removeprefix("module.") for name in numbers["train_grad_names"]]
    ours = [norms[ours_by_official[name]] for name in names]
    assert len(ours) == len(norms)
    assert relative_error(ours, numbers["train_grad_norms"]) < TOLERANCE

    state = network.state_dict()
    buffers = [key for key in numbers.files if key.startswith("train_buf_")]
    assert len(buffers) == 2
    for key in buffers:
        name = ours_by_official[key.removeprefix("train_buf_")]
        assert relative_error(state[name], numbers[key]) < TOLERANCE


def test_heatmap_targets(shared: Path) -> None:
    numbers = np.load(shared / "golden" / "preprocess.npz")
    points = torch.from_numpy(numbers["target_pts"]).double()
    ours = heatmap_targets(points, 64, reference=True)
    np.testing.assert_allclose(ours, numbers["target_heat"], atol=1e-6)
