"""What is shown and written down while a run goes on: terminal, `metrics.jsonl`, TensorBoard,
learning curves."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from luvli.errors import require
from luvli.files import whole_file, write_text, writing
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.training.callbacks import Callback, Divergence, StepResult
from luvli.training.run import METRICS, StepCounter

if TYPE_CHECKING:
    from luvli.training.loop import StageTrainer

SHOWN = ("loss", "T1", "T2", "visibility", "faces_per_second")
"""what the terminal shows of them"""
LOG_SECONDS = 10.0
RUNAWAY = 10.0
"""Divergence is a mean loss above the first one by this many times its size, or this much: a
log-likelihood may begin near zero."""
FULL_DISK = "free some space and give --resume."


class Log(Callback):
    """Means of the last steps, every ten seconds and after every epoch, and validation metrics.

    Only the first process of a run writes anything (`active`). `tracker`: wandb or mlflow, to log
    to as well.
    """

    def __init__(self, folder: Path, active: bool = True, tracker: str | None = None) -> None:
        self.folder, self.active = folder, active
        self._tracker = start_tracker(tracker, folder) if active and tracker else None
        self._events: Any = None

    def say(self, sentence: str) -> None:
        """A line for the person who watches."""
        if self.active:
            print(sentence, file=sys.stderr, flush=True)

    def stage_begins(self, stage: StageTrainer) -> None:
        if self.active and self._events is None:
            with writing(self.folder, FULL_DISK):
                self._events = start_events(self.folder, stage.counter.global_step + 1)
        self._reset()

    def _reset(self) -> None:
        self._parts: list[dict[str, Tensor]] = []  # read late: not to wait for the device
        self._waited, self._since = 0.0, time.monotonic()

    def step_done(self, stage: StageTrainer, step: StepResult) -> None:
        self._parts.append(step.losses.logged())
        self._waited += step.waited
        self._lr = step.lr
        if stage.epoch_ended or time.monotonic() - self._since > LOG_SECONDS:
            self.flush(stage)

    def flush(self, stage: StageTrainer) -> None:
        """Write what has been collected; raises `Divergence` if the training diverges."""
        if not self._parts:
            return
        seconds = max(time.monotonic() - self._since, 1e-9)
        means = mean_losses(self._parts, stage.counter) | {
            "lr": self._lr,
            "faces_per_second": len(self._parts) * stage.stage.batch_size / seconds,
            "waiting": self._waited / seconds,
        }
        self._reset()
        self._write("train", stage, means)
        if stage.epoch_ended:
            self._say(stage, {name: means[name] for name in SHOWN if name in means})

    def validation(self, stage: StageTrainer, name: str, metrics: Mapping[str, float]) -> None:
        """Metrics of one validation set after an epoch."""
        self._write("validation", stage, metrics, name)
        self._say(stage, metrics, f", {name}")

    def _say(self, stage: StageTrainer, numbers: Mapping[str, float], watched: str = "") -> None:
        words = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        self.say(f"{stage.name} epoch {stage.epoch}{watched}: {words}")

    def sheet(self, stage: StageTrainer, image: ImageArray) -> None:
        """The validation faces of this moment: `validation.png`, and TensorBoard's history."""
        write_image(self.folder / "validation.png", image)
        with writing(self.folder, FULL_DISK):
            step = stage.counter.global_step
            self._events.add_image("validation", image, step, dataformats="HWC")
            self._events.flush()

    def _write(
        self, kind: str, stage: StageTrainer, numbers: Mapping[str, float], watched: str = ""
    ) -> None:
        """A line of `metrics.jsonl` and its events; `watched` names the validation set."""
        if not self.active:
            return
        step = stage.counter.global_step
        line: dict[str, Any] = {"kind": kind, "stage": stage.name, "epoch": stage.epoch}
        line |= {"step": step, **({"set": watched} if watched else {})}
        line |= {name: float(f"{value:.6g}") for name, value in numbers.items()}
        with writing(self.folder, FULL_DISK):
            for name, value in numbers.items():
                self._events.add_scalar(f"{kind} {watched}".strip() + f"/{name}", value, step)
            self._events.flush()  # an error of the writer's thread shows here
            with (self.folder / METRICS).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
        if self._tracker is not None:
            place = f"{kind} {watched or stage.name}"
            self._tracker({f"{place}/{name}": value for name, value in numbers.items()}, step)

    def stage_ends(self, stage: StageTrainer) -> None:
        if self.active:
            write_curves(self.folder)

    def close(self) -> None:
        """No more events will come."""
        if self._events is not None:
            with contextlib.suppress(OSError):  # what went wrong has been said
                self._events.close()


