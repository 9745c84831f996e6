"""Mean estimator and Cholesky activation against closed forms."""

from __future__ import annotations

import pytest
import torch

from luvli.network.config import NetworkConfig
from luvli.network.heads import cholesky_entries, spatial_mean
from luvli.network.model import build


def bump(x: float, y: float, size: int = 32, width: float = 2.0) -> torch.Tensor:
    grid = torch.arange(size, dtype=torch.float64)
    return torch.exp(-((grid - x) ** 2 + (grid[:, None] - y) ** 2) / (2 * width**2))


def test_mean_of_a_bump_is_its_centre() -> None:
    heatmaps = torch.stack([bump(12.3, 17.8), bump(15.0, 14.25)])
    centres = torch.tensor([[12.3, 17.8], [15.0, 14.25]], dtype=torch.float64)
    torch.testing.assert_close(spatial_mean(heatmaps, "relu"), centres, atol=1e-6, rtol=0)
    # a log-bump makes softmax weights a bump
    torch.testing.assert_close(spatial_mean(heatmaps.log(), "softmax"), centres, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        spatial_mean(heatmaps.log() * 0.5, "tau-softmax", tau=0.5), centres, atol=1e-6, rtol=0
    )


def test_dead_heatmap_has_a_finite_answer_and_gradient() -> None:
    dead = (bump(20, 5) - 2.0).requires_grad_()
    mean = spatial_mean(dead)
    mean.sum().backward()
    assert torch.isfinite(mean).all()
    assert torch.isfinite(dead.grad).all()
    assert dead.grad.any()  # the map can come back to life
    # weights are heights above the lowest pixel, so the mean leans towards the bump
    assert mean[0] > 15.5
    assert mean[1] < 15.5


def test_a_flat_heatmap_answers_the_centre_and_in_the_published_code_zero() -> None:
    flat = torch.full((1, 8, 6), -3.0, requires_grad=True)
    for epsilon, answer in ((0.0, [2.5, 3.5]), (1e-5, [0.0, 0.0])):
        mean = spatial_mean(flat, epsilon=epsilon)
        mean.sum().backward()
        assert mean.tolist() == [answer]
        assert torch.isfinite(flat.grad).all()


@pytest.mark.parametrize("sigma", ["relu", "softmax", "tau-softmax"])
def test_gradient_of_the_mean(sigma: str) -> None:
    torch.manual_seed(0)
    heatmaps = torch.randn(2, 5, 5, dtype=torch.float64)
    heatmaps[1] = -heatmaps[1].abs() - 0.1  # one dead map
    heatmaps[1, 0, 0] = -9.0  # its lowest pixel, whose height is held constant
    heatmaps.requires_grad_()
    mask = torch.ones(2, 5, 5, dtype=torch.float64)
    mask[1, 0, 0] = 0.0
    fixed = heatmaps.detach().clone()

    def of_the_others(x: torch.Tensor) -> torch.Tensor:
        return spatial_mean(x * mask + fixed * (1 - mask), sigma, tau=0.5)  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(of_the_others, heatmaps)


@pytest.mark.parametrize("sigma", ["relu", "softmax", "tau-softmax"])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_extreme_heatmaps_stay_finite(sigma: str, scale: float) -> None:
    heatmaps = (torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(1)) * scale).clone()
    heatmaps.requires_grad_()
    mean = spatial_mean(heatmaps, sigma)  # type: ignore[arg-type]
    mean.sum().backward()
    assert torch.isfinite(mean).all()
    assert (mean >= 0).all()
    assert (mean <= 7).all()


def test_cholesky_diagonal_is_elu_plus_one_plus_floor() -> None:
    raw = torch.tensor([[-2.0, -5.0, 3.0], [-200.0, 7.0, 0.0]])
    entries = cholesky_entries(raw, floor=0.1)
    expected = torch.tensor([[0.1353353 + 0.1, -5.0, 4.1], [0.1, 7.0, 1.1]])
    torch.testing.assert_close(entries, expected)


def test_direct_regression_starts_at_the_centre() -> None:
    torch.manual_seed(0)
    config = NetworkConfig(
        unets=1, channels=16, bn_size=1, growth=4, input_size=64, mean_estimator="direct"
    )
    mean = build(config).eval()(torch.rand(1, 3, 64, 64))[0].mean
    assert (mean - 7.5).abs().max() < 3
