"""What is measured, shown and written down while a run goes on."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luvli.errors import InputError
from luvli.files import write_text, writing
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.progress import progress_bar
from luvli.training.event_file import EventFile
from luvli.training.objective import StageLosses
from luvli.training.validate import ValidationMetrics

METRICS = "metrics.jsonl"
RUNAWAY = 10.0
"""Divergence is a mean loss above the first one by this many times its size, or this much: a
log-likelihood may begin near zero."""


class Divergence(InputError):
    """The training has run away; the message names the step."""


class LossMeter:
    """Collects the parts of each step without waiting for the device; `flush` reads them."""

    def __init__(self, where: str, first: float | None = None) -> None:
        self.where = where
        self.first = first
        """mean loss of the first flush: what runaway losses are compared with"""
        self._parts: list[dict[str, Tensor]] = []
        self._faces = 0
        self._waited = 0.0
        self._since = time.perf_counter()

    def add(self, losses: StageLosses, faces: int, waited: float) -> None:
        """One step: its losses, faces seen, seconds spent waiting for data."""
        self._parts.append(losses.logged())
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
                "learning rate or set clip_grad_norm, then continue with --resume."
            )
        means = dict(zip(names, table.mean(0).tolist(), strict=True))
        if self.first is None:
            self.first = means["loss"]
        elif means["loss"] > self.first + RUNAWAY * max(abs(self.first), 1.0):
            raise Divergence(
                f"{self.where}: the loss has run away to {means['loss']:.4g} by step {step}, from "
                f"{self.first:.4g} at the start: lower the learning rate or set clip_grad_norm."
            )
        seconds = max(time.perf_counter() - self._since, 1e-9)
        means["faces_per_second"] = self._faces / seconds
        means["waiting"] = self._waited / seconds
        self._faces, self._waited, self._since = 0, 0.0, time.perf_counter()
        return means


class RunLog:
    """Lines or a live display on the terminal, `metrics.jsonl`, TensorBoard events.

    Only the first process of a run has one that does anything (`active`).
    """

    def __init__(self, folder: Path, resumed_at: int | None, active: bool = True) -> None:
        self.folder, self.active = folder, active
        self._bar: Any = None
        self._stage = ""
        self._watched = ""
        if not active:
            return
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            _forget_later(folder / METRICS, resumed_at or 0)
            self._events = EventFile(folder / "tensorboard", first_step=(resumed_at or 0) + 1)

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self.folder, "free some space and give --resume.")

    def say(self, sentence: str) -> None:
        """A line for the person who watches."""
        if not self.active:
            return
        if self._bar is not None:
            self._bar.console.print(sentence, highlight=False, markup=False)
        else:
            print(sentence, file=sys.stderr, flush=True)

    def begin_stage(self, name: str, steps: int, step: int) -> None:
        """Show the progress of one stage."""
        self.end_stage()
        self._stage, self._steps = name, steps
        self._first, self._began = step, time.perf_counter()
        if self.active and sys.stderr.isatty():
            self._bar = progress_bar("numbers", 20)
            self._bar.start()
            self._task = self._bar.add_task(name, total=steps, completed=step, numbers="")

    def end_stage(self) -> None:
        """Take the live display away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def advance(self, step: int) -> None:
        """`step` steps of the stage are done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def progress(
        self, global_step: int, epoch: int, step: int, lr: float, means: Mapping[str, float]
    ) -> None:
        """Means of the last few steps: `global_step` steps of the run, `step` of this stage."""
        if not self.active:
            return
        self._write(
            {
                "kind": "train",
                "stage": self._stage,
                "epoch": epoch,
                "step": global_step,
                "lr": lr,
            },
            means,
        )
        shown = "  ".join(
            f"{name} {means[name]:.4g}"
            for name in ("loss", "T1", "T2", "visibility")
            if name in means
        )
        shown += f"{self._watched}  {means['faces_per_second']:.1f} faces/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=step, numbers=shown)
        else:
            self.say(
                f"{self._stage} epoch {epoch} step {step}/{self._steps}  {shown}  "
                f"{_duration(self._seconds_left(step))} left"
            )

    def validation(
        self, global_step: int, epoch: int, name: str, metrics: ValidationMetrics
    ) -> None:
        """Metrics of one validation set after an epoch."""
        if not self.active:
            return
        self._write(
            {
                "kind": "validation",
                "stage": self._stage,
                "epoch": epoch,
                "step": global_step,
                "set": name,
            },
            metrics.known(),
        )
        self._watched = f"  {name} NME {metrics.nme_box:.2f} %"
        self.say(f"{self._stage} epoch {epoch} done, {name}: {metrics}")

    def sheet(self, global_step: int, image: ImageArray) -> None:
        """The validation faces of this moment: `validation.png`, and TensorBoard's history."""
        if self.active:
            write_image(self.folder / "validation.png", image)
            with self._writing():
                self._events.image("validation", image, global_step)

    def _write(self, where: Mapping[str, Any], numbers: Mapping[str, float]) -> None:
        line = json.dumps({**where, **{name: float(f"{v:.6g}") for name, v in numbers.items()}})
        prefix = "train" if where["kind"] == "train" else f"validation {where['set']}"
        with self._writing():
            with (self.folder / METRICS).open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
            values = {f"{prefix}/{name}": value for name, value in numbers.items()}
            self._events.scalars(values, where["step"])

    def _seconds_left(self, step: int) -> float:
        passed = time.perf_counter() - self._began
        return passed / max(step - self._first, 1) * (self._steps - step)


def read_run_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`, without those that a crash or a disk has spoilt."""
    path = folder / METRICS
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            fields = json.loads(line)
            if isinstance(fields, dict) and isinstance(fields.get("step"), int):
                found.append(fields)
    return found


def _forget_later(path: Path, step: int) -> None:
    """Drop lines beyond the checkpoint that a run continues from: they will come again."""
    if path.is_file():
        kept = [line for line in read_run_metrics(path.parent) if line["step"] <= step]
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
