"""From the faces of a stage's sources to augmented samples and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from luvli.data.augment import Augmentation
from luvli.data.dataset import CropDataset, collate
from luvli.data.record import FaceRecord, Visibility
from luvli.image import affine as affines
from luvli.markup import get_markup
from luvli.prefetch import prefetch
from luvli.training.order import StageOrder
from luvli.training.recipe import Recipe, Stage, VisibilityUse
from luvli.training.sources import SourceFaces, load_source, name_hash

Track = Callable[[Iterable[Any]], Iterable[Any]]


class Batch(NamedTuple):
    """What the loss needs to know about B faces with k landmarks."""

    images: Tensor
    """(B, 3, S, S) uint8 RGB"""
    points: Tensor
    """(B, k, 2) crop pixels; 0 where there is no location"""
    visibility: Tensor
    """(B, k) `Visibility` classes"""
    visibility_labelled: Tensor
    """(B, k) bool, whether the label says anything about visibility"""
    covariance: Tensor | None
    """(B, k, 2, 2) crop pixels squared, how unsure the label is; None when all are exact"""


class TrainingFaces:
    """Augmented crops of several sources, addressed by (source, round, index)."""

    def __init__(self, crops: Sequence[CropDataset], uses: Sequence[VisibilityUse]) -> None:
        self.crops, self.uses = list(crops), list(uses)
        self.weighted = any(
            record.covariance is not None for crop in crops for record in crop.records
        )

    def __getitem__(self, draw: Sequence[int]) -> dict[str, Any]:
        source, turn, index = (int(number) for number in draw)
        crops = self.crops[source]
        sample: dict[str, Any] = crops[turn, index]
        record = crops.records[index]
        use = self.uses[source]
        if use == "frontal":
            use = "labelled" if is_frontal(record.points) else "ignore"
        sample["visibility"], sample["visibility_labelled"] = visibility_labels(
            sample["visibility"], use
        )
        if self.weighted:
            sample["covariance"] = _moved_covariance(record, sample["affine"], crops.markup)
        return sample


def visibility_labels(
    classes: NDArray[np.int8], use: VisibilityUse
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """`Visibility` classes (k,) as a source's `use` reads them, and where they teach visibility."""
    unlabelled, hidden = classes == Visibility.UNLABELLED, classes == Visibility.SELF_OCCLUDED
    if use == "paper":
        classes = np.where(unlabelled, np.int8(Visibility.SELF_OCCLUDED), classes)
        return classes, np.ones_like(unlabelled)
    if use == "ignore":
        return np.where(hidden, np.int8(Visibility.UNLABELLED), classes), np.zeros_like(hidden)
    return classes, ~unlabelled


def is_frontal(points: NDArray[np.float64], limit: float = 0.45) -> bool:
    """Whether a face of 68 points is turned by less than about 20 degrees to either side.

    Compares the distances from the nose tip to the two outer eye corners, along the line
    between these: their difference grows by about 0.022 of the whole per degree (measured on
    rendered ICT heads). A frontal face shows all 68 landmarks.
    """
    right, left, tip = points[36], points[45], points[30]
    across = left - right
    place = float((tip - right) @ across / (across @ across))  # 0 at the right eye, 1 at the left
    return abs(2 * place - 1) < limit


def _moved_covariance(
    record: FaceRecord, affine: NDArray[np.float64], markup: str
) -> NDArray[np.float32]:
    """(k, 2, 2) the label's covariance in crop pixels; zeros for an exact label."""
    if record.covariance is None:
        return np.zeros((len(record.points), 2, 2), np.float32)
    covariance = record.covariance
    if affines.is_mirrored(affine):  # landmarks have changed their names
        covariance = covariance[get_markup(markup).flip]
    return np.nan_to_num(affines.push_covariance(affine, covariance)).astype(np.float32)


def make_batch(samples: Sequence[dict[str, Any]]) -> Batch:
    """Stack samples of `TrainingFaces`."""
    tensors = collate(samples)
    covariance = None
    if "covariance" in samples[0]:
        covariance = torch.from_numpy(np.stack([sample["covariance"] for sample in samples]))
    labelled = torch.from_numpy(np.stack([sample["visibility_labelled"] for sample in samples]))
    return Batch(tensors["image"], tensors["points"], tensors["visibility"], labelled, covariance)


def load_batches(faces: TrainingFaces, order: StageOrder, workers: int) -> Iterator[Batch]:
    """The batches of `order`: made by a thread, or by `workers` processes."""
    from torch.utils.data import DataLoader

    loader: Iterable[Any] = DataLoader(
        faces,  # type: ignore[arg-type]
        batch_sampler=order,
        num_workers=workers,
        collate_fn=make_batch,
    )
    return iter(loader) if workers else prefetch(loader)


def has_hidden_landmarks(faces: TrainingFaces) -> bool:
    """Whether any label teaches that a landmark can be invisible."""
    lowest = {"labelled": Visibility.SELF_OCCLUDED, "paper": Visibility.UNLABELLED}
    lowest["frontal"] = Visibility.SELF_OCCLUDED
    return any(
        use != "ignore" and ((record.visibility <= 0) & (record.visibility >= lowest[use])).any()
        for crops, use in zip(faces.crops, faces.uses, strict=True)
        for record in crops.records
    )


def training_faces(
    recipe: Recipe, stage: Stage, faces: Mapping[str, SourceFaces], track: Track = iter
) -> TrainingFaces:
    """The augmented crops of one stage."""
    names = recipe.sources_of(stage)
    crops = []
    for name in names:
        part = faces[name]
        crops.append(
            CropDataset(
                part.train,
                recipe.stage_network(stage).input_size,
                enlarge=recipe.data.enlarge,
                augmentation=stage.augmentation,
                box_noise=part.source.box_noise,
                seed=source_seed(recipe.seed, name),
                cache=recipe.data.cache or True,
                skip_bad=part.source.skip_bad,
                track=track,
            )
        )
    return TrainingFaces(crops, [faces[name].source.visibility for name in names])


def validation_crops(
    recipe: Recipe, size: int, faces: Mapping[str, SourceFaces], track: Track = iter
) -> dict[str, CropDataset]:
    """Plain crops of the held-out faces and of the sets that are only watched."""
    watched = {name: (part.source, part.held_out) for name, part in faces.items() if part.held_out}
    for name, source in recipe.data.validation.items():
        whole = source.model_copy(update={"hold_out": 0})
        watched[name] = (source, load_source(name, whole, recipe.data, recipe.network).train)
    return {
        name: CropDataset(
            records,
            size,
            enlarge=recipe.data.enlarge,
            augmentation=Augmentation.recipe("none"),
            box_noise=source.box_noise,
            cache=recipe.data.cache or True,
            skip_bad=source.skip_bad,
            track=track,
        )
        for name, (source, records) in watched.items()
    }


def source_seed(seed: int, name: str) -> int:
    """Every source has random streams of its own, whatever its place in a mixture."""
    return (seed + int(name_hash(name)[:7], 16)) % 2**31
