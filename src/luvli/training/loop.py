"""The training loop.

    recipe = read_recipe("recipes/quick.yaml")
    train(recipe, Path("runs/quick"))

A run lives in one folder: `recipe.yaml`, `checkpoints/`, `metrics.jsonl`, `tensorboard/`,
`validation.png`, one model file for each finished stage, and `model.safetensors` at the end.
What happens at step n depends on the recipe and n alone, so a run that was stopped and
resumed ends in the same weights.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

from luvli.errors import InputError
from luvli.files import write_text
from luvli.training.checkpoint import latest_checkpoint, list_checkpoints
from luvli.training.distributed import RunOptions, launch, stop_signals
from luvli.training.licences import check_licence
from luvli.training.recipe import Recipe, Source, stage_of
from luvli.training.recipe_files import make_recipe, write_recipe
from luvli.training.relabel import shipped_or_path
from luvli.training.run_log import METRICS, RunLog
from luvli.training.sources import load_source
from luvli.training.stage import StageTrainer, StepCounter, TrainingRun
from luvli.training.stage_model import MODEL, stage_path
from luvli.training.validate import ValidationMetrics

__all__ = ["RunOptions", "train"]


def train(recipe: Recipe, out: Path, options: RunOptions | None = None) -> Path:
    """Run a recipe to its end -> path of the finished model.

    A signal (SIGTERM, Ctrl-C) ends it after a checkpoint with `luvli.training.distributed.Stopped`.
    """
    options = options or RunOptions()
    check_licence(recipe)
    checkpoint = _find_checkpoint(out, options.resume)
    fabric = launch(options)
    made = _not_there_yet(out)
    done = StepCounter.from_checkpoint(checkpoint).global_step if checkpoint else 0
    log = RunLog(out, done, fabric.is_global_zero)
    try:
        if checkpoint is not None:
            _compare(recipe, checkpoint, log)
        if fabric.is_global_zero:
            write_text(out / "recipe.yaml", write_recipe(recipe))
        if options.resume and checkpoint is None:
            log.say(f"{out} holds no checkpoint to resume from: beginning at the first step")
        run = TrainingRun(recipe, out, options, fabric, log)
        return _run_stages(run, checkpoint)
    except InputError:
        if fabric.is_global_zero and made is not None and not _has_begun(out):
            _clear(out, made)
        raise
    finally:
        log.end_stage()


def _not_there_yet(out: Path) -> list[Path] | None:
    """Folders, innermost first, that a run in `out` will make; None where something is in it."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        return None
    return [folder for folder in (out, *out.parents) if not folder.exists()]


def _has_begun(out: Path) -> bool:
    return bool(list_checkpoints(out / "checkpoints")) or (out / METRICS).exists()


def _clear(out: Path, made: list[Path]) -> None:
    """Take away what a run left that was refused before its first step."""
    with contextlib.suppress(OSError):  # the reason why it was refused is the one to tell
        (out / "recipe.yaml").unlink(missing_ok=True)
        shutil.rmtree(out / "tensorboard", ignore_errors=True)
        for folder in made:
            folder.rmdir()  # refuses where somebody put something


def _run_stages(run: TrainingRun, checkpoint: dict[str, Any] | None) -> Path:
    names = list(run.recipe.stages)
    counter = StepCounter(names[0])
    weights = None
    if run.recipe.init is not None and checkpoint is None:
        shipped_or_path(run.recipe.init)  # a mistyped name is told before any face is read
    if checkpoint is not None:
        counter = StepCounter.from_checkpoint(checkpoint)
        known = checkpoint["validation"].items()
        run.validation = {name: ValidationMetrics(**metrics) for name, metrics in known}
        run.log.say(f"continuing after step {counter.step} of stage {counter.stage}")
    with stop_signals() as stop:
        for name in names[: names.index(counter.stage)]:
            with stop.at_once():
                _load_faces(run, name)
        for name in names[names.index(counter.stage) :]:
            with stop.at_once():  # drawing faces may take long, and goes on where it stopped
                _load_faces(run, name)
            if name != counter.stage:
                counter = StepCounter(name, global_step=counter.global_step)
            weights = StageTrainer(run, counter, weights, checkpoint).train(stop)
            checkpoint = None
    return run.out / MODEL


def _load_faces(run: TrainingRun, stage: str) -> None:
    """Add the sources of a stage to the run's faces, where they are not there yet.

    Not all at once: faces can be labelled by the model of an earlier stage, and rendered ones can
    wear the skin of such faces.
    """
    recipe = run.recipe
    data = recipe.data.model_copy(update={"sources": _with_stage_models(recipe, run.out)})
    for name in recipe.sources_of(recipe.stages[stage]):
        if name in run.faces:
            continue
        with run.fabric.rank_zero_first(local=True):
            part = load_source(
                name, data.sources[name], data, recipe.network, workers=run.options.threads
            )
        run.faces[name] = part
        kept = f", {len(part.held_out)} held out" if part.held_out else ""
        run.log.say(f"{name}: {len(part.train)} faces to learn from{kept}")
        if len(part.held_out) > len(part.train):
            key = f"data.sources.{name}.hold_out"
            run.log.say(
                f"{name}: more faces are held out than are left to learn from; --set {key}=0.1 "
                "holds out a tenth"
            )


def _with_stage_models(recipe: Recipe, out: Path) -> dict[str, Source]:
    """The sources, with the model file of the stage in place of `stage:NAME`."""
    sources = {}
    for name, source in recipe.data.sources.items():
        stage = stage_of(source.relabel)
        if stage is not None:
            path = str(stage_path(recipe, stage, out))
            source = source.model_copy(update={"relabel": path})
        sources[name] = source
    return sources


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
