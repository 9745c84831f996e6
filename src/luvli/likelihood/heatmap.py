"""Heat-map regression: the loss of the plain DU-Net, with which training may begin."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Protocol

import torch
from torch import Tensor

from luvli.likelihood.loss import unet_weights

SIGMA = 3 / sqrt(2)
"""heat-map pixels; the width that the published code has in effect"""
_REACH = 3
"""half side of the patch that the published code draws"""


class HasHeatmaps(Protocol):
    @property
    def heatmaps(self) -> Tensor: ...


def heatmap_targets(
    points: Tensor, size: int, *, sigma: float = SIGMA, reference: bool = False
) -> Tensor:
    """Bumps of height 1 at points (..., 2) in heat-map pixels -> maps (..., size, size).

    Ours: exp(-d^2 / 2 sigma^2) around the exact location. `reference=True`: a 7x7 patch of
    exp(-d^2 / 9) around a whole pixel, nothing where x <= 0 or y <= 0. NaN gives zeros.

    >>> heatmap_targets(torch.tensor([1.0, 1.0]), 3, sigma=1.0)[1].round(decimals=3).tolist()
    [0.6069999933242798, 1.0, 0.6069999933242798]
    """
    finite = torch.isfinite(points).all(-1)
    centre = torch.where(finite[..., None], points, torch.zeros_like(points))
    drawn = finite
    if reference:  # patch corners are truncated towards zero, and the patch starts at the first
        drawn = finite & (centre > 0).all(-1)
        first, last = (centre - _REACH).trunc(), (centre + _REACH).trunc()
        centre, sigma = first + _REACH, SIGMA
    pixels = torch.arange(size, dtype=points.dtype, device=points.device)
    offset = pixels - centre[..., None]  # (..., 2, size): the bump is a product of two profiles
    profile = torch.exp(-(offset**2) / (2 * sigma**2))
    if reference:
        inside = (pixels >= first[..., None]) & (pixels <= last[..., None])
        profile = torch.where(inside, profile, 0.0)
    maps = profile[..., 1, :, None] * profile[..., 0, None, :]
    return torch.where(drawn[..., None, None], maps, 0.0)


def heatmap_loss(
    outputs: Sequence[HasHeatmaps],
    target_points: Tensor,
    visibility: Tensor,
    *,
    weights: Sequence[float] | None = None,
    sigma: float = SIGMA,
    reference: bool = False,
) -> Tensor:
    """Mean squared difference of heat maps and targets, summed over U-nets -> ().

    target_points (B, N_p, 2) in heat-map pixels; visibility (B, N_p) as in `luvli_loss`.
    Only maps of visible landmarks with a location count; sums are divided by all pixels of
    all maps, so that each label weighs the same. `reference=True` is the published loss:
    every map counts, invisible landmarks are drawn wherever `target_points` has them.
    """
    maps = outputs[0].heatmaps
    lambdas = unet_weights(weights, len(outputs), target_points)
    targets = heatmap_targets(target_points, maps.shape[-1], sigma=sigma, reference=reference)
    targets = targets.to(maps.dtype)
    counted = (visibility > 0) & torch.isfinite(target_points).all(-1)
    mask = torch.ones_like(counted) if reference else counted
    squares = [((output.heatmaps - targets) ** 2).mean((-2, -1)) for output in outputs]
    means = [torch.where(mask, square, 0.0).mean() for square in squares]
    return (lambdas * torch.stack(means)).sum()
