"""Another way to read heat maps: arg-max with a quarter step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from luvli.errors import InputError
from luvli.network.config import NetworkConfig
from luvli.network.heads import argmax_location
from luvli.network.inference import CropPredictor
from luvli.network.model import build
from luvli.network.onnx_graph import build_graph
from luvli.network.weights import network_weights

SMALL = NetworkConfig(
    unets=1, order=0, channels=8, bn_size=1, growth=4, landmarks=5, input_size=64, markup="mine5",
    covariance_trained=False,
)  # fmt: skip


def bump(x: float, y: float, spread: np.ndarray, size: int = 64) -> torch.Tensor:
    """A Gaussian bump of height 1 at (x, y) with covariance `spread`."""
    places = np.stack(np.meshgrid(np.arange(size), np.arange(size)), -1) - np.array([x, y])
    q = np.einsum("...i,ij,...j", places, np.linalg.inv(spread), places)
    return torch.from_numpy(np.exp(-q / 2))


@pytest.mark.parametrize(("x", "y"), [(20.0, 30.0), (20.3, 30.1), (19.8, 29.6), (40.49, 9.51)])
def test_argmax_is_right_to_a_quarter_of_a_pixel(x, y):
    found = argmax_location(bump(x, y, 4 * np.eye(2))).numpy()
    assert np.abs(found - (x, y)).max() <= 0.25 + 1e-9
    corners = argmax_location(bump(x, y, 4 * np.eye(2)), corners=True).numpy()
    assert corners == pytest.approx(found + 0.5)


def test_argmax_on_the_border_has_no_quarter_step():
    assert argmax_location(bump(0.0, 30.4, 4 * np.eye(2))).tolist() == [0.0, 30.0]


def test_a_trained_network_may_be_read_in_another_way():
    torch.manual_seed(0)
    plain = CropPredictor(build(SMALL).eval())
    crops = np.random.default_rng(0).integers(0, 255, (2, 64, 64, 3), dtype=np.uint8)
    other = plain.with_mean_estimator("argmax")
    found = other(crops)
    quarters = (found.points - found.points[0, 0]) / (4 * 0.25)
    assert quarters == pytest.approx(np.rint(quarters), abs=1e-4)
    assert np.array_equal(found.covariance, plain(crops).covariance)
    with pytest.raises(InputError, match="other weights"):
        plain.with_mean_estimator("direct")
    with pytest.raises(InputError, match="argmax"):  # those that there are
        plain.with_mean_estimator("median")
    with pytest.raises(InputError, match="in PyTorch alone"):
        build_graph(network_weights(other.network), other.info)
