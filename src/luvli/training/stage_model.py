"""The model file of a stage: its weights, and what was learnt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from luvli import __version__
from luvli.data.boxes import get_enlargement
from luvli.errors import InputError
from luvli.network import NetworkConfig, build, load_model, save_model
from luvli.network.model_info import ModelInfo
from luvli.training.batch import TrainingFaces, has_covered_landmarks, has_hidden_landmarks
from luvli.training.losses import LOSSES
from luvli.training.recipe import Stage, TrainedHead
from luvli.training.run import TrainingRun
from luvli.training.sources import model_detector, model_file


def write_stage_model(
    run: TrainingRun, name: str, faces: TrainingFaces, weights: Mapping[str, Tensor], steps: int
) -> None:
    """Write the model file of a finished stage, `steps` steps after the run began."""
    recipe = run.recipe
    network = build(trained_config(run, name, faces))
    network.load_state_dict(weights)
    # where locations and covariances stay what they were, so does their calibration
    before = starting_model(run, name)[1] if keeps(recipe.stages[name], "cholesky") else {}
    info = {
        **before,
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


def trained_config(run: TrainingRun, name: str, faces: TrainingFaces) -> NetworkConfig:
    """The stage's network, saying which of its outputs mean something."""
    stage = run.recipe.stages[name]
    loss = LOSSES[stage.loss]
    visible = loss.trains_visibility and stage.use_visibility and has_hidden_landmarks(faces)
    heads: dict[TrainedHead, tuple[str, bool]] = {
        "cholesky": ("covariance_trained", loss.trains_covariance),
        "visibility": ("visibility_trained", visible),
        "occlusion": (
            "occlusion_trained",
            stage.occlusion_weight > 0 and has_covered_landmarks(faces),
        ),
    }
    flags = {
        flag: getattr(starting_model(run, name)[0], flag) if keeps(stage, head) else trained
        for head, (flag, trained) in heads.items()
    }
    return run.recipe.stage_network(stage).model_copy(update=flags)


def starting_model(run: TrainingRun, name: str) -> tuple[NetworkConfig, dict[str, Any]]:
    """Configuration and info of the file with the weights that the stage began with."""
    names = list(run.recipe.stages)
    place = names.index(name)
    if place == 0 and run.recipe.init is None:
        raise InputError(f"stage {name} begins with fresh weights: set init to a model file.")
    path = run.model_path(names[place - 1]) if place else model_file(str(run.recipe.init))
    network, info = load_model(path)
    return network.config, info


def check_start(run: TrainingRun, name: str) -> None:
    """Refuse to add to a finished network that looks at other crops."""
    recipe = run.recipe
    if keeps(recipe.stages[name], "cholesky"):
        config, info = starting_model(run, name)
        known = ModelInfo.from_training(name, config, info)
        ours = get_enlargement(recipe.data.enlarge)
        if known.enlarge != ours or known.config.input_size != recipe.network.input_size:
            raise InputError(
                f"the network that stages.{name} adds to looks at crops of {config.input_size} "
                f"pixels, {known.enlarge:g} times the box, the recipe at others: set "
                "network.input_size and data.enlarge to its own."
            )


def keeps(stage: Stage, head: TrainedHead) -> bool:
    """Whether the stage leaves the outputs of a head as they were."""
    only = stage.train_only
    return bool(only) and "trunk" not in only and head not in only
