"""How a run is carried out: devices, processes, signals.

One core, one GPU, many GPUs, many machines: Lightning Fabric decides from flags and
environment (torchrun, SLURM), and PyTorch's own collectives do the work.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from luvli.errors import InputError, require
from luvli.network import LUVLi
from luvli.training.recipe import BatchNorm


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out; nothing here changes what it computes, but for `precision`."""

    resume: bool = False
    accelerator: str = "auto"
    devices: str = "1"
    nodes: int = 1
    precision: str = "32-true"
    threads: int = 1
    """CPU threads of each process"""
    workers: int = 0
    """processes that prepare data, for each training process; 0: a thread of its own does"""
    activation_checkpointing: bool = False
    """keep fewer activations and compute them twice: less memory, more time"""


def launch(options: RunOptions) -> Any:
    """A running Fabric; in a job of several processes each of them comes back with its own."""
    fabric_module = require("lightning_fabric", "train")
    exceptions = require("lightning_fabric.utilities.exceptions", "train")
    import cv2

    if options.threads < 1:
        raise InputError(f"--threads must be at least 1, got {options.threads}.")
    torch.set_num_threads(options.threads)
    cv2.setNumThreads(1)  # crops are small; OpenCV's threads only get in the network's way
    devices: Any = (
        int(options.devices) if options.devices.lstrip("-").isdigit() else options.devices
    )
    several = devices != 1 or options.nodes > 1 or _inside_a_job()
    try:
        fabric = fabric_module.Fabric(
            accelerator=options.accelerator,
            devices=devices,
            num_nodes=options.nodes,
            precision=options.precision,
            strategy="ddp" if several else "auto",
        )
        fabric.launch()
    except (ValueError, RuntimeError, exceptions.MisconfigurationException) as error:
        raise InputError(f"these devices cannot be used: {str(error).splitlines()[0]}") from error
    return fabric


def _inside_a_job() -> bool:
    environments = require("lightning_fabric.plugins.environments", "train")
    kinds = (environments.TorchElasticEnvironment, environments.SLURMEnvironment)
    return any(kind.detect() for kind in kinds)


def prepare_norms(network: LUVLi, choice: BatchNorm, processes: int, on_cpu: bool) -> LUVLi:
    """Batch normalisation as the stage wants it: local, over all processes, or frozen."""
    if choice == "sync" and processes > 1:
        if on_cpu:
            raise InputError(
                "batch_norm: sync needs GPUs, as PyTorch has it: use local or frozen on CPUs."
            )
        convert: Any = nn.SyncBatchNorm.convert_sync_batchnorm
        network = convert(network)
    return network


def set_training_mode(network: nn.Module, choice: BatchNorm) -> None:
    """Training mode, but for frozen batch norms, which go on using their running statistics."""
    network.train()
    if choice == "frozen":
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()


class Stopped(Exception):
    """A signal asked the run to end; everything it did is in its last checkpoint."""


class Stop:
    """Whether a signal came."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Within the block SIGTERM and SIGINT only set `asked`; a second Ctrl-C ends at once."""
    stop = Stop()

    def note(number: int, frame: Any) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.asked = True

    try:
        before = {number: signal.signal(number, note) for number in _SIGNALS}
    except ValueError:  # not in the main thread: signals are somebody else's
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
