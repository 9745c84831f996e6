"""The model file of a stage: its weights, what was learnt, and at last the failure head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from luvli import __version__
from luvli.calibration.failure_head import fit_failure_head
from luvli.calibration.measure import evenly
from luvli.calibration.model_file import ModelFile
from luvli.data.boxes import get_enlargement
from luvli.errors import InputError
from luvli.network import NetworkConfig, build, load_model, save_model
from luvli.progress import track
from luvli.training.batch import TrainingFaces, has_covered_landmarks, has_hidden_landmarks
from luvli.training.losses import LOSSES
from luvli.training.recipe import Recipe, Stage, TrainedHead
from luvli.training.run import StepCounter, TrainingRun
from luvli.training.sources import model_detector

FAILURE_FACES = 8000
"""training faces that are predicted where a failure stage does not say how many (`epoch_faces`)"""


def write_stage_model(
    run: TrainingRun, name: str, faces: TrainingFaces, weights: Mapping[str, Tensor], steps: int
) -> None:
    """Write the model file of a finished stage, `steps` steps after the run began."""
    recipe = run.recipe
    network = build(trained_config(run, name, faces))
    stage = recipe.stages[name]
    if stage.start_share is not None:
        start = load_model(run.start_path(name))[0].state_dict()
        weights = mixed_weights(weights, start, stage.start_share)
    network.load_state_dict(weights)
    info = {
        "name": recipe.name,
        "stage": name,
        "steps": steps,
        "licence": recipe.licence,
        "enlarge": get_enlargement(recipe.data.enlarge),
        "detector": model_detector(recipe.data),
        "validation": run.validation,
        "recipe": recipe.model_dump(mode="json"),
        "luvli": __version__,
    }
    path = run.model_path(name)
    save_model(path, network, info)
    run.log.say(f"stage {name} is finished: {path}")


def after_finished_stages(
    recipe: Recipe, out: Path
) -> tuple[StepCounter, dict[str, Tensor] | None]:
    """The first stage whose model is not in the folder yet, and the weights that it begins with.

    A run that has lost its checkpoints goes on from the model of its last finished stage, as
    exactly as with them.
    """
    names = list(recipe.stages)
    paths = [out / f"{name}.safetensors" for name in names[:-1]]
    finished = [place for place, path in enumerate(paths) if path.is_file()]
    if not finished:
        return StepCounter(names[0]), None
    last = finished[-1]
    network, info = load_model(paths[last])
    if info.get("recipe", {}).get("network") != recipe.network.model_dump(mode="json"):
        raise InputError(
            f"{paths[last]} is of a recipe with another network: choose another --out."
        )
    counter = StepCounter(names[last + 1], global_step=info["steps"])
    return counter, network.state_dict()


def trained_config(run: TrainingRun, name: str, faces: TrainingFaces) -> NetworkConfig:
    """The stage's network, saying which of its outputs mean something."""
    stage = run.recipe.stages[name]
    loss = LOSSES[stage.loss]
    visible = loss.trains_visibility and stage.use_visibility and has_hidden_landmarks(faces)
    covered = stage.occlusion_weight > 0 and has_covered_landmarks(faces)
    heads: dict[TrainedHead, tuple[str, bool]] = {
        "cholesky": ("covariance_trained", loss.trains_covariance),
        "visibility": ("visibility_trained", visible),
        "occlusion": ("occlusion_trained", covered),
    }
    start = load_model(run.start_path(name))[0].config if stage.train_only else None
    flags = {
        flag: getattr(start, flag) if keeps(stage, head) else trained
        for head, (flag, trained) in heads.items()
    }
    return run.recipe.stage_network(stage).model_copy(update=flags)


def mixed_weights(
    weights: Mapping[str, Tensor], start: Mapping[str, Tensor], share: float
) -> dict[str, Tensor]:
    """The mean of two sets of weights, `share` of it from `start`.

    Counters, and layers that `start` lacks or has in another shape, are those of `weights`.
    """
    return {
        name: (1 - share) * value + share * start[name]
        if value.is_floating_point() and name in start and start[name].shape == value.shape
        else value
        for name, value in weights.items()
    }


def keeps(stage: Stage, head: TrainedHead) -> bool:
    """Whether the stage leaves the outputs of a head as they were."""
    only = stage.train_only
    return bool(only) and "trunk" not in only and head not in only


def train_failure_head(run: TrainingRun, name: str) -> None:
    """A stage with `loss: failure`: the model of the stage before with a failure head.

    Training faces are predicted as they are and corrupted, and two layers on the bottlenecks learn
    which alignments failed (`luvli.calibration.failure_head`). The rest of the network stays as it
    is. The stage has no steps and no checkpoints: a run that was stopped in it begins it anew.
    """
    if not run.fabric.is_global_zero:
        return
    recipe, stage = run.recipe, run.recipe.stages[name]
    records = [record for part in recipe.sources_of(stage) for record in run.faces[part].train]
    labelled = [record for record in records if record.labelled.any()]
    trained = fit_failure_head(
        ModelFile.read(run.start_path(name)),
        evenly(labelled, stage.epoch_faces or FAILURE_FACES),
        seed=recipe.seed,
        progress=lambda items: track(items, f"stage {name}", unit="faces"),
    )
    path = run.model_path(name)
    replace(trained, notes=trained.notes | {"stage": name}).write(path)
    without = "" if trained.info.config.failure_head else ": too few alignments failed"
    run.log.say(f"stage {name} is finished{without}: {path}")
