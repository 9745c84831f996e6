"""What happens beside the learning: averaging, stopping, validating, saving; logging is `Log`.

    class Loud(Callback):
        def step_done(self, stage, step):
            print(stage.counter.step, float(step.losses.total))

    train(recipe, out, callbacks=[Loud()])

The loop calls those of every run (EMA, Stop, Log, Validate, Checkpoint), and then the user's.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import torch

from luvli.errors import InputError
from luvli.network import build
from luvli.network.inference import CropPredictor
from luvli.training.checkpoint import save_checkpoint
from luvli.training.losses import StageLosses
from luvli.training.run import StopSignal
from luvli.training.validate import (
    mean_shape_nme,
    predict_dataset,
    validation_metrics,
    validation_sheet,
)

if TYPE_CHECKING:
    from luvli.training.loop import StageTrainer

AGREE_STEPS = 10
"""several processes ask each other about stop signals every so many steps"""


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


class Validate(Callback):
    """Metrics and a sheet of the held-out faces after every `validate_epochs`, by the first
    process."""

    def step_done(self, stage: StageTrainer, step: StepResult) -> None:
        last = stage.counter.step == stage.order.steps
        due = last or (stage.epoch + 1) % stage.run.recipe.validate_epochs == 0
        if stage.epoch_ended and due:
            if stage.fabric.is_global_zero and stage.watched:
                self.validate(stage)
            stage.fabric.barrier()

    def validate(self, stage: StageTrainer) -> None:
        """Run the weights of the moment over all validation sets."""
        run = stage.run
        check_finite(stage)
        network = build(stage.trained).to(stage.fabric.device)
        network.load_state_dict(stage.result())
        model = CropPredictor(network.eval())
        predictions = {name: predict_dataset(model, crops) for name, crops in stage.watched.items()}
        for name, crops in stage.watched.items():
            metrics = validation_metrics(predictions[name].labelled)
            metrics["mean_shape_nme_vis_box"] = mean_shape_nme(stage.faces.crops, crops)
            run.validation[name] = metrics
            run.log.validation(stage, name, metrics)
        run.log.sheet(stage, validation_sheet(list(predictions.values())))


class Checkpoint(Callback):
    """Saves everything that the run needs to go on: after every epoch, every
    `checkpoint_minutes`, and before it stops."""

    def stage_begins(self, stage: StageTrainer) -> None:
        self.saved = time.monotonic()

    def step_done(self, stage: StageTrainer, step: StepResult) -> None:
        late = time.monotonic() - self.saved > 60 * stage.run.recipe.checkpoint_minutes
        if stage.epoch_ended or stage.stopping or late:
            stage.run.log.flush(stage)  # raises if the loss diverges: nothing is saved then
            if stage.fabric.is_global_zero:
                self.save(stage)
            self.saved = time.monotonic()

    def save(self, stage: StageTrainer) -> None:
        """Write a checkpoint, unless the weights have stopped being numbers."""
        run, average = stage.run, stage.average
        check_finite(stage)
        state = {
            "counter": asdict(stage.counter),
            "recipe": run.recipe.model_dump(mode="json"),
            "network": stage.network.state_dict(),
            "optimizer": stage.optimizer.state_dict(),
            "average": average.module.state_dict() if average else None,
            "average_updates": int(average.n_averaged) if average else 0,
            # data order and augmentation need none: they are functions of seed and step
            "random": {"torch": torch.get_rng_state()},
            "validation": run.validation,
        }
        folder, step = run.out / "checkpoints", stage.counter.global_step
        save_checkpoint(folder, step, state, run.recipe.keep_checkpoints)


def check_finite(stage: StageTrainer) -> None:
    """Raise `Divergence` if weights are not numbers any more."""
    weights = stage.network.state_dict().values()
    if not all(torch.isfinite(t).all() for t in weights if t.is_floating_point()):
        raise Divergence(
            f"stage {stage.name}: the weights are not numbers any more after step "
            f"{stage.counter.global_step}: lower the learning rate or set clip_grad_norm."
        )
