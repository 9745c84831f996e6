"""The model file of a stage: its weights, and what was learnt and kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from luvli import __version__
from luvli.data.boxes import get_enlargement
from luvli.errors import InputError
from luvli.network import NetworkConfig, build, load_model, save_model
from luvli.network.model_info import ModelInfo
from luvli.training.batch import TrainingFaces, has_covered_landmarks, has_hidden_landmarks
from luvli.training.recipe import BatchNorm, Recipe, Stage, TrainedHead
from luvli.training.relabel import shipped_or_path
from luvli.training.sources import model_detector
from luvli.training.validate import ValidationMetrics

MODEL = "model.safetensors"
"""the file of a run's last stage; the others are named after their stage"""


def stage_path(recipe: Recipe, name: str, out: Path) -> Path:
    """The model file of a stage."""
    last = name == list(recipe.stages)[-1]
    return out / (MODEL if last else f"{name}.safetensors")


def stage_norms(stage: Stage) -> BatchNorm:
    """How the stage treats batch norms: where the trunk is kept, so are its statistics."""
    kept = stage.train_only and "trunk" not in stage.train_only
    return "frozen" if kept else stage.batch_norm


def write_stage_model(
    recipe: Recipe,
    name: str,
    out: Path,
    faces: TrainingFaces,
    weights: Mapping[str, Tensor],
    steps: int,
    validation: Mapping[str, ValidationMetrics],
) -> Path:
    """Write the model file of a finished stage."""
    stage = recipe.stages[name]
    network = build(trained_config(recipe, name, out, faces))
    network.load_state_dict(weights)
    # where locations and covariances stayed what they were, so does what is known of them, the
    # calibration for instance
    kept = starting_model(recipe, name, out)[1] if _keeps(stage, "cholesky") else {}
    info = {
        **kept,
        "name": recipe.name,
        "stage": name,
        "steps": steps,
        "licence": recipe.licence,
        "enlarge": get_enlargement(recipe.data.enlarge),
        "detector": model_detector(recipe.data),
        "validation": {set_name: m.known() for set_name, m in validation.items()},
        "recipe": recipe.model_dump(mode="json"),
        "luvli": __version__,
    }
    path = stage_path(recipe, name, out)
    save_model(path, network, info)
    return path


def trained_config(recipe: Recipe, name: str, out: Path, faces: TrainingFaces) -> NetworkConfig:
    """The stage's network, saying which of its outputs mean something."""
    stage = recipe.stages[name]
    if _keeps(stage, "visibility"):
        visibility = starting_model(recipe, name, out)[0].visibility_trained
    else:
        visible = stage.loss != "heatmap" and stage.use_visibility
        visibility = visible and has_hidden_landmarks(faces)
    if _keeps(stage, "occlusion"):
        occlusion = starting_model(recipe, name, out)[0].occlusion_trained
    else:
        occlusion = stage.occlusion_weight > 0 and has_covered_landmarks(faces)
    if _keeps(stage, "cholesky"):
        covariance = starting_model(recipe, name, out)[0].covariance_trained
    else:
        covariance = stage.loss == "luvli"
    trained = {
        "covariance_trained": covariance,
        "visibility_trained": visibility,
        "occlusion_trained": occlusion,
    }
    return recipe.stage_network(stage).model_copy(update=trained)


def starting_model(recipe: Recipe, name: str, out: Path) -> tuple[NetworkConfig, dict[str, Any]]:
    """Configuration and info of the file with the weights that the stage began with."""
    names = list(recipe.stages)
    place = names.index(name)
    if place == 0 and recipe.init is None:
        raise InputError(f"stage {name} begins with fresh weights: set init to a model file.")
    path = stage_path(recipe, names[place - 1], out) if place else shipped_or_path(str(recipe.init))
    network, info = load_model(path)
    return network.config, info


def check_start(recipe: Recipe, name: str, out: Path) -> None:
    """Refuse to add to a finished network that looks at other crops."""
    if _keeps(recipe.stages[name], "cholesky"):
        config, info = starting_model(recipe, name, out)
        known = ModelInfo.from_training(name, config, info)
        ours = get_enlargement(recipe.data.enlarge)
        if known.enlarge != ours or known.config.input_size != recipe.network.input_size:
            raise InputError(
                f"the network that stages.{name} adds to looks at crops of {config.input_size} "
                f"pixels, {known.enlarge:g} times the box, the recipe at others: set "
                "network.input_size and data.enlarge to its own."
            )


def _keeps(stage: Stage, head: TrainedHead) -> bool:
    """Whether the stage leaves what a head says as it was."""
    only = stage.train_only
    return bool(only) and "trunk" not in only and head not in only
