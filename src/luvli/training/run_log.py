"""What is shown and written down while a run goes on."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from luvli.files import write_text
from luvli.image.read import Picture
from luvli.image.write import write_image

METRICS = "metrics.jsonl"


class Report:
    """Lines or a live display on the terminal, `metrics.jsonl`, TensorBoard events.

    Only the first process of a run has one that does anything (`active`).
    """

    def __init__(self, folder: Path, resumed_at: int | None, active: bool = True) -> None:
        self.folder, self.active = folder, active
        self._bar: Any = None
        self._events: Any = None
        self._stage = ""
        self._watched = ""
        if not active:
            return
        folder.mkdir(parents=True, exist_ok=True)
        _forget_later(folder / METRICS, resumed_at or 0)
        from torch.utils.tensorboard import SummaryWriter

        self._events = SummaryWriter(str(folder / "tensorboard"), purge_step=(resumed_at or 0) + 1)

    def say(self, sentence: str) -> None:
        """A line for the person who watches."""
        if not self.active:
            return
        if self._bar is not None:
            self._bar.console.print(sentence, highlight=False)
        else:
            print(sentence, file=sys.stderr, flush=True)

    def begin_stage(self, name: str, steps: int, done: int) -> None:
        """Show the progress of one stage."""
        self.end_stage()
        self._stage, self._steps = name, steps
        self._first, self._began = done, time.perf_counter()
        if self.active and sys.stderr.isatty():
            self._bar = _progress_bar()
            self._bar.start()
            self._task = self._bar.add_task(name, total=steps, completed=done, numbers="")

    def end_stage(self) -> None:
        """Take the live display away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def advance(self, done: int) -> None:
        """`done` steps of the stage are behind us."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def progress(
        self, total: int, epoch: int, done: int, rate: float, means: Mapping[str, float]
    ) -> None:
        """Means of the last few steps: `total` steps of the run, `done` of this stage."""
        if not self.active:
            return
        self._write(
            {"kind": "train", "stage": self._stage, "epoch": epoch, "step": total, "rate": rate},
            means,
        )
        shown = "  ".join(
            f"{name} {means[name]:.4g}"
            for name in ("loss", "T1", "T2", "visibility")
            if name in means
        )
        shown += f"{self._watched}  {means['faces_per_second']:.1f} faces/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, numbers=shown)
        else:
            self.say(
                f"{self._stage} epoch {epoch} step {done}/{self._steps}  {shown}  "
                f"{_duration(self._seconds_left(done))} left"
            )

    def validation(self, total: int, epoch: int, name: str, numbers: Mapping[str, float]) -> None:
        """Figures of one validation set after an epoch."""
        if not self.active:
            return
        self._write(
            {
                "kind": "validation",
                "stage": self._stage,
                "epoch": epoch,
                "step": total,
                "set": name,
            },
            numbers,
        )
        self._watched = f"  {name} NME {numbers['nme_box']:.2f} %"
        self.say(f"{self._stage} epoch {epoch} done, {name}: {sentence_of(numbers)}")

    def picture(self, total: int, image: Picture) -> None:
        """The validation faces of this moment: `validation.png`, and TensorBoard's history."""
        if self.active:
            write_image(self.folder / "validation.png", image)
            self._events.add_image("validation", image, total, dataformats="HWC")

    def close(self) -> None:
        """Write out what is still in memory."""
        self.end_stage()
        if self._events is not None:
            self._events.close()

    def _write(self, where: Mapping[str, Any], numbers: Mapping[str, float]) -> None:
        line = json.dumps({**where, **{name: float(f"{v:.6g}") for name, v in numbers.items()}})
        with (self.folder / METRICS).open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
        prefix = "train" if where["kind"] == "train" else f"validation {where['set']}"
        for name, value in numbers.items():
            self._events.add_scalar(f"{prefix}/{name}", value, where["step"])

    def _seconds_left(self, done: int) -> float:
        passed = time.perf_counter() - self._began
        return passed / max(done - self._first, 1) * (self._steps - done)


def sentence_of(numbers: Mapping[str, float]) -> str:
    """Figures as people read them.

    >>> sentence_of({"nme_box": 2.5, "visibility_accuracy": 0.91})
    'NME_box 2.50 %, visibility accuracy 0.910'
    """
    words = []
    for name, value in numbers.items():
        if "nme_" in name:
            words.append(
                f"{name.replace('nme_', 'NME_').replace('_shape_', ' shape ')} {value:.2f} %"
            )
        else:
            words.append(f"{name.replace('_', ' ')} {value:.3f}")
    return ", ".join(words)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`."""
    path = folder / METRICS
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def _forget_later(path: Path, step: int) -> None:
    """Drop lines beyond the checkpoint that a run continues from: they will come again."""
    if path.is_file():
        kept = [line for line in read_metrics(path.parent) if line["step"] <= step]
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))


def _progress_bar() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
