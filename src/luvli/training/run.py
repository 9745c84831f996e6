"""A run: how it is carried out (devices, processes, signals), its folder, its faces, its progress.

One core, one GPU, many GPUs, many machines: Lightning Fabric decides from flags and
environment (torchrun, SLURM), and PyTorch's own collectives do the work.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from luvli.errors import InputError, brief, check_range, require, unknown_choice
from luvli.files import folder_lock
from luvli.training.ingredients import model_file
from luvli.training.recipe import Recipe
from luvli.training.sources import SourceFaces

if TYPE_CHECKING:
    from luvli.training.log import Log

METRICS = "metrics.jsonl"
MODEL = "model.safetensors"
"""the file of a run's last stage; the others are named after their stage"""
CHOICES = {
    "accelerator": ("auto", "cpu", "cuda", "mps"),
    "precision": ("32-true", "bf16-mixed", "16-mixed"),
    "log": ("wandb", "mlflow"),
}
"""what these options of a run can be"""


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

    def __post_init__(self) -> None:
        check_range("threads", self.threads, 1)
        check_range("workers", self.workers, 0)
        for name, known in CHOICES.items():
            given = getattr(self, name)
            if given is not None and given not in known:
                raise unknown_choice(name, given, known)


@dataclass
class StepCounter:
    """How far a run is."""

    stage: str
    step: int = 0
    """steps of the stage that are done"""
    global_step: int = 0
    """steps of the run that are done"""
    first_loss: float | None = None
    """mean loss at the start of the stage, for the alarm about divergence"""


@dataclass
class TrainingRun:
    """A run of a recipe in a folder: what its stages share."""

    recipe: Recipe
    out: Path
    options: RunOptions
    fabric: Any
    log: Log
    faces: dict[str, SourceFaces] = field(default_factory=dict)
    """by the names of the sources that have been read"""
    validation: dict[str, dict[str, float]] = field(default_factory=dict)
    """latest metrics of each validation set"""

    def model_path(self, stage: str) -> Path:
        """The model file of a stage."""
        last = stage == list(self.recipe.stages)[-1]
        return self.out / (MODEL if last else f"{stage}.safetensors")

    def start_path(self, stage: str) -> Path:
        """The model file that a stage begins with: the stage before's, or the recipe's `init`."""
        names = list(self.recipe.stages)
        place = names.index(stage)
        return self.model_path(names[place - 1]) if place else model_file(str(self.recipe.init))


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


@contextmanager
def run_folder(fabric: Any, out: Path) -> Iterator[None]:
    """Hold the lock of a run's folder.

    The first process takes the lock, and all of them raise where another run holds it.
    """
    with ExitStack() as stack:
        problem = None
        if fabric.is_global_zero:
            try:
                stack.enter_context(folder_lock(out))
            except InputError as error:
                problem = str(error)
        problem = fabric.broadcast(problem)
        if problem is not None:
            raise InputError(problem)
        yield


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
