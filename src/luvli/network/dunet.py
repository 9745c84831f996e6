"""DU-Net: densely connected U-nets in a row, coupled block by block.

Every block of U-net i holds one dense layer, which reads, besides its own input, what the
dense layers at the same place of the `order` U-nets before have written. Weights are not
shared between U-nets.

    image (3, S, S)
      stem: 7x7 convolution, stride 2, max-pool            -> (C, S/4, S/4)
      U-net i: down 0..3, neck, up 3..0                    -> (C, S/4, S/4)
                                                              and bottleneck (C, S/64, S/64)
      head i: normalise, ReLU, 1x1 convolution             -> heat maps (N_p, S/4, S/4)

Nothing here knows about likelihoods: `luvli.network.LUVLi` adds the mean estimator, CEN
and VEN to this trunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from luvli.errors import InputError
from luvli.network.config import POOLINGS, NetworkConfig


class UNetFeatures(NamedTuple):
    """What the trunk gives for each U-net."""

    heatmaps: Tensor
    """(B, N_p, S/4, S/4), raw: any sign"""
    bottleneck: Tensor
    """(B, C, S/64, S/64)"""


class NormReluConv(nn.Module):
    """Batch normalisation, ReLU, convolution without bias: the only kind of layer there is."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.conv(F.relu(self.norm(x), inplace=True)))


class DenseLayer(nn.Module):
    """1x1 down to bn_size * growth channels, then 3x3 to `growth` new ones."""

    def __init__(self, inputs: int, bn_size: int, growth: int) -> None:
        super().__init__()
        self.squeeze = NormReluConv(inputs, bn_size * growth)
        self.grow = NormReluConv(bn_size * growth, growth, kernel=3)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.grow(self.squeeze(x)))


class Block(nn.Module):
    """One dense layer and the 1x1 adapters that bring everything back to C channels.

    `ahead` feeds the next block; `skip`, in down blocks only, feeds the up block of the
    same resolution. `memory` holds the dense features of the same block in earlier U-nets,
    oldest first; those of this U-net come back for the next ones.
    """

    recompute = False
    """compute activations a second time in the backward pass instead of keeping them: more time,
    less memory, the same numbers"""

    def __init__(self, config: NetworkConfig, inputs: int, remembered: int, skip: bool) -> None:
        super().__init__()
        seen = inputs + remembered * config.growth
        self.layer = DenseLayer(seen, config.bn_size, config.growth)
        self.ahead = NormReluConv(seen + config.growth, config.channels)
        self.skip = NormReluConv(seen + config.growth, config.channels) if skip else None

    def forward(self, x: Sequence[Tensor], memory: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Inputs of one resolution -> (dense features, ahead) or (dense features, ahead, skip)."""
        if self.recompute and self.training and torch.is_grad_enabled():
            contexts: Any = {"context_fn": lambda: (nullcontext(), _frozen_statistics(self))}
            return cast(
                tuple[Tensor, ...],
                checkpoint(self.features, x, memory, use_reentrant=False, **contexts),
            )
        return self.features(x, memory)

    def features(self, x: Sequence[Tensor], memory: Sequence[Tensor]) -> tuple[Tensor, ...]:
        seen = torch.cat([*x, *memory], dim=1)
        new = self.layer(seen)
        everything = torch.cat([seen, new], dim=1)  # once, for both adapters
        if self.skip is None:
            return new, self.ahead(everything)
        return new, self.ahead(everything), self.skip(everything)


@contextmanager
def _frozen_statistics(block: nn.Module) -> Iterator[None]:
    """The second forward pass must not count its batch twice in the running statistics."""
    norms = [m for m in block.modules() if isinstance(m, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
            if norm.num_batches_tracked is not None:
                norm.num_batches_tracked -= 1


class DownBlock(Block):
    """A block whose way ahead is halved by max-pooling."""

    def features(self, x: Sequence[Tensor], memory: Sequence[Tensor]) -> tuple[Tensor, ...]:
        new, ahead, skip = super().features(x, memory)
        return new, F.max_pool2d(ahead, 2), skip


class UpBlock(Block):
    """A block whose first input is doubled before the second, the skip, joins it."""

    def features(self, x: Sequence[Tensor], memory: Sequence[Tensor]) -> tuple[Tensor, ...]:
        below, skip = x
        return super().features([F.interpolate(below, scale_factor=2.0), skip], memory)


class UNet(nn.Module):
    """One U-net: four blocks down, the bottleneck block (`neck`), four blocks up."""

    def __init__(self, config: NetworkConfig, remembered: int) -> None:
        super().__init__()
        c = config.channels
        levels = range(POOLINGS)
        self.down = nn.ModuleList(DownBlock(config, c, remembered, skip=True) for _ in levels)
        self.neck = Block(config, c, remembered, skip=False)
        self.up = nn.ModuleList(UpBlock(config, 2 * c, remembered, skip=False) for _ in levels)

    def forward(
        self, x: Tensor, memory: Sequence[Sequence[Tensor]]
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Input (B, C, H, H) -> output, features before and after the neck, dense features.

        Dense features and memory are ordered as they are computed: down 0..3, neck, up 3..0.
        """
        features: list[Tensor] = []
        skips: list[Tensor] = []
        for j, block in enumerate(self.down):
            new, x, skip = block([x], memory[j])
            features.append(new)
            skips.append(skip)
        before = x
        new, x = self.neck([x], memory[POOLINGS])
        features.append(new)
        after = x
        for j in reversed(range(POOLINGS)):
            new, x = self.up[j]([x, skips[j]], memory[len(features)])
            features.append(new)
        return x, before, after, features


class DUNet(nn.Module):
    """The trunk: images (B, 3, S, S), RGB in 0..1 -> one `UNetFeatures` for each U-net.

    >>> config = NetworkConfig(unets=2, channels=8, bn_size=1, growth=4, input_size=64)
    >>> [tuple(f.shape) for f in DUNet(config).eval()(torch.zeros(1, 3, 64, 64))[-1]]
    [(1, 68, 16, 16), (1, 8, 1, 1)]
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        c, seen = config.channels, [min(i, config.order) for i in range(config.unets)]
        self.stem = nn.Sequential(
            nn.Conv2d(3, c, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(c),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.unets = nn.ModuleList(UNet(config, remembered) for remembered in seen)
        self.between = nn.ModuleList(NormReluConv(c + n * c, c) for n in seen[1:])
        self.heads = nn.ModuleList(NormReluConv(c, config.landmarks) for _ in seen)

    def forward(self, images: Tensor) -> list[UNetFeatures]:
        config, size = self.config, self.config.input_size
        if images.ndim != 4 or images.shape[1] != 3 or images.shape[2:] != (size, size):
            raise InputError(
                f"this network reads images of shape (B, 3, {size}, {size}), "
                f"got {tuple(images.shape)}."
            )
        x = self.stem(images)
        inputs: list[Tensor] = []
        history: list[list[Tensor]] = []
        outputs: list[UNetFeatures] = []
        for i, (unet, head) in enumerate(zip(self.unets, self.heads, strict=True)):
            if i > 0:
                x = self.between[i - 1](torch.cat([x, *_last(inputs, config.order)], dim=1))
            inputs.append(x)
            remembered = _last(history, config.order)
            memory = [[then[b] for then in remembered] for b in range(2 * POOLINGS + 1)]
            x, before, after, features = unet(x, memory)
            history.append(features)
            bottleneck = before if config.bottleneck == "before" else after
            outputs.append(UNetFeatures(head(x), bottleneck))
        return outputs


def _last(items: list[Any], n: int) -> list[Any]:
    return items[-n:] if n else []
