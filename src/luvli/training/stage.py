"""One stage of a run: step after step until its epochs are done."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luvli import __version__
from luvli.data.boxes import get_enlargement
from luvli.errors import InputError
from luvli.network import LUVLi, build, load_weights_into, save_model
from luvli.progress import track
from luvli.training.average import WeightAverage
from luvli.training.checkpoint import random_states, restore_random_states, save_checkpoint
from luvli.training.distributed import RunOptions, prepare_norms, set_training_mode
from luvli.training.loader import StageOrder, batches
from luvli.training.meter import Divergence, Meter
from luvli.training.objective import freeze_unused, network_input, objective
from luvli.training.optimizer import make_optimizer, set_rate
from luvli.training.order import faces_per_epoch
from luvli.training.recipe import Recipe
from luvli.training.relabel import relabel, shipped_or_path
from luvli.training.run_log import Report
from luvli.training.schedule import rate_factor
from luvli.training.signals import Stop, Stopped
from luvli.training.sources import (
    Batch,
    SourceFaces,
    sees_hidden_landmarks,
    stage_faces,
    validation_crops,
)
from luvli.training.validate import figures, mean_shape_nme, predict_crops
from luvli.training.validation_sheet import contact_sheet

MODEL = "model.safetensors"
LOG_SECONDS = 10.0
AGREE_STEPS = 10
"""several processes ask each other about stop signals every so many steps"""

Weights = dict[str, Tensor]


@dataclass
class Run:
    """What the stages of a run share."""

    recipe: Recipe
    out: Path
    options: RunOptions
    fabric: Any
    report: Report
    faces: dict[str, SourceFaces] = field(default_factory=dict)
    results: dict[str, dict[str, float]] = field(default_factory=dict)
    """latest figures of each validation set"""


@dataclass
class Position:
    """How far a run is."""

    stage: str
    done: int = 0
    """steps of the stage"""
    total: int = 0
    """steps of the run"""
    first_loss: float | None = None
    """mean loss at the start of the stage, for the runaway alarm"""

    @classmethod
    def from_checkpoint(cls, checkpoint: dict[str, Any]) -> Position:
        return cls(**{name: checkpoint[name] for name in ("stage", "done", "total", "first_loss")})


class StageTrainer:
    """Everything one stage needs, ready to go on from `position`.

    `weights` are those of the stage before; `checkpoint`, if the stage is continued, has all.
    """

    def __init__(
        self,
        run: Run,
        position: Position,
        weights: Weights | None,
        checkpoint: dict[str, Any] | None,
    ) -> None:
        self.run, self.position = run, position
        self.recipe, self.fabric, self.report = run.recipe, run.fabric, run.report
        self.name = position.stage
        self.stage = self.recipe.stages[self.name]
        self.config = self.recipe.stage_network(self.stage)
        self._make_data()
        self._make_network(weights, checkpoint)
        self.meter = Meter(f"stage {self.name}", position.first_loss)

    def _make_data(self) -> None:
        stage, fabric = self.stage, self.fabric
        if stage.batch % fabric.world_size:
            raise InputError(
                f"stages.{self.name}.batch is {stage.batch}, which {fabric.world_size} processes "
                "cannot share equally: choose a multiple."
            )
        with fabric.rank_zero_first(local=True):
            size = self.config.input_size
            self.faces = stage_faces(self.recipe, stage, self._labelled_faces(), _shown)
            self.watched = validation_crops(self.recipe, size, self.run.faces, _shown)
        names = self.recipe.sources_of(stage)
        sizes = {name: len(c) for name, c in zip(names, self.faces.crops, strict=True)}
        counts = faces_per_epoch(sizes, stage.mixture, stage.epoch_faces)
        self.order = StageOrder(
            self.recipe.seed,
            list(sizes.values()),
            list(counts.values()),
            stage.batch,
            stage.epochs,
            fabric.global_rank,
            fabric.world_size,
        )
        self.order.start = self.position.done
        self.steps = stage.epochs * self.order.steps_per_epoch

    def _labelled_faces(self) -> dict[str, SourceFaces]:
        """The sources' faces; where the stage says so, labelled by the stage before."""
        faces = dict(self.run.faces)
        if self.stage.relabel:
            names = list(self.recipe.stages)
            teacher = self.run.out / f"{names[names.index(self.name) - 1]}.safetensors"
            for name in self.stage.relabel:
                source = faces[name].source
                labelled = relabel(
                    faces[name].train, teacher, source.box_noise, self.recipe.data.cache
                )
                faces[name] = replace(faces[name], train=tuple(labelled))
                self.report.say(f"{name}: {len(labelled)} faces labelled by {teacher}")
        return faces

    def _make_network(self, weights: Weights | None, checkpoint: dict[str, Any] | None) -> None:
        stage, fabric = self.stage, self.fabric
        torch.manual_seed(self.recipe.seed * 1000 + list(self.recipe.stages).index(self.name))
        network = build(self.config, recompute=self.run.options.recompute)
        if checkpoint is not None:
            network.load_state_dict(checkpoint["network"])
        elif weights is not None:
            take_fitting(network, weights)
        elif self.recipe.init is not None:
            fresh = load_weights_into(network, shipped_or_path(self.recipe.init))
            self.report.say(
                f"starting from {self.recipe.init}; fresh: {', '.join(fresh) or 'none'}"
            )
        freeze_unused(network, stage)
        on_cpu = fabric.device.type == "cpu"
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        network = prepare_norms(network, stage.batch_norm, fabric.world_size, on_cpu)
        optimizer = make_optimizer(network, stage.optimizer)
        self.model, self.optimizer = fabric.setup(network, optimizer)
        self.network: LUVLi = network
        self.average: WeightAverage | None = None
        if stage.ema is not None:
            self.average = WeightAverage(network.state_dict(), stage.ema)
        if checkpoint is not None:
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            if self.average is not None and checkpoint["average"] is not None:
                self.average.load(checkpoint["average"], checkpoint["average_updates"])
            restore_random_states(checkpoint["random"])

    def train(self, stop: Stop) -> Weights:
        """All remaining steps -> the weights that the stage ends with."""
        position, report = self.position, self.report
        report.begin_stage(self.name, self.steps, position.done)
        set_training_mode(self.network, self.stage.batch_norm)
        saved = logged = time.monotonic()
        source = batches(self.faces, self.order, self.run.options.workers)
        while position.done < self.steps:
            before = time.perf_counter()
            batch = self.fabric.to_device(next(source))
            waited = time.perf_counter() - before
            rate = self.step(batch)
            self.meter.add(self.parts, self.stage.batch, waited)
            epoch, within = divmod(position.done, self.order.steps_per_epoch)
            now = time.monotonic()
            stopping = self._must_stop(stop)
            saving = stopping or within == 0 or now - saved > 60 * self.recipe.checkpoint_minutes
            if saving or now - logged > LOG_SECONDS:
                means = self.meter.flush(position.total)  # raises if a loss was not a number
                report.progress(position.total, epoch - (within == 0), position.done, rate, means)
                logged = now
            else:
                report.advance(position.done)
            last = position.done == self.steps
            if within == 0 and (last or epoch % self.recipe.validate_epochs == 0):
                self.validate(epoch - 1)
            if saving:
                self.save()
                saved = time.monotonic()
            if stopping:
                raise Stopped(
                    f"stopped by a signal after step {position.done} of stage {self.name}: "
                    "continue with --resume"
                )
        report.end_stage()
        weights = {name: t.detach().cpu().clone() for name, t in self.result().items()}
        self.write_model(weights)
        return weights

    def step(self, batch: Batch) -> float:
        """Learn from one batch -> the learning rate that was used."""
        stage, position = self.stage, self.position
        epoch = position.done / self.order.steps_per_epoch
        rate = stage.optimizer.rate * rate_factor(stage.schedule, epoch, stage.epochs)
        set_rate(self.optimizer, rate)
        outputs = self.model(network_input(batch.images, self.config))
        loss, self.parts = objective(stage, self.config, outputs, batch)
        self.fabric.backward(loss)
        if stage.clip is not None:
            self.fabric.clip_gradients(
                self.model, self.optimizer, max_norm=stage.clip, error_if_nonfinite=False
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(self.network.state_dict())
        position.done += 1
        position.total += 1
        return rate

    def result(self) -> Weights:
        """The weights that count: the average where there is one."""
        return self.average.state if self.average is not None else self.network.state_dict()

    def validate(self, epoch: int) -> None:
        """Figures and a picture of the held-out faces, by the first process."""
        if self.fabric.is_global_zero and self.watched:
            judged = build(self.config).to(self.fabric.device)
            judged.load_state_dict(self.result())
            pictures = []
            for name, crops in self.watched.items():
                answers = predict_crops(judged, crops)
                numbers = figures(answers, self.config, self.stage.loss != "heatmap")
                numbers["mean_shape_nme_box"] = mean_shape_nme(self.faces.crops, crops)
                self.run.results[name] = numbers
                self.report.validation(self.position.total, epoch, name, numbers)
                pictures.append(answers)
            sheet = contact_sheet(pictures, self.config.markup, self._visibility_is_trained())
            self.report.picture(self.position.total, sheet)
        self.fabric.barrier()

    def save(self) -> None:
        """Write a checkpoint, unless the weights have stopped being numbers."""
        if not self.fabric.is_global_zero:
            return
        state = self.network.state_dict()
        if not all(torch.isfinite(t).all() for t in state.values() if t.is_floating_point()):
            raise Divergence(
                f"stage {self.name}: the weights are not numbers any more after step "
                f"{self.position.total}: lower the learning rate or set clip."
            )
        self.position.first_loss = self.meter.first
        save_checkpoint(
            self.run.out / "checkpoints",
            self.position.total,
            {
                **asdict(self.position),
                "recipe": self.recipe.model_dump(mode="json"),
                "network": state,
                "optimizer": self.optimizer.state_dict(),
                "average": self.average.state if self.average else None,
                "average_updates": self.average.updates if self.average else 0,
                "random": random_states(),
                "results": self.run.results,
            },
            self.recipe.keep,
        )

    def write_model(self, weights: Weights) -> None:
        """The stage's model file, and the run's if this was its last stage."""
        if not self.fabric.is_global_zero:
            return
        network = build(
            self.config.model_copy(update={"visibility_trained": self._visibility_is_trained()})
        )
        network.load_state_dict(weights)
        info = {
            "name": self.recipe.name,
            "stage": self.name,
            "steps": self.position.total,
            "licence": self.recipe.licence,
            "enlarge": get_enlargement(self.recipe.data.enlarge),
            "validation": self.run.results,
            "recipe": self.recipe.model_dump(mode="json"),
            "luvli": __version__,
        }
        last = self.name == list(self.recipe.stages)[-1]
        path = self.run.out / (MODEL if last else f"{self.name}.safetensors")
        save_model(path, network, info)
        self.report.say(f"stage {self.name} is finished: {path}")

    def _visibility_is_trained(self) -> bool:
        return (
            self.stage.loss != "heatmap"
            and self.stage.use_visibility
            and sees_hidden_landmarks(self.faces)
        )

    def _must_stop(self, stop: Stop) -> bool:
        if self.fabric.world_size == 1:
            return stop.asked
        if self.position.done % AGREE_STEPS:
            return False
        votes = torch.tensor(float(stop.asked), device=self.fabric.device)
        return bool(self.fabric.all_reduce(votes, reduce_op="sum") > 0)


def _shown(items: Iterable[Any]) -> Iterable[Any]:
    return track(items, "preparing pictures", unit="faces")


def take_fitting(network: LUVLi, weights: Weights) -> None:
    """The weights of the stage before; CEN and VEN start afresh where the crop size changed."""
    wanted = network.state_dict()
    fitting = {name: t for name, t in weights.items() if wanted[name].shape == t.shape}
    network.load_state_dict(fitting, strict=False)
