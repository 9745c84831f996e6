"""What is shown and written down while a run goes on: terminal, `metrics.jsonl`, TensorBoard,
learning curves."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from luvli.files import whole_file, write_text, writing
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.progress import progress_bar

METRICS = "metrics.jsonl"
CURVE = "learning_curve.png"
SHOWN = ("loss", "T1", "T2", "visibility")
"""parts of the loss that the terminal shows"""


class RunLog:
    """Lines or a live display on the terminal, `metrics.jsonl`, TensorBoard events, plots.

    Only the first process of a run has one that does anything (`active`).
    """

    def __init__(self, folder: Path, first_step: int, active: bool = True) -> None:
        """`first_step`: the run's next step; what was written about it before is forgotten."""
        self.folder, self.active = folder, active
        self._bar: Any = None
        self._stage = ""
        self._watched = ""
        if not active:
            return
        from torch.utils.tensorboard import SummaryWriter

        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            _forget_from(folder / METRICS, first_step)
            make: Any = SummaryWriter
            self._events = make(str(folder / "tensorboard"), purge_step=first_step)
            self._events.flush()

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
        self._stage, self._steps = name, steps
        self._first, self._began = step, time.perf_counter()
        if self.active and sys.stderr.isatty():
            self._bar = progress_bar("numbers", 20)
            self._bar.start()
            self._task = self._bar.add_task(name, total=steps, completed=step, numbers="")

    def end_stage(self) -> None:
        """Take the live display away, and draw what has been learnt."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self.active:
            write_curves(self.folder)

    def close(self) -> None:
        """No more events will come."""
        if self._bar is not None:
            self._bar.stop()
        if self.active:
            with contextlib.suppress(OSError):  # what went wrong has been said
                self._events.close()

    def advance(self, step: int) -> None:
        """`step` steps of the stage are done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def progress(self, global_step: int, epoch: int, step: int, means: Mapping[str, float]) -> None:
        """Means of the last few steps: `global_step` steps of the run, `step` of this stage."""
        if not self.active:
            return
        self._write("train", epoch, global_step, means)
        shown = "  ".join(f"{name} {means[name]:.4g}" for name in SHOWN if name in means)
        shown += f"{self._watched}  {means['faces_per_second']:.1f} faces/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=step, numbers=shown)
            return
        passed = time.perf_counter() - self._began
        left = passed / max(step - self._first, 1) * (self._steps - step)
        minutes, seconds = divmod(round(left), 60)
        clock = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
        self.say(f"{self._stage} epoch {epoch} step {step}/{self._steps}  {shown}  {clock} left")

    def validation(
        self, global_step: int, epoch: int, name: str, metrics: Mapping[str, float]
    ) -> None:
        """Metrics of one validation set after an epoch."""
        from luvli.training.validate import in_words

        if not self.active:
            return
        self._write("validation", epoch, global_step, metrics, name)
        self._watched = f"  {name} NME {metrics.get('nme_box', math.nan):.2f} %"
        self.say(f"{self._stage} epoch {epoch} done, {name}: {in_words(metrics)}")

    def sheet(self, global_step: int, image: ImageArray) -> None:
        """The validation faces of this moment: `validation.png`, and TensorBoard's history."""
        if self.active:
            write_image(self.folder / "validation.png", image)
            with self._writing():
                self._events.add_image("validation", image, global_step, dataformats="HWC")
                self._events.flush()

    def _write(
        self, kind: str, epoch: int, step: int, numbers: Mapping[str, float], watched: str = ""
    ) -> None:
        """A line of `metrics.jsonl` and its events; `watched` names the validation set."""
        place = {"kind": kind, "stage": self._stage, "epoch": epoch, "step": step}
        place |= {"set": watched} if watched else {}
        rounded = {name: float(f"{value:.6g}") for name, value in numbers.items()}
        prefix = f"{kind} {watched}".strip()
        with self._writing():
            with (self.folder / METRICS).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({**place, **rounded}) + "\n")
            for name, value in numbers.items():
                self._events.add_scalar(f"{prefix}/{name}", value, step)
            self._events.flush()  # an error of the writer's thread shows here


def read_run_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`, without those that a crash or a disk has damaged."""
    path = folder / METRICS
    if not path.is_file():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            fields = json.loads(line)
            if isinstance(fields, dict) and isinstance(fields.get("step"), int):
                lines.append(fields)
    return lines


def _forget_from(path: Path, step: int) -> None:
    """Drop lines beyond the checkpoint that a run continues from: they will come again."""
    if path.is_file():
        lines = [line for line in read_run_metrics(path.parent) if line["step"] < step]
        write_text(path, "".join(json.dumps(line) + "\n" for line in lines))


def write_curves(folder: Path) -> None:
    """Plot a run's loss, learning rate and validation NME over its steps: `learning_curve.png`."""
    import matplotlib
    from matplotlib.figure import Figure

    lines = read_run_metrics(folder)
    train = [line for line in lines if line.get("kind") == "train"]
    watched = [line for line in lines if line.get("kind") == "validation"]
    with matplotlib.rc_context({"text.parse_math": False}):  # names may hold any sign
        figure = Figure(figsize=(7, 7), layout="constrained")
        loss, rate, error = figure.subplots(3, sharex=True)
        for stage in dict.fromkeys(line["stage"] for line in train):
            part = [line for line in train if line["stage"] == stage]
            steps = [line["step"] for line in part]
            loss.plot(steps, [line["loss"] for line in part], marker=".", label=stage)
            rate.plot(steps, [line["lr"] for line in part], marker=".")
        for name in dict.fromkeys(line["set"] for line in watched):
            part = [line for line in watched if line["set"] == name]
            steps = [line["step"] for line in part]
            error.plot(
                steps, [line.get("nme_box", math.nan) for line in part], marker=".", label=name
            )
        loss.set_ylabel("loss")
        rate.set_ylabel("learning rate")
        error.set(ylabel="validation NME_box (%)", xlabel="step")
        for axes in (loss, error):
            if axes.lines:
                axes.legend()
        with whole_file(folder / CURVE) as temporary:
            figure.savefig(temporary, dpi=110)
