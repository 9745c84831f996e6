"""Mean estimator, Cholesky Estimator Network (CEN), Visibility Estimator Network (VEN), its twin
for occlusion, and the failure head.

All numbers are in heat-map pixels; `luvli.network.pixels` converts to crop pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from luvli.errors import unknown_choice
from luvli.network.config import MeanEstimator


def spatial_mean(
    heatmaps: Tensor, sigma: MeanEstimator = "relu", *, tau: float = 0.02, epsilon: float = 0.0
) -> Tensor:
    """Weighted spatial mean of heat maps (..., H, W) -> (..., 2) as x, y (eq. 16).

    A map with no positive pixel has no ReLU mean. Its answer is the mean weighted by the
    height above its lowest pixel, so that the gradient can bring it back to life, and the
    centre if it is flat. The published code adds `epsilon` = 1e-5 to the sum of weights,
    twice, and answers (0, 0) there.

    >>> blob = torch.zeros(1, 1, 4, 4)
    >>> blob[0, 0, 2, 1] = blob[0, 0, 2, 2] = 1.0
    >>> spatial_mean(blob).tolist()
    [[[1.5, 2.0]]]
    """
    heatmaps = heatmaps.float() if heatmaps.dtype in (torch.float16, torch.bfloat16) else heatmaps
    if sigma == "relu":
        moments = _moments(F.relu(heatmaps))
        if epsilon == 0.0:
            moments = torch.where(moments[..., 2:] > 0, moments, _lifted_moments(heatmaps))
    elif sigma in ("softmax", "tau-softmax"):
        scaled = heatmaps if sigma == "softmax" else heatmaps / tau
        moments = _moments(torch.exp(scaled - scaled.amax(dim=(-2, -1), keepdim=True)))
    else:
        raise unknown_choice("mean estimator", sigma, ("relu", "softmax", "tau-softmax"))
    first, total = moments[..., :2], moments[..., 2:]
    if epsilon == 0.0:
        return first / total
    return first / (total + epsilon) / (total / (total + epsilon) + epsilon)


def argmax_location(heatmaps: Tensor, *, corners: bool = False) -> Tensor:
    """Highest pixel of heat maps (..., H, W) -> (..., 2) as x, y, to a quarter of a pixel.

    Inside the border it is moved 0.25 towards the higher neighbour in x and in y. With `corners`
    pixels are counted from the corner of the first one, as the published code does (+ 0.5).

    >>> bump = torch.zeros(1, 4, 4)
    >>> bump[0, 2, 1], bump[0, 2, 2] = 1.0, 0.5
    >>> argmax_location(bump).tolist()
    [[1.25, 2.0]]
    """
    height, width = heatmaps.shape[-2:]
    flat = heatmaps.flatten(-2)
    index = flat.argmax(-1)
    x, y = index % width, index // width

    def height_at(column: Tensor, row: Tensor) -> Tensor:
        place = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
        return flat.gather(-1, place[..., None])[..., 0]

    inside = (x > 0) & (x < width - 1) & (y > 0) & (y < height - 1)
    slope_x = height_at(x + 1, y) - height_at(x - 1, y)
    slope_y = height_at(x, y + 1) - height_at(x, y - 1)
    steps = torch.stack([slope_x, slope_y], dim=-1).sign() * 0.25
    location = torch.stack([x, y], dim=-1).to(heatmaps.dtype)
    location = location + torch.where(inside[..., None], steps, 0.0)
    return location + 0.5 if corners else location


def _moments(weights: Tensor) -> Tensor:
    """Weights (..., H, W) -> (..., 3): sums of w x, w y and w."""
    columns, rows = weights.sum(-2), weights.sum(-1)
    x = torch.arange(columns.shape[-1], dtype=columns.dtype, device=columns.device)
    y = torch.arange(rows.shape[-1], dtype=rows.dtype, device=rows.device)
    return torch.stack([(columns * x).sum(-1), (rows * y).sum(-1), rows.sum(-1)], dim=-1)


def _lifted_moments(heatmaps: Tensor) -> Tensor:
    """Moments of heat maps above their lowest pixel; of an even sheet if they are flat."""
    lowest = heatmaps.detach().amin(dim=(-2, -1), keepdim=True)
    lifted = _moments(heatmaps - lowest)
    flat = _moments(torch.ones_like(heatmaps))
    return torch.where(lifted[..., 2:] > 0, lifted, flat)


def cholesky_entries(raw: Tensor, floor: float = 0.0) -> Tensor:
    """CEN output (..., 3) -> L11, L21, L22 in heat-map pixels.

    The diagonal passes through ELU plus a constant (section 3.3); the constant is 1 +
    `floor`, so that no diagonal entry falls below `floor`. Without it the likelihood has
    no upper bound where a landmark is fitted exactly. The published code has floor 0.
    """
    diagonal = F.elu(raw) + (1.0 + floor)
    return torch.stack([diagonal[..., 0], raw[..., 1], diagonal[..., 2]], dim=-1)


class CholeskyEstimator(nn.Module):
    """CEN: one linear layer from the bottleneck to L11, L21, L22 of each landmark.

    With `direct` it also regresses the mean, as two more numbers in heat-map pixels (the
    "Direct" row of the ablations).
    """

    def __init__(self, inputs: int, landmarks: int, heatmap_size: int, direct: bool) -> None:
        super().__init__()
        self.landmarks = landmarks
        self.linear = nn.Linear(inputs, landmarks * (5 if direct else 3))
        if direct:  # start from the centre of the heat map, not from its corner
            with torch.no_grad():
                self.linear.bias.view(landmarks, 5)[:, 3:] += (heatmap_size - 1) / 2

    def forward(self, bottleneck: Tensor) -> Tensor:
        """(B, C, h, w) -> (B, N_p, 3), or (B, N_p, 5) with the mean at the end; not activated."""
        raw: Tensor = self.linear(bottleneck.flatten(1))
        return raw.reshape(raw.shape[0], self.landmarks, -1)


class VisibilityEstimator(nn.Module):
    """VEN: one linear layer from the bottleneck to the logit of each landmark's visibility.

    The paper has no network for occlusion by hands, hair or glasses; ours, where it is wanted,
    is a second one of these.
    """

    def __init__(self, inputs: int, landmarks: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, landmarks)

    def forward(self, bottleneck: Tensor) -> Tensor:
        """(B, C, h, w) -> (B, N_p) logits."""
        logits: Tensor = self.linear(bottleneck.flatten(1))
        return logits


class FailureEstimator(nn.Module):
    """Whether an alignment failed completely: two linear layers on all bottlenecks.

    Not in the paper. Covariances grow for hard faces; the bottlenecks also hold whether a face is
    upside down, or whether there is none.
    """

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, units)
        self.linear = nn.Linear(units, 1)

    def forward(self, bottlenecks: Sequence[Tensor]) -> Tensor:
        """One (B, C, h, w) from each U-net -> (B,) logits."""
        features = torch.cat([each.flatten(1) for each in bottlenecks], dim=1)
        logits: Tensor = self.linear(F.relu(self.hidden(features)))
        return logits[:, 0]
