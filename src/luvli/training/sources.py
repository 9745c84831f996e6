"""From the recipe's sources to faces, crops and batches."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from luvli.data.augment import Augmentation
from luvli.data.cache import cache_root
from luvli.data.convert import change_markup
from luvli.data.dataset import CropDataset, collate
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets import load_set
from luvli.errors import InputError
from luvli.image import affine as affines
from luvli.network.config import NetworkConfig
from luvli.training.recipe import Data, Recipe, Source, Stage, VisibilityUse

Track = Callable[[Iterable[Any]], Iterable[Any]]


class Batch(NamedTuple):
    """What the loss needs to know about B faces with k landmarks."""

    images: Tensor
    """(B, 3, S, S) uint8 RGB"""
    points: Tensor
    """(B, k, 2) crop pixels; 0 where there is no location"""
    visibility: Tensor
    """(B, k) `Visibility` classes"""
    teaches: Tensor
    """(B, k) bool, whether the label says anything about visibility"""
    covariance: Tensor | None
    """(B, k, 2, 2) crop pixels squared, how unsure the label is; None when all are exact"""


@dataclass(frozen=True)
class SourceFaces:
    """The faces of one source, with those that are kept for validation set apart."""

    source: Source
    train: tuple[FaceRecord, ...]
    held_out: tuple[FaceRecord, ...]


def load_source(
    name: str, source: Source, data: Data, network: NetworkConfig | None = None
) -> SourceFaces:
    """Read (or render) the faces of one source and set the held-out ones apart.

    With `network`, faces of another markup are converted to the network's, or refused.
    """
    root = Path(data.root).expanduser()
    if source.synthetic is not None:
        from luvli.training.rendered_faces import rendered_faces

        photos = {
            other: partial(_photographs, other, data)
            for other, its in data.sources.items()
            if its.synthetic is None
        }
        records: list[FaceRecord] = rendered_faces(source.synthetic, root, data.cache, photos)
    else:
        assert source.set is not None
        records = list(
            load_set(
                source.set,
                root / source.path,
                source.split,
                subset=source.subset,
                protocol=source.protocol,
                skip_bad=source.skip_bad,
            )
        )
    if network is not None:
        records = [_in_markup(record, network, name) for record in records]
    if source.offset != (0.0, 0.0):
        records = [r.with_changes(points=r.points + source.offset) for r in records]
    if source.limit is not None:
        records = sorted(records, key=lambda record: _hash(record.face_id))[: source.limit]
        records.sort(key=lambda record: record.face_id)
    if source.boxes == "detector":
        records = with_detector_boxes(records, Path(data.cache or cache_root()))
    kept, held_out = hold_out(records, source.hold_out, source.group)
    if not kept:
        raise InputError(f"data.sources.{name} has no faces left to train on: hold out fewer.")
    if source.relabel is not None:
        from luvli.training.relabel import relabel

        kept = relabel(kept, source.relabel, source.box_noise, data.cache)
    return SourceFaces(source, tuple(kept), tuple(held_out))


def _photographs(name: str, data: Data) -> list[Path]:
    """The photographs that a source learns from, none of those that it holds out."""
    source = data.sources[name].model_copy(update={"relabel": None})
    train = load_source(name, source, data).train
    return [record.image for record in train if record.image is not None]


def _in_markup(record: FaceRecord, network: NetworkConfig, name: str) -> FaceRecord:
    if record.markup != network.markup:
        try:
            record = change_markup(record, network.markup)
        except InputError as error:
            raise InputError(
                f"data.sources.{name} has the markup {record.markup} with {len(record.points)} "
                f"points, the network {network.markup}: --set network.markup={record.markup} "
                f"--set network.landmarks={len(record.points)}."
            ) from error
    if len(record.points) != network.landmarks:
        raise InputError(
            f"data.sources.{name} has {len(record.points)} points, the network "
            f"{network.landmarks}: --set network.landmarks={len(record.points)}."
        )
    return record


def hold_out(
    records: Sequence[FaceRecord], count: int, group: str
) -> tuple[list[FaceRecord], list[FaceRecord]]:
    """Split off at least `count` faces, whole photographs or people, chosen by hashed names.

    The choice depends on names alone: it is the same on every machine and for every seed.
    """
    if count == 0:
        return list(records), []
    groups: dict[str, list[FaceRecord]] = {}
    for record in records:
        groups.setdefault(group_of(record, group), []).append(record)
    chosen: set[str] = set()
    number = 0
    for key in sorted(groups, key=_hash):
        if number >= count:
            break
        chosen.add(key)
        number += len(groups[key])
    kept = [r for r in records if group_of(r, group) not in chosen]
    return kept, [r for r in records if group_of(r, group) in chosen]


def group_of(record: FaceRecord, group: str) -> str:
    """What must not be torn apart: the photograph, or the person in it."""
    if group == "person":
        return re.sub(r"[\W_]*\d+$", "", record.face_id)
    return record.image.name if record.image is not None else record.face_id


def looks_ahead(points: NDArray[np.float64], limit: float = 0.45) -> bool:
    """Whether a face of 68 points is turned by less than about 20 degrees to either side.

    Compares the distances from the nose tip to the two outer eye corners, along the line
    between these: their difference grows by about 0.022 of the whole per degree (measured on
    rendered ICT heads). A face that looks ahead shows all 68 landmarks.
    """
    right, left, tip = points[36], points[45], points[30]
    across = left - right
    place = float((tip - right) @ across / (across @ across))  # 0 at the right eye, 1 at the left
    return abs(2 * place - 1) < limit


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
        teach_visibility(sample, record, self.uses[source])
        if self.weighted:
            sample["covariance"] = _moved_covariance(record, sample["affine"], crops.markup)
        return sample


def teach_visibility(sample: dict[str, Any], record: FaceRecord, use: VisibilityUse) -> None:
    """Set `visibility` and `teaches` of a sample to what its source is used for."""
    visibility = sample["visibility"]
    if use == "frontal":
        use = "labelled" if looks_ahead(record.points) else "ignore"
    if use == "paper":
        visibility[visibility == Visibility.UNLABELLED] = Visibility.SELF_OCCLUDED
    elif use == "ignore":
        visibility[visibility == Visibility.SELF_OCCLUDED] = Visibility.UNLABELLED
    teaches = visibility != Visibility.UNLABELLED
    sample["teaches"] = np.zeros_like(teaches) if use == "ignore" else teaches


def _moved_covariance(
    record: FaceRecord, affine: NDArray[np.float64], markup: str
) -> NDArray[np.float32]:
    """(k, 2, 2) the label's covariance in crop pixels; zeros for an exact label."""
    if record.covariance is None:
        return np.zeros((len(record.points), 2, 2), np.float32)
    covariance = record.covariance
    if affines.is_mirrored(affine):  # mirrored: landmarks have changed their names
        from luvli.markup import get_markup

        covariance = covariance[get_markup(markup).flip]
    return np.nan_to_num(affines.push_covariance(affine, covariance)).astype(np.float32)


