"""Weights of one network as a start for another: more U-nets, or a larger crop."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor

from luvli.network.model import LUVLi

_PLACE = re.compile(r"^(trunk\.(?:unets|between|heads)\.)(\d+)(\..+)$")


def fitting_weights(given: Mapping[str, Tensor], network: LUVLi) -> dict[str, Tensor]:
    """Those of `given` weights that `network` can start from, by its own names and shapes.

    U-nets after the last one of `given` begin as copies of that one, as far as its shapes allow.
    CEN and VEN of another crop size are resized: they read the bottleneck as a map of C channels,
    so their weights are a map, too; its sum stays.
    """
    channels = network.config.channels
    found = {}
    for name, wanted in network.state_dict().items():
        tensor = given.get(name)
        if tensor is None:
            tensor = _of_last_unet(name, given)
        if tensor is not None and tensor.ndim == 2 and wanted.ndim == 2:
            tensor = _resized(tensor, channels, wanted.shape[1])
        if tensor is not None and tensor.shape == wanted.shape:
            found[name] = tensor
    return found


def _of_last_unet(name: str, given: Mapping[str, Tensor]) -> Tensor | None:
    place = _PLACE.match(name)
    if place is None:
        return None
    before, number, after = place[1], int(place[2]), place[3]
    candidates = (given.get(f"{before}{i}{after}") for i in reversed(range(number)))
    return next((tensor for tensor in candidates if tensor is not None), None)


def _resized(weight: Tensor, channels: int, inputs: int) -> Tensor:
    """A linear layer's weight (out, C h h) for a bottleneck of `inputs` = C h' h' numbers."""
    old, new = (round((n / channels) ** 0.5) for n in (weight.shape[1], inputs))
    if old == new or channels * old * old != weight.shape[1] or channels * new * new != inputs:
        return weight
    maps = weight.reshape(len(weight), channels, old, old)
    resized = F.interpolate(maps, size=(new, new), mode="bilinear", align_corners=False)
    share: float = (old / new) ** 2
    return resized.flatten(1) * share
