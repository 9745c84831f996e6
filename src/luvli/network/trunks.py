"""Trunks by name: networks from crops to heat maps and bottlenecks.

A trunk of your own, in a module that `luvli train RECIPE --import my_trunk` imports:

    class Plain(nn.Module):
        def __init__(self, config): ...
        def forward(self, images):                   # (B, 3, S, S), RGB in 0..1
            return [UNetFeatures(heatmaps, bottleneck)]

    register_trunk("plain", Plain)                   # then, in a recipe: network: {trunk: plain}

It gives one `UNetFeatures` for each of the configuration's `unets` (intermediate supervision; 1 is
fine). The mean estimator, CEN, VEN and all losses come on top.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from luvli.errors import InputError
from luvli.network.config import POOLINGS, NetworkConfig
from luvli.network.dunet import DUNet

TRUNKS: dict[str, Callable[[NetworkConfig], nn.Module]] = {"dunet": DUNet}
"""by the names that recipes and model files use"""


def register_trunk(name: str, make: Callable[[NetworkConfig], nn.Module]) -> None:
    """Make a trunk available to recipes and model files as `network: {trunk: NAME}`."""
    TRUNKS[name] = make


def make_trunk(config: NetworkConfig) -> nn.Module:
    """The trunk of a configuration, with fresh weights."""
    if config.trunk not in TRUNKS:
        raise InputError(
            f"unknown trunk {config.trunk!r} (there are {', '.join(TRUNKS)}): name the module that "
            "registers it with --import MODULE, or import it."
        )
    trunk = TRUNKS[config.trunk](config)
    if config.trunk != "dunet":
        _check_shapes(trunk, config)
    return trunk


def _check_shapes(trunk: nn.Module, config: NetworkConfig) -> None:
    """Refuse a trunk whose outputs the heads cannot read."""
    side = config.heatmap_size
    neck = side // 2**POOLINGS
    expected = [(1, config.landmarks, side, side), (1, config.channels, neck, neck)]
    device = next((parameter.device for parameter in trunk.parameters()), None)
    images = torch.zeros(1, 3, config.input_size, config.input_size, device=device)
    was_training = trunk.training
    with torch.no_grad():
        features = trunk.eval()(images)
    trunk.train(was_training)
    shapes = [[tuple(tensor.shape) for tensor in each] for each in features]
    if shapes != [expected] * config.unets:
        raise InputError(
            f"trunk {config.trunk!r} gives features of the shapes {shapes}: it should give heat "
            f"maps {expected[0]} and bottlenecks {expected[1]}, {config.unets} times."
        )
