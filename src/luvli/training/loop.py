"""The training loop.

    recipe = read_recipe("recipes/quick.yaml")
    train(recipe, Path("runs/quick"))

A run lives in one folder: `recipe.yaml`, `checkpoints/`, `metrics.jsonl`, `tensorboard/`,
`validation.png`, one model file for each finished stage, and `model.safetensors` at the end.
What happens at step n depends on the recipe and n alone, so a run that was stopped and
resumed ends in the same weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from luvli.errors import InputError
from luvli.files import write_text
from luvli.training.checkpoint import latest_checkpoint, list_checkpoints
from luvli.training.distributed import RunOptions, launch, stop_signals
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe, write_recipe
from luvli.training.run_log import RunLog
from luvli.training.sources import SourceFaces, load_source
from luvli.training.stage import StageTrainer, StepCounter, TrainingRun
from luvli.training.stage_model import MODEL
from luvli.training.validate import ValidationMetrics

__all__ = ["RunOptions", "train"]


def train(recipe: Recipe, out: Path, options: RunOptions | None = None) -> Path:
    """Run a recipe to its end -> path of the finished model.

    A signal (SIGTERM, Ctrl-C) ends it after a checkpoint with `luvli.training.distributed.Stopped`.
    """
    options = options or RunOptions()
    checkpoint = _find_checkpoint(out, options.resume)
    fabric = launch(options)
    done = StepCounter.from_checkpoint(checkpoint).global_step if checkpoint else 0
    log = RunLog(out, done, fabric.is_global_zero)
    try:
        if checkpoint is not None:
            _compare(recipe, checkpoint, log)
        if fabric.is_global_zero:
            write_text(out / "recipe.yaml", write_recipe(recipe))
        run = TrainingRun(recipe, out, options, fabric, log)
        with fabric.rank_zero_first(local=True):
            run.faces = _load_faces(recipe, log)
        return _run_stages(run, checkpoint)
    finally:
        log.close()


def _run_stages(run: TrainingRun, checkpoint: dict[str, Any] | None) -> Path:
    names = list(run.recipe.stages)
    counter = StepCounter(names[0])
    weights = None
    if checkpoint is not None:
        counter = StepCounter.from_checkpoint(checkpoint)
        known = checkpoint["validation"].items()
        run.validation = {name: ValidationMetrics(**metrics) for name, metrics in known}
        run.log.say(f"continuing after step {counter.step} of stage {counter.stage}")
    with stop_signals() as stop:
        for name in names[names.index(counter.stage) :]:
            if name != counter.stage:
                counter = StepCounter(name, global_step=counter.global_step)
            weights = StageTrainer(run, counter, weights, checkpoint).train(stop)
            checkpoint = None
    return run.out / MODEL


def _load_faces(recipe: Recipe, log: RunLog) -> dict[str, SourceFaces]:
    wanted = {name for stage in recipe.stages.values() for name in recipe.sources_of(stage)}
    faces = {}
    for name, source in recipe.data.sources.items():
        if name in wanted:
            part = faces[name] = load_source(name, source, recipe.data, recipe.network)
            kept = f", {len(part.held_out)} held out" if part.held_out else ""
            log.say(f"{name}: {len(part.train)} faces to learn from{kept}")
    return faces


def _find_checkpoint(out: Path, resume: bool) -> dict[str, Any] | None:
    folder = out / "checkpoints"
    if not resume:
        if list_checkpoints(folder) or (out / MODEL).exists():
            raise InputError(
                f"{out} already holds a run: continue it with --resume, or choose another --out."
            )
        return None
    return latest_checkpoint(folder)


def _compare(recipe: Recipe, checkpoint: dict[str, Any], log: RunLog) -> None:
    """Say what changed in the recipe since the checkpoint; refuse what cannot be continued."""
    old = make_recipe(checkpoint["recipe"], "the checkpoint's recipe")
    if old.network != recipe.network:
        raise InputError("the recipe's network differs from the run's: choose another --out.")
    stage = StepCounter.from_checkpoint(checkpoint).stage
    if stage not in recipe.stages:
        raise InputError(f"the run is in stage {stage!r}, which the recipe lacks.")
    for key, before, after in changed_settings(old.model_dump(), recipe.model_dump()):
        log.say(f"recipe changed since the run began: {key} was {before}, is now {after}")


def changed_settings(old: Any, new: Any, place: str = "") -> list[tuple[str, Any, Any]]:
    """Where two nested mappings differ: (key, old, new).

    >>> changed_settings({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2})
    [('a.b', 1, 3)]
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [(place, old, new)]
    found = []
    for key in dict.fromkeys([*old, *new]):
        inner = f"{place}.{key}" if place else str(key)
        found += changed_settings(old.get(key), new.get(key), inner)
    return found
