"""From the recipe to the crops and the order of one stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from luvli.data.augment import Augmentation
from luvli.data.dataset import CropDataset
from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.progress import track
from luvli.training.batch import TrainingFaces
from luvli.training.order import StageOrder, faces_per_epoch
from luvli.training.recipe import Recipe, Stage
from luvli.training.relabel import relabel, teacher_labels
from luvli.training.run import TrainingRun
from luvli.training.sources import SourceFaces, load_source, name_hash


class StageData(NamedTuple):
    """What one stage learns from and is watched on."""

    faces: TrainingFaces
    watched: dict[str, CropDataset]
    """plain crops of held-out faces and of validation sets, by name"""
    order: StageOrder


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


def stage_data(run: TrainingRun, name: str, start: int) -> StageData:
    """The crops of a stage and their order from step `start` on."""
    recipe, fabric = run.recipe, run.fabric
    stage = recipe.stages[name]
    if stage.batch_size % fabric.world_size:
        raise InputError(
            f"stages.{name}.batch_size is {stage.batch_size}, which {fabric.world_size} "
            "processes cannot share equally: choose a multiple."
        )
    cache = recipe.data.cache
    with fabric.rank_zero_first(local=True):
        parts = {source: run.faces[source] for source in recipe.sources_of(stage)}
        for source in stage.relabel:
            part, before = parts[source], run.start_path(name)
            labelled = tuple(relabel(part.train, before, part.source, cache))
            parts[source] = replace(part, train=labelled)
            run.log.say(f"{source}: {len(labelled)} faces labelled by {before}")
        teachers = None
        if stage.teacher is not None:
            teachers = {
                source: teacher_labels(part.train, stage.teacher, part.source, cache)
                for source, part in parts.items()
            }
        faces = training_faces(recipe, stage, parts, teachers)
        size = recipe.stage_network(stage).input_size
        watched = validation_crops(recipe, size, run.faces)
    sizes = dict(zip(recipe.sources_of(stage), map(len, faces.crops), strict=True))
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
    return StageData(faces, watched, order)


def training_faces(
    recipe: Recipe,
    stage: Stage,
    faces: Mapping[str, SourceFaces],
    teachers: Mapping[str, Mapping[str, FaceLandmarks]] | None = None,
) -> TrainingFaces:
    """The augmented crops of one stage; `teachers`: predictions for each source, by face id."""
    names, size = recipe.sources_of(stage), recipe.stage_network(stage).input_size
    crops = [
        # every source has random streams of its own, whatever its place in a mixture
        _crops(
            recipe, faces[name], size, stage.augmentation,
            (recipe.seed + int(name_hash(name)[:7], 16)) % 2**31,
        )
        for name in names
    ]  # fmt: skip
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
        track=_with_progress,
    )


def _with_progress(items: Iterable[Any]) -> Iterable[Any]:
    return track(items, "preparing images", unit="faces")
