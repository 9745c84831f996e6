"""Running means of the loss parts, and the alarm for losses that are no longer numbers."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from luvli.errors import InputError

RUNAWAY = 10.0
"""Divergence is a mean loss above the first one by this many times its size, or this much: a
log-likelihood may begin near zero."""


class Divergence(InputError):
    """The training has run away; the message names the step."""


class Meter:
    """Collects the parts of each step without waiting for the device; `flush` reads them."""

    def __init__(self, where: str, first: float | None = None) -> None:
        self.where = where
        self.first = first
        """mean loss of the first flush: what runaway losses are compared with"""
        self._parts: list[dict[str, Tensor]] = []
        self._faces = 0
        self._waited = 0.0
        self._since = time.perf_counter()

    def add(self, parts: dict[str, Tensor], faces: int, waited: float) -> None:
        """One step: scalar tensors by name, faces seen, seconds spent waiting for data."""
        self._parts.append(parts)
        self._faces += faces
        self._waited += waited

    def flush(self, step: int) -> dict[str, float]:
        """Means since the last flush, faces per second, share of time spent waiting.

        `step` is the number of steps done; raises `Divergence` when one was not finite.
        """
        parts, self._parts = self._parts, []
        names = list(parts[0])
        table = torch.stack([torch.stack([p[name] for name in names]) for p in parts])
        table = table.double().cpu()
        broken = ~torch.isfinite(table).all(1)
        if broken.any():
            at = step - len(parts) + 1 + int(broken.nonzero()[0, 0])
            raise Divergence(
                f"{self.where}: the loss is not a number any more at step {at}: lower the "
                "learning rate or set clip, then continue from the last checkpoint with --resume."
            )
        means = dict(zip(names, table.mean(0).tolist(), strict=True))
        if self.first is None:
            self.first = means["loss"]
        elif means["loss"] > self.first + RUNAWAY * max(abs(self.first), 1.0):
            raise Divergence(
                f"{self.where}: the loss has run away to {means['loss']:.4g} by step {step}, from "
                f"{self.first:.4g} at the start: lower the learning rate or set clip."
            )
        seconds = max(time.perf_counter() - self._since, 1e-9)
        means["faces_per_second"] = self._faces / seconds
        means["waiting"] = self._waited / seconds
        self._faces, self._waited, self._since = 0, 0.0, time.perf_counter()
        return means
