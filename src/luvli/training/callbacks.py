"""What happens beside the learning: averaging, stopping, logging, validating, saving.

    class Loud(Callback):
        def step_done(self, stage, step):
            print(stage.counter.step, float(step.losses.total))

    train(recipe, out, callbacks=[Loud()])

The loop calls them in the order of `default_callbacks`, and then the user's.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from luvli.errors import InputError
from luvli.network import build
from luvli.network.inference import CropPredictor
from luvli.training.checkpoint import random_states, save_checkpoint
from luvli.training.distributed import StopSignal
from luvli.training.losses import LOSSES, StageLosses
from luvli.training.stage_model import trained_config
from luvli.training.validate import (
    mean_shape_nme,
    predict_dataset,
    validation_metrics,
    validation_sheet,
)

if TYPE_CHECKING:
    from luvli.training.loop import StageTrainer

LOG_SECONDS = 10.0
AGREE_STEPS = 10
"""several processes ask each other about stop signals every so many steps"""
RUNAWAY = 10.0
"""Divergence is a mean loss above the first one by this many times its size, or this much: a
log-likelihood may begin near zero."""


class Divergence(InputError):
    """The training diverges; the message names the step."""


class StepResult(NamedTuple):
    """What the loop knows about a step that is done."""

    losses: StageLosses
    lr: float
    waited: float
    """seconds spent waiting for data"""


class Callback:
    """Override what you need."""

    def stage_begins(self, stage: StageTrainer) -> None:
        """Before the first step of a stage, or the first one after it was resumed."""

    def step_done(self, stage: StageTrainer, step: StepResult) -> None:
        """After each step, which `stage.counter` counts already."""

    def stage_ends(self, stage: StageTrainer) -> None:
        """After the last step of a stage."""


class EMA(Callback):
    """Exponential moving average of the weights, where the stage has one."""

    def step_done(self, stage: StageTrainer, step: StepResult) -> None:
        if stage.average is not None:
            stage.average.update_parameters(stage.network)


class Stop(Callback):
    """Ends the run after this step, and after a checkpoint, when a signal came to any process."""

    def __init__(self, signal: StopSignal) -> None:
        self.signal = signal

    def step_done(self, stage: StageTrainer, step: StepResult) -> None:
        if stage.fabric.world_size == 1:
            stage.stopping = self.signal.asked
        elif stage.counter.step % AGREE_STEPS == 0:
            votes = torch.tensor(float(self.signal.asked), device=stage.fabric.device)
            stage.stopping = bool(stage.fabric.all_reduce(votes, reduce_op="sum") > 0)


class LossMeter:
    """Collects the parts of each step without waiting for the device; `flush` reads them."""

    def __init__(self, where: str, first: float | None = None) -> None:
        self.where = where
        self.first = first
        """mean loss of the first flush: what a diverging loss is compared with"""
        self.parts: list[dict[str, Tensor]] = []
        self._faces = 0
        self._waited = 0.0
        self._since = time.perf_counter()

    def add(self, losses: StageLosses, faces: int, waited: float) -> None:
        """One step: its losses, faces seen, seconds spent waiting for data."""
        self.parts.append(losses.logged())
        self._faces += faces
        self._waited += waited

    def flush(self, step: int) -> dict[str, float]:
        """Means since the last flush, faces per second, share of time spent waiting.

        `step` is the number of steps done; raises `Divergence` when one was not finite.
        """
        parts, self.parts = self.parts, []
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
                f"{self.where}: the loss has grown to {means['loss']:.4g} by step {step}, from "
                f"{self.first:.4g} at the start: lower the learning rate or set clip_grad_norm."
            )
        seconds = max(time.perf_counter() - self._since, 1e-9)
        means["faces_per_second"] = self._faces / seconds
        means["waiting"] = self._waited / seconds
        self._faces, self._waited, self._since = 0, 0.0, time.perf_counter()
        return means


class Log(Callback):
    """Means of the last steps, every ten seconds and after every epoch."""

    def stage_begins(self, stage: StageTrainer) -> None:
        self.meter = LossMeter(f"stage {stage.name}", stage.counter.first_loss)
        stage.run.log.begin_stage(stage.name, stage.order.steps, stage.counter.step)
        self.last = time.monotonic()

    def step_done(self, stage: StageTrainer, step: StepResult) -> None:
        self.meter.add(step.losses, stage.stage.batch_size, step.waited)
        self.lr = step.lr
        if stage.epoch_ended or time.monotonic() - self.last > LOG_SECONDS:
            self.flush(stage)
        else:
            stage.run.log.advance(stage.counter.step)

    def flush(self, stage: StageTrainer) -> None:
        """Write what has been collected; raises `Divergence` if a loss is not a number."""
        if not self.meter.parts:
            return
        counter = stage.counter
        means = {"lr": self.lr, **self.meter.flush(counter.global_step)}
        counter.first_loss = self.meter.first
        stage.run.log.progress(counter.global_step, stage.epoch, counter.step, means)
        self.last = time.monotonic()

    def stage_ends(self, stage: StageTrainer) -> None:
        stage.run.log.end_stage()


class Validate(Callback):
    """Metrics and a sheet of the held-out faces after every `validate_epochs`, by the first
    process."""

    def step_done(self, stage: StageTrainer, step: StepResult) -> None:
        if not stage.epoch_ended:
            return
        last = stage.counter.step == stage.order.steps
        if last or (stage.epoch + 1) % stage.run.recipe.validate_epochs == 0:
            if stage.fabric.is_global_zero and stage.watched:
                self.validate(stage)
            stage.fabric.barrier()

    def validate(self, stage: StageTrainer) -> None:
        """Run the weights of the moment over all validation sets."""
        run, step = stage.run, stage.counter.global_step
        network = build(stage.config).to(stage.fabric.device)
        network.load_state_dict(stage.result())
        likelihood = LOSSES[stage.stage.loss].trains_visibility
        predictions = []
        for name, crops in stage.watched.items():
            predictions.append(predict_dataset(CropPredictor(network), crops))
            mean_shape = mean_shape_nme(stage.faces.crops, crops)
            metrics = validation_metrics(predictions[-1], stage.config, likelihood, mean_shape)
            run.validation[name] = metrics
            run.log.validation(step, stage.epoch, name, metrics)
        config = trained_config(run, stage.name, stage.faces)
        sheet = validation_sheet(predictions, config.markup, config.visibility_trained)
        run.log.sheet(step, sheet)


class Checkpoint(Callback):
    """Saves everything that the run needs to go on: after every epoch, every
    `checkpoint_minutes`, and before it stops."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def stage_begins(self, stage: StageTrainer) -> None:
        self.saved = time.monotonic()

    def step_done(self, stage: StageTrainer, step: StepResult) -> None:
        late = time.monotonic() - self.saved > 60 * stage.run.recipe.checkpoint_minutes
        if stage.epoch_ended or stage.stopping or late:
            self.log.flush(stage)  # raises if the loss diverges: nothing is saved then
            if stage.fabric.is_global_zero:
                self.save(stage)
            self.saved = time.monotonic()

    def save(self, stage: StageTrainer) -> None:
        """Write a checkpoint, unless the weights have stopped being numbers."""
        run, average = stage.run, stage.average
        weights = stage.network.state_dict()
        if not all(torch.isfinite(t).all() for t in weights.values() if t.is_floating_point()):
            raise Divergence(
                f"stage {stage.name}: the weights are not numbers any more after step "
                f"{stage.counter.global_step}: lower the learning rate or set clip_grad_norm."
            )
        state = {
            "counter": asdict(stage.counter),
            "recipe": run.recipe.model_dump(mode="json"),
            "network": weights,
            "optimizer": stage.optimizer.state_dict(),
            "average": average.module.state_dict() if average else None,
            "average_updates": int(average.n_averaged) if average else 0,
            "random": random_states(),
            "validation": run.validation,
        }
        folder, step = run.out / "checkpoints", stage.counter.global_step
        save_checkpoint(folder, step, state, run.recipe.keep_checkpoints)


def default_callbacks(signal: StopSignal) -> list[Callback]:
    """Those of every run, in their order."""
    log = Log()
    return [EMA(), Stop(signal), log, Validate(), Checkpoint(log)]