def make_batch(samples: Sequence[dict[str, Any]]) -> Batch:
    """Stack samples of `TrainingFaces`."""
    tensors = collate(samples)
    covariance = None
    if "covariance" in samples[0]:
        covariance = torch.from_numpy(np.stack([sample["covariance"] for sample in samples]))
    teaches = torch.from_numpy(np.stack([sample["teaches"] for sample in samples]))
    return Batch(tensors["image"], tensors["points"], tensors["visibility"], teaches, covariance)


def sees_hidden_landmarks(faces: TrainingFaces) -> bool:
    """Whether any label teaches that a landmark can be invisible."""
    lowest = {"labelled": Visibility.SELF_OCCLUDED, "paper": Visibility.UNLABELLED}
    lowest["frontal"] = Visibility.SELF_OCCLUDED
    return any(
        use != "ignore" and ((record.visibility <= 0) & (record.visibility >= lowest[use])).any()
        for crops, use in zip(faces.crops, faces.uses, strict=True)
        for record in crops.records
    )


def stage_faces(
    recipe: Recipe, stage: Stage, faces: dict[str, SourceFaces], track: Track = iter
) -> TrainingFaces:
    """The training crops of one stage."""
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
    recipe: Recipe, size: int, faces: dict[str, SourceFaces], track: Track = iter
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
    return (seed + int(_hash(name)[:7], 16)) % 2**31


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
