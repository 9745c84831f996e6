"""What a stage learns from, and the model file that it ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from luvli import __version__
from luvli.calibration.failure_head import fit_failure_head
from luvli.calibration.measure import evenly
from luvli.calibration.model_file import ModelFile
from luvli.data.augment import Augmentation
from luvli.data.boxes import get_enlargement
from luvli.data.dataset import CropDataset
from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.network import NetworkConfig, build, load_model, save_model
from luvli.progress import track
from luvli.training.batch import TrainingFaces
from luvli.training.losses import LOSSES
from luvli.training.order import StageOrder, faces_per_epoch
from luvli.training.recipe import Recipe, Stage, TrainedHead
from luvli.training.relabel import relabel, teacher_labels
from luvli.training.run import StepCounter, TrainingRun
from luvli.training.sources import SourceFaces, load_source, model_detector, name_hash

FAILURE_FACES = 8000
"""training faces that are predicted where a failure stage does not say how many (`epoch_faces`)"""


def load_faces(run: TrainingRun, stage: str) -> None:
    """Add the sources of a stage to the run's faces, where they are not there yet.

    Not all at once: faces can be labelled by the model of an earlier stage, and rendered ones can
    wear the skin of such faces.
    """
    recipe = run.recipe
    sources = {
        name: source.model_copy(update={"relabel": str(run.model_path(source.labeller))})
        if source.labeller
        else source
        for name, source in recipe.data.sources.items()
    }
    data = recipe.data.model_copy(update={"sources": sources})
    for name in recipe.sources_of(recipe.stages[stage]):
        if name in run.faces:
            continue
        with run.fabric.rank_zero_first(local=True):
            part = load_source(name, sources[name], data, recipe.network, run.options.threads)
        run.faces[name] = part
        away = f", {len(part.held_out)} held out" if part.held_out else ""
        run.log.say(f"{name}: {len(part.train)} faces to learn from{away}")
        if len(part.held_out) > len(part.train):
            run.log.say(
                f"{name}: more faces are held out than are left to learn from; "
                f"--set data.sources.{name}.hold_out=0.1 holds out a tenth"
            )


def stage_data(
    run: TrainingRun, name: str, start: int
) -> tuple[TrainingFaces, dict[str, CropDataset], StageOrder]:
    """The augmented crops of a stage, plain ones of held-out faces by their source, and the order
    of the former from step `start` on."""
    recipe, fabric = run.recipe, run.fabric
    stage, cache = recipe.stages[name], recipe.data.cache
    if stage.batch_size % fabric.world_size:
        raise InputError(
            f"stages.{name}.batch_size is {stage.batch_size}, which {fabric.world_size} "
            "processes cannot share equally: choose a multiple."
        )
    parts = {source: run.faces[source] for source in recipe.sources_of(stage)}
    teachers = None
    with fabric.rank_zero_first(local=True):
        for source in stage.relabel:
            part, before = parts[source], run.start_path(name)
            labelled = tuple(relabel(part.train, before, part.source, cache))
            parts[source] = replace(part, train=labelled)
            run.log.say(f"{source}: {len(labelled)} faces labelled by {before}")
        if stage.teacher is not None:
            teachers = {
                source: teacher_labels(part.train, stage.teacher, part.source, cache)
                for source, part in parts.items()
            }
        faces = training_faces(recipe, stage, parts, teachers)
        watched = validation_crops(recipe, recipe.stage_network(stage).input_size, run.faces)
    sizes = dict(zip(parts, map(len, faces.crops), strict=True))
    counts = faces_per_epoch(sizes, stage.mixture, stage.epoch_faces)
    order = StageOrder(
        recipe.seed,
        list(sizes.values()),
        list(counts.values()),
        stage.batch_size,
        stage.epochs,
        fabric.global_rank,
        fabric.world_size,
        start,
    )
    return faces, watched, order


def training_faces(
    recipe: Recipe,
    stage: Stage,
    faces: Mapping[str, SourceFaces],
    teachers: Mapping[str, Mapping[str, FaceLandmarks]] | None = None,
) -> TrainingFaces:
    """The augmented crops of one stage; `teachers`: predictions for each source, by face id."""
    names, size = recipe.sources_of(stage), recipe.stage_network(stage).input_size
    # every source has random streams of its own, whatever its place in a mixture
    seeds = [(recipe.seed + int(name_hash(name)[:7], 16)) % 2**31 for name in names]
    crops = [
        _crops(recipe, faces[name], size, stage.augmentation, seed)
        for name, seed in zip(names, seeds, strict=True)
    ]
    labels = [teachers[name] for name in names] if teachers else None
    return TrainingFaces(crops, [faces[name].source for name in names], labels)


def validation_crops(
    recipe: Recipe, size: int, faces: Mapping[str, SourceFaces]
) -> dict[str, CropDataset]:
    """Plain crops of the held-out faces and of the sets that are only watched."""
    watched = {
        name: replace(part, train=part.held_out) for name, part in faces.items() if part.held_out
    }
    for name, source in recipe.data.validation.items():
        whole = source.model_copy(update={"hold_out": 0})
        watched[name] = load_source(name, whole, recipe.data, recipe.network)
    plain = Augmentation.recipe("none")
    return {name: _crops(recipe, part, size, plain) for name, part in watched.items()}


def _crops(
    recipe: Recipe, part: SourceFaces, size: int, augmentation: Augmentation, seed: int = 0
) -> CropDataset:
    return CropDataset(
        part.train,
        size,
        enlarge=recipe.data.enlarge,
        augmentation=augmentation,
        box_noise=part.source.box_noise,
        convention=recipe.network.crop,
        seed=seed,
        cache=recipe.data.cache_crops and (recipe.data.cache or True),
        skip_bad=part.source.skip_bad,
        track=lambda items: track(items, "preparing images", unit="faces"),
    )


# -- the model file --------------------------------------------------------------------------


def trained_config(run: TrainingRun, name: str, faces: TrainingFaces) -> NetworkConfig:
    """The stage's network, saying which of its outputs mean something."""
    stage = run.recipe.stages[name]
    loss = LOSSES[stage.loss]
    visible = loss.trains_visibility and stage.use_visibility and faces.any_hidden()
    covered = stage.occlusion_weight > 0 and faces.any_covered()
    heads: dict[TrainedHead, tuple[str, bool]] = {
        "cholesky": ("covariance_trained", loss.trains_covariance),
        "visibility": ("visibility_trained", visible),
        "occlusion": ("occlusion_trained", covered),
    }
    start = load_model(run.start_path(name))[0].config if stage.train_only else None
    flags = {
        flag: getattr(start, flag) if stage.keeps(head) else trained
        for head, (flag, trained) in heads.items()
    }
    return run.recipe.stage_network(stage).model_copy(update=flags)


def write_stage_model(
    run: TrainingRun, name: str, config: NetworkConfig, weights: Mapping[str, Tensor], steps: int
) -> None:
    """Write the model file of a finished stage, `steps` steps after the run began."""
    recipe, network = run.recipe, build(config)
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


def after_finished_stages(run: TrainingRun) -> tuple[StepCounter, dict[str, Tensor] | None]:
    """The first stage whose model is not in the folder yet, and the weights that it begins with.

    A run that has lost its checkpoints goes on from the model of its last finished stage, as
    exactly as with them.
    """
    names = list(run.recipe.stages)
    finished = [name for name in names[:-1] if run.model_path(name).is_file()]
    if not finished:
        return StepCounter(names[0]), None
    path = run.model_path(finished[-1])
    network, info = load_model(path)
    if info.get("recipe", {}).get("network") != run.recipe.network.model_dump(mode="json"):
        raise InputError(f"{path} is of a recipe with another network: choose another --out.")
    counter = StepCounter(names[names.index(finished[-1]) + 1], global_step=info["steps"])
    return counter, network.state_dict()


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
