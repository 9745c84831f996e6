"""How a run is carried out: devices, processes, signals.

One core, one GPU, many GPUs, many machines: Lightning Fabric decides from flags and
environment (torchrun, SLURM), and PyTorch's own collectives do the work.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from luvli.errors import InputError, brief, require
from luvli.network import LUVLi
from luvli.training.recipe import BatchNorm


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out; nothing here changes what it computes, but for `precision`."""

    resume: bool = False
    accelerator: str = "auto"
    devices: str = "1"
    precision: str = "32-true"
    threads: int = 1
    """CPU threads of each process"""
    workers: int = 0
    """processes that prepare data, for each training process; 0: a thread of its own does"""
    log: str | None = None
    """a tracker to log to beside TensorBoard: wandb or mlflow"""


def launch(options: RunOptions) -> Any:
    """A running Fabric; in a job of several processes each of them comes back with its own.

    In a job of torchrun or SLURM, the environment says how many machines there are.
    """
    fabric_module = require("lightning_fabric", "train")
    exceptions = require("lightning_fabric.utilities.exceptions", "train")
    environments = require("lightning_fabric.plugins.environments", "train")
    import cv2

    torch.set_num_threads(options.threads)
    cv2.setNumThreads(1)  # crops are small; OpenCV's threads only get in the network's way
    nodes, jobs = 1, (environments.TorchElasticEnvironment, environments.SLURMEnvironment)
    if jobs[0].detect():
        nodes = int(os.environ["WORLD_SIZE"]) // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    elif jobs[1].detect():
        nodes = int(os.environ.get("SLURM_NNODES", 1))
    several = options.devices != "1" or any(job.detect() for job in jobs)
    try:
        fabric = fabric_module.Fabric(
            accelerator=options.accelerator,
            devices=options.devices,
            num_nodes=nodes,
            precision=options.precision,
            strategy="ddp" if several else "auto",
        )
        fabric.launch()
    except (ValueError, TypeError, RuntimeError, exceptions.MisconfigurationException) as error:
        raise InputError(
            f"--devices {options.devices} cannot be used ({brief(error)}): give how many (1, 2), "
            "which of them (0,1), or auto."
        ) from error
    return fabric


def prepare_norms(network: LUVLi, choice: BatchNorm, processes: int, on_cpu: bool) -> LUVLi:
    """Batch normalisation as the stage wants it: local, over all processes, or frozen."""
    if choice != "sync" or processes == 1:
        return network
    if on_cpu:
        raise InputError(
            "batch_norm: sync needs GPUs, as PyTorch has it: use local or frozen on CPUs."
        )
    convert: Any = nn.SyncBatchNorm.convert_sync_batchnorm
    return cast(LUVLi, convert(network))


def set_training_mode(network: nn.Module, choice: BatchNorm) -> None:
    """Training mode, but for frozen batch norms, which go on using their running statistics."""
    network.train()
    if choice == "frozen":
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()


class Stopped(Exception):
    """A signal asked the run to end; everything it did is in its last checkpoint."""


@dataclass
class StopSignal:
    """Whether SIGTERM or SIGINT came."""

    asked: bool = False
    learning: bool = False
    """while False, faces are read or drawn: a signal ends the run where it is"""

    def handle(self, number: int, frame: Any) -> None:
        """What a signal does; a second Ctrl-C ends at once."""
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        if not self.learning:
            raise Stopped(
                "stopped by a signal while faces were read or drawn: continue with --resume"
            )


@contextmanager
def stop_signals() -> Iterator[StopSignal]:
    """Within the block signals are noted, not obeyed at once."""
    stop = StopSignal()
    try:
        before = {n: signal.signal(n, stop.handle) for n in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not in the main thread: signals are somebody else's
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
