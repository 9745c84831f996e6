"""A run's events and metrics, a disk that is full, and logs that a crash has damaged."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import Result

from luvli.image.read import read_image
from luvli.training.callbacks import StepResult
from luvli.training.log import Log, read_run_metrics
from luvli.training.losses import StageLosses
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import write_recipe
from luvli.training.run import METRICS, StepCounter


def test_tensorboard_reads_what_was_written(tmp_path: Path, rng: np.random.Generator) -> None:
    """By TensorBoard's own reader; a run that is resumed takes back what it will do again."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    image = rng.integers(0, 255, (5, 7, 3), dtype=np.uint8)
    stage: Any = SimpleNamespace(name="x", epoch=0, epoch_ended=True)
    stage.order, stage.stage = SimpleNamespace(steps=9), SimpleNamespace(batch_size=2)

    def write(first: int, losses: Sequence[float], lr: float) -> Log:
        log = Log(tmp_path)
        stage.counter = StepCounter("x", first - 1, first - 1)
        log.stage_begins(stage)
        for loss in losses:
            stage.counter.step = stage.counter.global_step = stage.counter.step + 1
            log.step_done(stage, StepResult(StageLosses(torch.tensor(loss)), lr, 0.0))
        return log

    log = write(1, [9.0, 8.0, 7.0], 0.5)
    log.sheet(stage, image)
    log.close()
    log = write(3, [-3.0], 0.25)
    log.validation(stage, "a$b$c", {"nme_box": 4.0})  # no formula for the plot
    log.stage_ends(stage)
    log.close()
    read = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    expected = [(1, 9.0), (2, 8.0), (3, -3.0)]
    assert [(e.step, e.value) for e in read.Scalars("train/loss")] == expected
    assert [e.value for e in read.Scalars("train/lr")] == [0.5, 0.5, 0.25]
    assert read.Images("validation") == []  # of step 3, which comes again
    lines = [line for line in read_run_metrics(tmp_path) if line["kind"] == "train"]
    assert [(line["step"], line["loss"]) for line in lines] == expected
    assert read_image(tmp_path / "learning_curve.png").std() > 10


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files")
def test_a_full_disk_is_one_sentence(
    small_recipe: Callable[..., Recipe],
    luvli: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever the space ends: recipe, the image of the faces, a checkpoint."""
    import resource

    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # modules would be cut off, too
    recipe = tmp_path / "small.yaml"
    changes = {
        "network": {"unets": 1, "channels": 4},
        "data": {"sources": {"mine": {"hold_out": 1}}},
        "stages": {name: {"epochs": 1, "epoch_faces": 4} for name in ("heatmaps", "luvli")},
    }
    recipe.write_text(write_recipe(small_recipe(**changes)))
    assert luvli("train", recipe, "--out", tmp_path / "whole").exit_code == 0  # fills the cache
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "whole").rglob("*.*")}
    sheet = sizes["validation.png"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    stopped_at = set()
    for limit in (20, sheet // 2, 2 * sheet):
        out = tmp_path / f"run-{limit}"
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            done = luvli("train", recipe, "--out", out)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert done.exit_code == 2, done.output
        (about,) = [line for line in done.output.splitlines() if "could not be written" in line]
        assert re.match(r"luvli: .* \(File too large\): free some space", about)
        assert done.output.splitlines()[-1] == about and "Traceback" not in done.output
        stopped_at.add(about.split(" could not")[0].removeprefix(f"luvli: {out}"))
    assert {"/recipe.yaml", "/validation.png"} < stopped_at
    assert any("checkpoint" in place for place in stopped_at)


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_gets_the_same_numbers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands in for both packages, which are not installed here: their documented calls."""
    calls: list[tuple[dict[str, float], int]] = []

    def note(numbers: dict[str, float], step: int) -> None:
        calls.append((numbers, step))

    run = SimpleNamespace(log=note)
    package = SimpleNamespace(
        init=lambda **_: run, log_metrics=note, set_experiment=str, start_run=lambda **_: None
    )
    monkeypatch.setitem(sys.modules, name, package)  # type: ignore[arg-type]
    log = Log(tmp_path, tracker=name)
    stage: Any = SimpleNamespace(name="x", epoch=0, counter=StepCounter("x", 7, 7))
    log.stage_begins(stage)
    log.validation(stage, "mine", {"nme_box": 4.0})
    log.close()
    assert calls == [({"validation mine/nme_box": 4.0}, 7)]


def test_damaged_lines_of_a_log_are_passed_over(tmp_path: Path) -> None:
    good = b'{"step": 1, "loss": 2.0}\n'
    (tmp_path / METRICS).write_bytes(
        good + b'\xff{"step": }\n[1]\n{"step": "x"}\n' + good + b'{"st'
    )
    assert [line["step"] for line in read_run_metrics(tmp_path)] == [1, 1]