def start_events(folder: Path, step: int) -> Any:
    """TensorBoard's writer of a run whose next step is `step`; what was written about that one and
    later ones, by a run that was broken off, is dropped."""
    from torch.utils.tensorboard import SummaryWriter

    if (folder / METRICS).is_file():
        lines = [line for line in read_run_metrics(folder) if line["step"] < step]
        write_text(folder / METRICS, "".join(json.dumps(line) + "\n" for line in lines))
    make: Any = SummaryWriter
    return make(str(folder / "tensorboard"), purge_step=step)


def start_tracker(name: str, folder: Path) -> Callable[[dict[str, float], int], Any]:
    """A function that logs numbers of a step to wandb or mlflow, under the name of the run's
    folder; a run that is resumed goes on there."""
    module: Any = require(name, "train")
    if name == "wandb":
        run = module.init(project="luvli", name=folder.name, id=folder.name, resume="allow")
        return lambda numbers, step: run.log(numbers, step=step)
    module.set_experiment("luvli")
    module.start_run(run_name=folder.name)
    return lambda numbers, step: module.log_metrics(numbers, step=step)


def mean_losses(parts: Sequence[Mapping[str, Tensor]], counter: StepCounter) -> dict[str, float]:
    """Means of the losses of the last steps; `counter` counts all of them.

    Raises `Divergence` when one was not finite, or when their mean is far above the stage's first.
    """
    stage, step = f"stage {counter.stage}", counter.global_step
    table = torch.stack([torch.stack(list(part.values())) for part in parts]).double().cpu()
    broken = ~torch.isfinite(table).all(1)
    if broken.any():
        at = step - len(parts) + 1 + int(broken.nonzero()[0, 0])
        raise Divergence(
            f"{stage}: the loss is not a number any more at step {at}: lower the "
            "learning rate or set clip_grad_norm, then continue with --resume."
        )
    means = dict(zip(parts[0], table.mean(0).tolist(), strict=True))
    loss = means["loss"]
    first = counter.first_loss = loss if counter.first_loss is None else counter.first_loss
    if loss > first + RUNAWAY * max(abs(first), 1.0):
        raise Divergence(
            f"{stage}: the loss has grown to {loss:.4g} by step {step}, from {first:.4g} at the "
            "start: lower the learning rate or set clip_grad_norm."
        )
    return means


def read_run_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`, without those that a crash or a disk has damaged."""
    path, lines = folder / METRICS, []
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for line in text.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            fields = json.loads(line)
            if isinstance(fields, dict) and isinstance(fields.get("step"), int):
                lines.append(fields)
    return lines


def write_curves(folder: Path) -> None:
    """Plot a run's loss, learning rate and validation NME over its steps: `learning_curve.png`."""
    import matplotlib
    from matplotlib.figure import Figure

    lines = read_run_metrics(folder)
    panels = (  # axis label, kind of lines, what names a curve, value
        ("loss", "train", "stage", "loss"),
        ("learning rate", "train", "stage", "lr"),
        ("validation NME_vis, box (%)", "validation", "set", "nme_vis_box"),
    )
    with matplotlib.rc_context({"text.parse_math": False}):  # names may hold any sign
        figure = Figure(figsize=(7, 7), layout="constrained")
        rows = figure.subplots(3, sharex=True)
        for axes, (label, kind, group, value) in zip(rows, panels, strict=True):
            chosen = [line for line in lines if line.get("kind") == kind and value in line]
            for name in dict.fromkeys(line[group] for line in chosen):
                curve = [(line["step"], line[value]) for line in chosen if line[group] == name]
                axes.plot(*zip(*curve, strict=True), marker=".", label=name)
            axes.set(ylabel=label, xlabel="step")
            if chosen:
                axes.legend()
        with whole_file(folder / "learning_curve.png") as temporary:
            figure.savefig(temporary, dpi=110)
