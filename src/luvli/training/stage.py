"""One stage of a run: step after step until its epochs are done.

Read `StageTrainer.train` and `StageTrainer.step` first; the rest prepares them or writes down
what they did.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from luvli.data.streamed_crops import StreamedCrops
from luvli.errors import InputError
from luvli.network import LUVLi, build, load_weights_into
from luvli.network.grow import fitting_weights
from luvli.network.inference import CropPredictor, network_input
from luvli.progress import track
from luvli.training.batch import (
    Batch,
    TeacherLabel,
    load_batches,
    training_faces,
    validation_crops,
)
from luvli.training.checkpoint import random_states, restore_random_states, save_checkpoint
from luvli.training.distributed import (
    RunOptions,
    Stop,
    Stopped,
    network_threads,
    prepare_norms,
    set_training_mode,
)
from luvli.training.objective import StageLosses, freeze_unused, stage_losses
from luvli.training.optimizer import make_optimizer, moving_average, set_lr
from luvli.training.order import Sharded, StageOrder, faces_per_epoch
from luvli.training.recipe import Recipe
from luvli.training.relabel import relabel, shipped_or_path, teacher_labels
from luvli.training.run_log import Divergence, LossMeter, RunLog
from luvli.training.schedule import lr_factor
from luvli.training.sources import SourceFaces
from luvli.training.stage_model import (
    check_start,
    stage_norms,
    stage_path,
    trained_config,
    write_stage_model,
)
from luvli.training.validate import (
    ValidationMetrics,
    mean_shape_nme,
    predict_dataset,
    validation_metrics,
    validation_sheet,
)

LOG_SECONDS = 10.0
AGREE_STEPS = 10
"""several processes ask each other about stop signals every so many steps"""

Weights = dict[str, Tensor]


@dataclass
class TrainingRun:
    """What the stages of a run share."""

    recipe: Recipe
    out: Path
    options: RunOptions
    fabric: Any
    log: RunLog
    faces: dict[str, SourceFaces] = field(default_factory=dict)
    validation: dict[str, ValidationMetrics] = field(default_factory=dict)
    """latest metrics of each validation set"""


@dataclass
class StepCounter:
    """How far a run is."""

    stage: str
    step: int = 0
    """steps of the stage that are done"""
    global_step: int = 0
    """steps of the run that are done"""
    first_loss: float | None = None
    """mean loss at the start of the stage, for the runaway alarm"""

    @classmethod
    def from_checkpoint(cls, checkpoint: dict[str, Any]) -> StepCounter:
        return cls(**checkpoint["counter"])


class StageTrainer:
    """Everything one stage needs, ready to go on from `counter`.

    `weights` are those of the stage before; `checkpoint`, if the stage is continued, has all.
    """

    network: LUVLi
    model: Any
    """the network as Fabric wraps it"""
    optimizer: Any
    average: AveragedModel | None
    order: StageOrder

    def __init__(
        self,
        run: TrainingRun,
        counter: StepCounter,
        weights: Weights | None,
        checkpoint: dict[str, Any] | None,
    ) -> None:
        self.run, self.counter = run, counter
        self.recipe, self.fabric, self.log = run.recipe, run.fabric, run.log
        self.name = counter.stage
        self.stage = self.recipe.stages[self.name]
        self.config = self.recipe.stage_network(self.stage)
        self._make_data()
        self._make_network(weights, checkpoint)
        share = self.stage.batch_size // self.fabric.world_size
        torch.set_num_threads(network_threads(run.options.threads, self.config, share))
        self.meter = LossMeter(f"stage {self.name}", counter.first_loss)

    def train(self, stop: Stop) -> Weights:
        """All remaining steps -> the weights that the stage ends with."""
        counter, steps_per_epoch = self.counter, self.order.steps_per_epoch
        self.log.begin_stage(self.name, self.order.steps, counter.step)
        set_training_mode(self.network, stage_norms(self.stage))
        batches = load_batches(self.faces, self.order, self.run.options.workers)
        saved = logged = time.monotonic()
        while counter.step < self.order.steps:
            asked = time.perf_counter()
            batch = self.fabric.to_device(next(batches))
            waited = time.perf_counter() - asked
            lr = self.lr()
            losses = self.step(batch, lr)
            self.meter.add(losses, self.stage.batch_size, waited)
            counter.step += 1
            counter.global_step += 1

            epochs, within = divmod(counter.step, steps_per_epoch)
            epoch_ends, stopping = within == 0, self._must_stop(stop)
            now = time.monotonic()
            late = now - saved > 60 * self.recipe.checkpoint_minutes
            saving = stopping or epoch_ends or late
            if saving or now - logged > LOG_SECONDS:
                means = self.meter.flush(counter.global_step)  # raises if a loss is not a number
                epoch = epochs - epoch_ends
                self.log.progress(counter.global_step, epoch, counter.step, lr, means)
                logged = now
            else:
                self.log.advance(counter.step)
            last = counter.step == self.order.steps
            if epoch_ends and (last or epochs % self.recipe.validate_epochs == 0):
                self.validate(epochs - 1)
            if saving:
                self.save()
                saved = time.monotonic()
            if stopping:
                raise Stopped(
                    f"stopped by a signal after step {counter.step} of stage {self.name}: "
                    "continue with --resume"
                )
        self.log.end_stage()
        weights = {name: t.detach().cpu().clone() for name, t in self.result().items()}
        self.write_model(weights)
        return weights

    def step(self, batch: Batch, lr: float) -> StageLosses:
        """Learn from one batch."""
        set_lr(self.optimizer, lr)
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
        if self.average is not None:
            self.average.update_parameters(self.network)
        return losses

    def lr(self) -> float:
        """The learning rate of the next step."""
        epoch = self.counter.step / self.order.steps_per_epoch
        return self.stage.optimizer.lr * lr_factor(self.stage.schedule, epoch, self.stage.epochs)

    def result(self) -> Weights:
        """The weights that count: the average where there is one."""
        network = self.network if self.average is None else self.average.module
        return network.state_dict()

    def validate(self, epoch: int) -> None:
        """Metrics and a sheet of the held-out faces, by the first process."""
        if self.fabric.is_global_zero and self.watched:
            judged = build(self.config).to(self.fabric.device)
            judged.load_state_dict(self.result())
            shown = []
            for name, crops in self.watched.items():
                predictions = predict_dataset(CropPredictor(judged), crops)
                metrics = self.run.validation[name] = validation_metrics(
                    predictions,
                    self.config,
                    with_likelihood=self.stage.loss != "heatmap",
                    mean_shape=mean_shape_nme(self.faces.crops, crops),
                )
                self.log.validation(self.counter.global_step, epoch, name, metrics)
                shown.append(predictions)
            trained = trained_config(self.recipe, self.name, self.run.out, self.faces)
            sheet = validation_sheet(shown, trained.markup, trained.visibility_trained)
            self.log.sheet(self.counter.global_step, sheet)
        self.fabric.barrier()

    def save(self) -> None:
        """Write a checkpoint, unless the weights have stopped being numbers."""
        if not self.fabric.is_global_zero:
            return
        state = self.network.state_dict()
        if not all(torch.isfinite(t).all() for t in state.values() if t.is_floating_point()):
            raise Divergence(
                f"stage {self.name}: the weights are not numbers any more after step "
                f"{self.counter.global_step}: lower the learning rate or set clip_grad_norm."
            )
        self.counter.first_loss = self.meter.first
        save_checkpoint(
            self.run.out / "checkpoints",
            self.counter.global_step,
            {
                "counter": asdict(self.counter),
                "recipe": self.recipe.model_dump(mode="json"),
                "network": state,
                "optimizer": self.optimizer.state_dict(),
                "average": self.average.module.state_dict() if self.average else None,
                "average_updates": int(self.average.n_averaged) if self.average else 0,
                "random": random_states(),
                "validation": {name: asdict(m) for name, m in self.run.validation.items()},
            },
            self.recipe.keep_checkpoints,
        )

    def write_model(self, weights: Weights) -> None:
        """The stage's model file, by the first process."""
        if self.fabric.is_global_zero:
            steps, metrics = self.counter.global_step, self.run.validation
            path = write_stage_model(
                self.recipe, self.name, self.run.out, self.faces, weights, steps, metrics
            )
            self.log.say(f"stage {self.name} is finished: {path}")

    def _make_data(self) -> None:
        stage, fabric = self.stage, self.fabric
        if stage.batch_size % fabric.world_size:
            raise InputError(
                f"stages.{self.name}.batch_size is {stage.batch_size}, which {fabric.world_size} "
                "processes cannot share equally: choose a multiple."
            )
        with fabric.rank_zero_first(local=True):
            check_start(self.recipe, self.name, self.run.out)
            size = self.config.input_size
            faces = self._labelled_faces()
            self.faces = training_faces(self.recipe, stage, faces, self._teachers(faces), _shown)
            self.watched = validation_crops(self.recipe, size, self.run.faces, _shown)
        names = self.recipe.sources_of(stage)
        sizes = {name: len(c) for name, c in zip(names, self.faces.crops, strict=True)}
        counts = faces_per_epoch(sizes, stage.mixture, stage.epoch_faces)
        self.order = StageOrder(
            self.recipe.seed,
            list(sizes.values()),
            list(counts.values()),
            stage.batch_size,
            stage.epochs,
            fabric.global_rank,
            fabric.world_size,
            start=self.counter.step,
            shards=[
                Sharded(crops.records.sizes, crops.records.keep)
                if isinstance(crops, StreamedCrops)
                else None
                for crops in self.faces.crops
            ],
        )

    def _labelled_faces(self) -> dict[str, SourceFaces]:
        """The sources' faces; where the stage says so, labelled by the stage before."""
        faces = dict(self.run.faces)
        if self.stage.relabel:
            names = list(self.recipe.stages)
            teacher = stage_path(self.recipe, names[names.index(self.name) - 1], self.run.out)
            for name in self.stage.relabel:
                source = faces[name].source
                labelled = relabel(
                    faces[name].train,
                    teacher,
                    source.box_noise,
                    self.recipe.data.cache,
                    self.stage.relabel_jitter,
                )
                faces[name] = replace(faces[name], train=tuple(labelled))
                self.log.say(f"{name}: {len(labelled)} faces labelled by {teacher}")
        return faces

    def _teachers(
        self, faces: Mapping[str, SourceFaces]
    ) -> dict[str, dict[str, TeacherLabel]] | None:
        """What the stage's teacher says about the faces of each source, if it has one."""
        if self.stage.teacher is None:
            return None
        labels = {}
        for name in self.recipe.sources_of(self.stage):
            noise, cache = faces[name].source.box_noise, self.recipe.data.cache
            labels[name] = teacher_labels(faces[name].train, self.stage.teacher, noise, cache)
            self.log.say(f"{name}: {len(labels[name])} faces predicted by {self.stage.teacher}")
        return labels

    def _make_network(self, weights: Weights | None, checkpoint: dict[str, Any] | None) -> None:
        stage, fabric = self.stage, self.fabric
        torch.manual_seed(self.recipe.seed * 1000 + list(self.recipe.stages).index(self.name))
        network = build(
            self.config, activation_checkpointing=self.run.options.activation_checkpointing
        )
        if checkpoint is not None:
            network.load_state_dict(checkpoint["network"])
        elif weights is not None:
            network.load_state_dict(fitting_weights(weights, network), strict=False)
        elif self.recipe.init is not None:
            fresh = load_weights_into(network, shipped_or_path(self.recipe.init))
            self.log.say(f"starting from {self.recipe.init}; fresh: {', '.join(fresh) or 'none'}")
        freeze_unused(network, stage)
        on_cpu = fabric.device.type == "cpu"
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        network = prepare_norms(network, stage_norms(self.stage), fabric.world_size, on_cpu)
        optimizer = make_optimizer(network, stage.optimizer)
        self.model, self.optimizer = fabric.setup(network, optimizer)
        self.network = network
        self.average = moving_average(network, stage.ema) if stage.ema is not None else None
        if checkpoint is not None:
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            if self.average is not None and checkpoint["average"] is not None:
                self.average.module.load_state_dict(checkpoint["average"])
                self.average.n_averaged.fill_(checkpoint["average_updates"])
            restore_random_states(checkpoint["random"])

    def _must_stop(self, stop: Stop) -> bool:
        if self.fabric.world_size == 1:
            return stop.asked
        if self.counter.step % AGREE_STEPS:
            return False
        votes = torch.tensor(float(stop.asked), device=self.fabric.device)
        return bool(self.fabric.all_reduce(votes, reduce_op="sum") > 0)


def _shown(items: Iterable[Any]) -> Iterable[Any]:
    return track(items, "preparing images", unit="faces")
