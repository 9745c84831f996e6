"""From the faces of a stage's sources to augmented samples and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from luvli.arrays import Floats
from luvli.data.dataset import CropDataset, collate
from luvli.data.record import Visibility
from luvli.faces import FaceLandmarks
from luvli.image import affine as affines
from luvli.markup import get_markup
from luvli.measures.head_pose import pose_classes
from luvli.prefetch import prefetch
from luvli.training.order import StageOrder
from luvli.training.recipe_data import OcclusionUse, Source, VisibilityUse


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
    occlusion_labelled: Tensor | None = None
    """(B, k) bool, whether the label says if something covers the landmark; what is covered has
    the class externally occluded"""
    covariance: Tensor | None = None
    """(B, k, 2, 2) crop pixels squared, how unsure the label is; None when all are exact"""
    teacher_points: Tensor | None = None
    """(B, k, 2) crop pixels; None without a teacher"""
    teacher_covariance: Tensor | None = None
    """(B, k, 2, 2) crop pixels squared"""
    teacher_visibility: Tensor | None = None
    """(B, k) probability"""


class TrainingFaces:
    """Augmented crops of several sources, addressed by (source, round, index)."""

    def __init__(
        self,
        crops: Sequence[CropDataset],
        uses: Sequence[Source],
        teachers: Sequence[Mapping[str, FaceLandmarks]] | None = None,
    ) -> None:
        """`uses`: the sources, which say what their labels teach. `teachers`: for each source,
        what a teacher says about its faces, by face id."""
        self.crops, self.uses, self.teachers = list(crops), list(uses), teachers
        self.weighted = any(crop.weighted for crop in crops)

    def __getitem__(self, draw: Sequence[int]) -> dict[str, Any]:
        source, turn, index = (int(number) for number in draw)
        crops, use = self.crops[source], self.uses[source]
        sample: dict[str, Any] = crops[turn, index]
        record, affine = crops.records[int(sample["index"])], sample["affine"]
        names = np.arange(len(record.points))  # which landmark each one of the crop is
        if affines.is_mirrored(affine):
            names = np.asarray(get_markup(crops.markup).flip, dtype=np.intp)

        def in_crop(covariance: Floats) -> NDArray[np.float32]:
            moved = affines.push_covariance(affine, covariance[names])
            return np.nan_to_num(moved).astype(np.float32)

        before, after = record.visibility[names], sample["visibility"]
        visibility: VisibilityUse = use.visibility
        if visibility == "frontal":
            visibility = "labelled" if pose_classes(record.points) == "frontal" else "ignore"
        sample["visibility"], sample["visibility_labelled"] = visibility_labels(after, visibility)
        sample["occlusion_labelled"] = occlusion_labels(before, after, use.occlusion)
        if self.weighted:
            exact = np.zeros((len(names), 2, 2))
            known = record.covariance
            sample["covariance"] = in_crop(exact if known is None else known)
        back = _label_shift(affine, use)
        sample["points"] = sample["points"] + back
        if self.teachers is not None:
            label = self.teachers[source][record.face_id]
            points = affines.apply(affine, label.points)[names] + back
            sample["teacher_points"] = points.astype(np.float32)
            sample["teacher_covariance"] = in_crop(label.covariance)
            sample["teacher_visibility"] = label.visibility[names].astype(np.float32)
        return sample

    def any_hidden(self) -> bool:
        """Whether any landmark is labelled as invisible."""
        for crops, use in zip(self.crops, self.uses, strict=True):
            classes, labelled = visibility_labels(crops.label_classes(), use.visibility)
            if (labelled & (classes == Visibility.SELF_OCCLUDED)).any():
                return True
        return False

    def any_covered(self) -> bool:
        """Whether any landmark is labelled as covered, or covered by the augmentation."""
        for crops, use in zip(self.crops, self.uses, strict=True):
            change = crops.augmentation
            pasted = change.occluder > 0 or change.mask > 0 or change.rectangle is not None
            covered = crops.label_classes() == Visibility.EXTERNALLY_OCCLUDED
            if use.occlusion != "ignore" and pasted:
                return True
            if use.occlusion == "labelled" and covered.any():
                return True
        return False


def _label_shift(affine: Floats, use: Source) -> NDArray[np.float32]:
    """(2,) crop pixels from the labels as `offset` moved them to the labels as published.

    A shift of the labels stays on its side when the image is mirrored.
    """
    shift = np.asarray(use.offset if use.restore_offset else (0.0, 0.0))
    side = (1, -1) if affines.is_mirrored(affine) else (-1, -1)
    return (affine[:, :2] @ (shift * side)).astype(np.float32)


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


def occlusion_labels(
    before: NDArray[np.int8], after: NDArray[np.int8], use: OcclusionUse
) -> NDArray[np.bool_]:
    """(k,) which landmarks are labels of occlusion, by class before and after augmentation."""
    plain, covered = after == Visibility.UNOCCLUDED, after == Visibility.EXTERNALLY_OCCLUDED
    if use == "labelled":
        return np.asarray(plain | covered)
    pasted = covered & (before == Visibility.UNOCCLUDED)
    return np.asarray((plain | pasted) & pasted.any() & (use == "pasted"))


def make_batch(samples: Sequence[dict[str, Any]]) -> Batch:
    """Stack samples of `TrainingFaces`."""
    tensors = collate(samples)
    known = {name: tensors[name] for name in Batch._fields if name in tensors}
    return Batch(images=tensors["image"], **known)


def load_batches(faces: TrainingFaces, order: StageOrder, workers: int) -> Iterator[Batch]:
    """The batches of `order`: made by a thread, or by `workers` processes."""
    from torch.utils.data import DataLoader

    loader: Iterable[Any] = DataLoader(
        faces,  # type: ignore[arg-type]
        batch_sampler=order,
        num_workers=workers,
        collate_fn=make_batch,
        # Every start draws a seed: not from the global generator, whose state a resumed run
        # has just restored.
        generator=torch.Generator(),
    )

    def batches() -> Iterator[Batch]:
        # PyTorch counts threads for the thread that asks: here they would take the cores from those
        # of the network, and halve the speed of two threads on two cores.
        torch.set_num_threads(1)
        yield from loader

    return iter(loader) if workers else prefetch(batches())
