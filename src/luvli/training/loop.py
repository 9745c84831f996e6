"""The training loop.

    recipe = read_recipe("recipes/quick.yaml")
    train(recipe, Path("runs/quick"))

Read `StageTrainer.fit` (the loop) and `StageTrainer.step` (forward, losses, backward, optimiser)
first. Averaging, stopping, logging, validating and saving are `luvli.training.callbacks`.

A run has one folder: `recipe.yaml`, `checkpoints/`, `metrics.jsonl`, `tensorboard/`,
`learning_curve.png`, `validation.png`, one model file for each finished stage, and
`model.safetensors` at the end. What happens at step n depends on the recipe and n alone, so a run
that was stopped and resumed ends in the same weights.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from luvli.errors import InputError
from luvli.files import write_text
from luvli.network import LUVLi, build, load_model, load_weights_into
from luvli.network.inference import network_input
from luvli.network.weights import fitting_weights
from luvli.progress import track
from luvli.training.batch import Batch, load_batches
from luvli.training.callbacks import EMA, Callback, Checkpoint, StepResult, Stop, Validate
from luvli.training.checkpoint import latest_checkpoint, list_checkpoints
from luvli.training.ingredients import check_files, check_recipe_licence, model_file
from luvli.training.log import Log
from luvli.training.losses import StageLosses, freeze_unused, stage_losses
from luvli.training.optimizer import (
    lr_factor,
    make_optimizer,
    moving_average,
    prepare_norms,
    set_training_mode,
)
from luvli.training.recipe import FAILURE, Recipe
from luvli.training.recipe_files import changed_settings, make_recipe, write_recipe
from luvli.training.run import (
    MODEL,
    RunOptions,
    StepCounter,
    Stopped,
    TrainingRun,
    launch,
    run_folder,
    stop_signals,
)
from luvli.training.stages import (
    after_finished_stages,
    load_faces,
    mixed_weights,
    stage_data,
    train_failure_head,
    trained_config,
    write_stage_model,
)

__all__ = ["RunOptions", "StageTrainer", "train"]

Weights = dict[str, Tensor]


def train(
    recipe: Recipe,
    out: Path,
    options: RunOptions | None = None,
    callbacks: Sequence[Callback] = (),
) -> Path:
    """Run a recipe to its end -> path of the finished model.

    A signal (SIGTERM, Ctrl-C) ends it after a checkpoint with `luvli.training.run.Stopped`.
    `callbacks` are called after those that every run has.
    """
    options = options or RunOptions()
    check_recipe_licence(recipe)
    fabric = launch(options)
    with run_folder(fabric, out):
        checkpoint = _find_checkpoint(out, options.resume)
        check_files(recipe, resumed=checkpoint is not None)
        build(recipe.network)  # an unknown trunk is refused before faces are read
        with closing(Log(out, fabric.is_global_zero, options.log)) as log:
            run = TrainingRun(recipe, out, options, fabric, log)
            counter, weights = _beginning(run, checkpoint)
            _run_stages(run, counter, weights, checkpoint, callbacks)
    return out / MODEL


def _run_stages(
    run: TrainingRun,
    counter: StepCounter,
    weights: Weights | None,
    checkpoint: dict[str, Any] | None,
    callbacks: Sequence[Callback],
) -> None:
    """One stage after the other, from that of `counter` on; each begins with the weights that the
    one before ended with, the first one with `weights`."""
    names = list(run.recipe.stages)
    with stop_signals() as stop:
        called = [EMA(), Stop(stop), run.log, Validate(), Checkpoint(), *callbacks]
        for place, name in enumerate(names):
            stop.learning = False
            load_faces(run, name)
            if place < names.index(counter.stage):
                continue
            if run.recipe.stages[name].loss == FAILURE:
                train_failure_head(run, name)
                break
            if name != counter.stage:
                counter = StepCounter(name, global_step=counter.global_step)
            stage = StageTrainer(run, counter, weights, checkpoint)
            stop.learning = True
            weights = stage.fit(called)
            checkpoint = None
            if run.fabric.is_global_zero:
                write_stage_model(run, name, stage.trained, weights, counter.global_step)


class StageTrainer:
    """One stage: its data, network and optimiser, ready to go on from `counter`.

    `weights` are those of the stage before; `checkpoint`, if the stage is continued, has all.
    """

    network: LUVLi
    model: Any
    """the network as Fabric wraps it"""
    optimizer: Any
    average: AveragedModel | None
    """moving average of the weights"""

    def __init__(
        self,
        run: TrainingRun,
        counter: StepCounter,
        weights: Weights | None,
        checkpoint: dict[str, Any] | None,
    ) -> None:
        self.run, self.fabric, self.counter = run, run.fabric, counter
        self.name = counter.stage
        self.stage = run.recipe.stages[self.name]
        self.config = run.recipe.stage_network(self.stage)
        self.stopping = False
        """whether the run ends after this step"""
        # a trunk that does not learn keeps the statistics of its batch norms
        self.batch_norm = "frozen" if self.stage.keeps("trunk") else self.stage.batch_norm
        self.faces, self.watched, self.order = stage_data(run, self.name, counter.step)
        self.trained = trained_config(run, self.name, self.faces)
        self._make_network(weights, checkpoint)

    def fit(self, callbacks: Sequence[Callback]) -> Weights:
        """All remaining steps -> the weights that the stage ends with."""
        if self.fabric.is_global_zero:
            write_text(self.run.out / "recipe.yaml", write_recipe(self.run.recipe))
        for callback in callbacks:
            callback.stage_begins(self)
        set_training_mode(self.network, self.batch_norm)
        batches = load_batches(self.faces, self.order, self.run.options.workers)
        steps: Iterable[int] = range(self.counter.step, self.order.steps)
        if self.fabric.is_global_zero:
            steps = track(steps, f"stage {self.name}", unit="steps")
        for _ in steps:
            asked = time.perf_counter()
            batch = self.fabric.to_device(next(batches))
            waited = time.perf_counter() - asked
            lr = self.lr()
            losses = self.step(batch, lr)
            self.counter.step += 1
            self.counter.global_step += 1
            for callback in callbacks:
                callback.step_done(self, StepResult(losses, lr, waited))
            if self.stopping:
                raise Stopped(
                    f"stopped by a signal after step {self.counter.step} of stage {self.name}: "
                    "continue with --resume"
                )
        for callback in callbacks:
            callback.stage_ends(self)
        weights = {name: tensor.detach().cpu().clone() for name, tensor in self.result().items()}
        if self.stage.start_share is None:
            return weights
        start = load_model(self.run.start_path(self.name))[0].state_dict()
        return mixed_weights(weights, start, self.stage.start_share)

    def step(self, batch: Batch, lr: float) -> StageLosses:
        """Learn from one batch."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        outputs = self.model(network_input(batch.images, self.config))
        losses = stage_losses(self.stage, self.config, outputs, batch)
        self.fabric.backward(losses.total)
        if self.stage.clip_grad_norm is not None:
            self.fabric.clip_gradients(
                self.model,
                self.optimizer,
                max_norm=self.stage.clip_grad_norm,
                error_if_nonfinite=False,
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return losses

    def lr(self) -> float:
        """The learning rate of the next step."""
        epoch = self.counter.step / self.order.steps_per_epoch
        return self.stage.optimizer.lr * lr_factor(self.stage.schedule, epoch, self.stage.epochs)

    @property
    def epoch(self) -> int:
        """The epoch of the last step, from 0 on."""
        return (self.counter.step - 1) // self.order.steps_per_epoch

    @property
    def epoch_ended(self) -> bool:
        """Whether the last step was the last of its epoch."""
        return self.counter.step % self.order.steps_per_epoch == 0

    def result(self) -> Weights:
        """The weights that count: the average where there is one."""
        network = self.network if self.average is None else self.average.module
        return network.state_dict()

    def _make_network(self, weights: Weights | None, checkpoint: dict[str, Any] | None) -> None:
        stage, fabric, recipe = self.stage, self.fabric, self.run.recipe
        torch.manual_seed(recipe.seed * 1000 + list(recipe.stages).index(self.name))
        network = build(self.config, activation_checkpointing=recipe.activation_checkpointing)
        if checkpoint is not None:
            network.load_state_dict(checkpoint["network"])
        elif weights is not None:
            network.load_state_dict(fitting_weights(weights, network), strict=False)
        elif recipe.init is not None:
            fresh = load_weights_into(network, model_file(recipe.init))
            self.run.log.say(f"starting from {recipe.init}; fresh: {', '.join(fresh) or 'none'}")
        freeze_unused(network, stage)
        on_cpu = fabric.device.type == "cpu"
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        network = prepare_norms(network, self.batch_norm, fabric.world_size, on_cpu)
        optimizer = make_optimizer(network, stage.optimizer)
        self.model, self.optimizer = fabric.setup(network, optimizer)
        self.network = network
        self.average = moving_average(network, stage.ema) if stage.ema is not None else None
        if checkpoint is not None:
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            if self.average is not None and checkpoint["average"] is not None:
                self.average.module.load_state_dict(checkpoint["average"])
                self.average.n_averaged.fill_(checkpoint["average_updates"])
            torch.set_rng_state(checkpoint["random"]["torch"])


def _find_checkpoint(out: Path, resume: bool) -> dict[str, Any] | None:
    folder = out / "checkpoints"
    if resume:
        return latest_checkpoint(folder)
    if list_checkpoints(folder) or (out / MODEL).exists():
        raise InputError(
            f"{out} already holds a run: continue it with --resume, or choose another --out."
        )
    return None


def _beginning(
    run: TrainingRun, checkpoint: dict[str, Any] | None
) -> tuple[StepCounter, Weights | None]:
    """Where a run begins or goes on, and the weights of the stage before.

    Says what changed in the recipe since the checkpoint; refuses what cannot be continued.
    """
    recipe, log = run.recipe, run.log
    if checkpoint is None:
        if not run.options.resume:
            return StepCounter(next(iter(recipe.stages))), None
        counter, weights = after_finished_stages(run)
        log.say(f"{run.out} holds no checkpoint: beginning with stage {counter.stage}")
        return counter, weights
    counter = StepCounter(**checkpoint["counter"])
    old = make_recipe(checkpoint["recipe"], "the checkpoint's recipe")
    if old.network != recipe.network:
        raise InputError("the recipe's network differs from the run's: choose another --out.")
    if counter.stage not in recipe.stages:
        raise InputError(f"the run is in stage {counter.stage!r}, which the recipe lacks.")
    for key, before, after in changed_settings(old.model_dump(), recipe.model_dump()):
        log.say(f"recipe changed since the run began: {key} was {before}, is now {after}")
    run.validation = checkpoint["validation"]
    log.say(f"continuing after step {counter.step} of stage {counter.stage}")
    return counter, None
