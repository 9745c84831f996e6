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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from luvli.errors import InputError
from luvli.network.config import POOLINGS, Bottleneck, NetworkConfig


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


class Join(NormReluConv):
    """The same over several tensors, concatenated: makes the input of the next U-net."""

    def forward(self, x: Sequence[Tensor]) -> Tensor:  # type: ignore[override]
        return super().forward(torch.cat([*x], dim=1))


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

    def __init__(
        self, inputs: int, channels: int, bn_size: int, growth: int, remembered: int, skip: bool
    ) -> None:
        super().__init__()
        seen = inputs + remembered * growth
        self.layer = DenseLayer(seen, bn_size, growth)
        self.ahead = NormReluConv(seen + growth, channels)
        self.skip = NormReluConv(seen + growth, channels) if skip else None

    def forward(self, x: Sequence[Tensor], memory: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Inputs of one resolution -> (dense features, ahead) or (dense features, ahead, skip)."""
        seen = torch.cat([*x, *memory], dim=1)
        new = self.layer(seen)
        everything = torch.cat([seen, new], dim=1)  # once, for both adapters
        if self.skip is None:
            return new, self.ahead(everything)
        return new, self.ahead(everything), self.skip(everything)


class DownBlock(Block):
    """A block whose way ahead is halved by max-pooling."""

    def forward(self, x: Sequence[Tensor], memory: Sequence[Tensor]) -> tuple[Tensor, ...]:
        new, ahead, skip = super().forward(x, memory)
        return new, F.max_pool2d(ahead, 2), skip


class UpBlock(Block):
    """A block whose first input is doubled before the second, the skip, joins it."""

    def forward(self, x: Sequence[Tensor], memory: Sequence[Tensor]) -> tuple[Tensor, ...]:
        below, skip = x
        return super().forward([F.interpolate(below, scale_factor=2.0), skip], memory)


class UNet(nn.Module):
    """One U-net: four blocks down, the bottleneck block (`neck`), four blocks up."""

    def __init__(
        self,
        channels: int,
        bn_size: int,
        growth: int,
        remembered: int,
        activation_checkpointing: bool,
    ) -> None:
        super().__init__()
        sizes = {
            "channels": channels,
            "bn_size": bn_size,
            "growth": growth,
            "remembered": remembered,
        }
        self.down = nn.ModuleList(DownBlock(channels, **sizes, skip=True) for _ in range(POOLINGS))
        self.neck = Block(channels, **sizes, skip=False)
        self.up = nn.ModuleList(UpBlock(2 * channels, **sizes, skip=False) for _ in range(POOLINGS))
        self.activation_checkpointing = activation_checkpointing

    def forward(
        self, x: Tensor, memory: Sequence[Sequence[Tensor]]
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Input (B, C, H, H) -> output, features before and after the neck, dense features.

        Dense features and memory are ordered down 0..3, neck, up 0..3.
        """
        features: list[Tensor] = []
        skips: list[Tensor] = []
        for j, block in enumerate(self.down):
            new, x, skip = run(
                block, [x], memory[j], activation_checkpointing=self.activation_checkpointing
            )
            features.append(new)
            skips.append(skip)
        before = x
        new, x = run(
            self.neck, [x], memory[POOLINGS], activation_checkpointing=self.activation_checkpointing
        )
        features.append(new)
        after = x
        up_features: list[Tensor] = []
        for j in reversed(range(POOLINGS)):
            above = memory[POOLINGS + 1 + j]
            new, x = run(
                self.up[j],
                [x, skips[j]],
                above,
                activation_checkpointing=self.activation_checkpointing,
            )
            up_features.insert(0, new)
        return x, before, after, features + up_features


class DUNet(nn.Module):
    """The trunk: images (B, 3, S, S), RGB in 0..1 -> one `UNetFeatures` for each U-net.

    `bottleneck` chooses what is given as bottleneck: the features after the neck (paper)
    or before it (published code). With `activation_checkpointing`, activations inside blocks are
    computed a second time in the backward pass instead of being kept: up to half as much time
    again, a fraction of the memory, the same numbers.

    >>> trunk = DUNet(unets=2, channels=8, bn_size=1, growth=4, landmarks=5, input_size=64).eval()
    >>> [tuple(f.shape) for f in trunk(torch.zeros(1, 3, 64, 64))[-1]]
    [(1, 5, 16, 16), (1, 8, 1, 1)]
    """

    def __init__(
        self,
        unets: int = 8,
        order: int = 1,
        channels: int = 128,
        bn_size: int = 4,
        growth: int = 32,
        landmarks: int = 68,
        input_size: int = 256,
        *,
        bottleneck: Bottleneck = "after",
        activation_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        if input_size < 64 or input_size % 64:
            raise InputError(f"input_size must be a multiple of 64 pixels, got {input_size}.")
        self.order, self.input_size, self.bottleneck = order, input_size, bottleneck
        self.activation_checkpointing = activation_checkpointing
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.unets = nn.ModuleList(
            UNet(channels, bn_size, growth, min(i, order), activation_checkpointing)
            for i in range(unets)
        )
        self.between = nn.ModuleList(
            Join(channels + min(i, order) * channels, channels) for i in range(1, unets)
        )
        self.heads = nn.ModuleList(NormReluConv(channels, landmarks) for _ in range(unets))

    @classmethod
    def from_config(cls, config: NetworkConfig, *, activation_checkpointing: bool = False) -> DUNet:
        """The trunk that a configuration describes."""
        return cls(
            config.unets,
            config.order,
            config.channels,
            config.bn_size,
            config.growth,
            config.landmarks,
            config.input_size,
            bottleneck=config.bottleneck,
            activation_checkpointing=activation_checkpointing,
        )

    def forward(self, images: Tensor) -> list[UNetFeatures]:
        size = self.input_size
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
                joined = [x, *_last(inputs, self.order)]
                x = run(
                    self.between[i - 1],
                    joined,
                    activation_checkpointing=self.activation_checkpointing,
                )
            inputs.append(x)
            remembered = _last(history, self.order)
            memory = [[then[b] for then in remembered] for b in range(2 * POOLINGS + 1)]
            x, before, after, features = unet(x, memory)
            history.append(features)
            bottleneck = before if self.bottleneck == "before" else after
            heatmaps = run(head, x, activation_checkpointing=self.activation_checkpointing)
            outputs.append(UNetFeatures(heatmaps, bottleneck))
        return outputs


def _last(items: list[Any], n: int) -> list[Any]:
    return items[-n:] if n else []


def run(block: nn.Module, *inputs: Any, activation_checkpointing: bool) -> Any:
    """block(*inputs); with `activation_checkpointing`, in training, what is inside is not kept."""
    if activation_checkpointing and block.training and torch.is_grad_enabled():
        contexts = partial(_recomputation, block)
        return checkpoint(block, *inputs, use_reentrant=False, context_fn=contexts)
    return block(*inputs)


Contexts = tuple[AbstractContextManager[None], AbstractContextManager[None]]


def _recomputation(block: nn.Module) -> Contexts:
    return nullcontext(), _frozen_statistics(block)


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
