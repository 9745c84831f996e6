"""From labelled faces to arrays a network can learn from.

    faces = load_set("w300", "data/300w", split="train")
    crops = CropDataset(faces, size=128, augmentation=Augmentation.recipe("A"), cache=True)
    batch = collate([crops[0, i] for i in range(24)])    # batch["image"]: (24, 3, 128, 128)

`CropDataset` itself needs no PyTorch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.augment import Augmentation
from luvli.data.augment.geometry import Geometry, draw_geometry, keep_inside, place_crop, stream
from luvli.data.augment.occluders import add_mask, add_occluder, add_rectangle
from luvli.data.augment.photometric import change_colours
from luvli.data.boxes import BoxNoise, crop_box, get_enlargement
from luvli.data.patches import Patches, load_patches, usable_image
from luvli.data.record import FaceRecord
from luvli.data.sets import DataWarning, Problem, refuse
from luvli.errors import InputError, check_choice
from luvli.files import PathLike
from luvli.image import Crop, read_image
from luvli.image import affine as affines
from luvli.image.crop import Convention
from luvli.image.read import ImageArray
from luvli.markup import get_markup
from luvli.progress import Track

if TYPE_CHECKING:
    import torch

CropSample = dict[str, Any]

_DENSITY = 1.25
"""Pixels of a cached patch for one pixel of an unscaled crop."""


class CropDataset:
    """Faces as crops of `size` pixels with their landmarks, augmented or plain.

    `dataset[i]` is face i in epoch 0, `dataset[epoch, i]` in any epoch; the same pair gives
    the same sample, in every process. A sample is a dictionary:

    - `image` (size, size, 3) uint8 RGB
    - `points` (k, 2) float32, crop pixels, NaN where there is no location
    - `visibility` (k,) int8, `Visibility` classes
    - `affine` (2, 3) float64, image -> crop pixels
    - `index` int64
    """

    def __init__(
        self,
        records: Sequence[FaceRecord],
        size: int,
        *,
        enlarge: str | float = "reference",
        augmentation: Augmentation | None = None,
        box_noise: BoxNoise = "paper",
        convention: Convention = "pixel-centre",
        seed: int = 0,
        cache: bool | PathLike = False,
        skip_bad: bool = False,
        track: Track = iter,
    ) -> None:
        """`cache`: True keeps decoded patches in the user's cache folder, a path elsewhere,
        False decodes the image each time (best for a single pass, and exact: a cached
        patch is resampled twice). The published crops depend on every pixel of the image and
        are never cached. `skip_bad`: leave out faces whose image cannot be used, for which
        each image is decoded once; otherwise an `InputError` lists them, without a cache when
        the first of them is wanted.
        """
        if not len(records):
            raise InputError("there are no faces to crop: the list of records is empty.")
        markups = {record.markup for record in records}
        if len(markups) > 1:
            raise InputError(f"faces of one data set must share one markup, got {sorted(markups)}.")
        self.records = list(records)
        self.markup, self.size, self.seed = markups.pop(), size, seed
        self.convention, self.enlarge = convention, get_enlargement(enlarge)
        self.augmentation = augmentation or Augmentation.recipe("none")
        if self.augmentation.mask and self.markup != "ibug68":
            raise InputError(
                f"augmentation.mask is drawn by the 68 points: {self.markup} has others."
            )
        self.flip = get_markup(self.markup).flip if self.augmentation.flip else None
        self.label_noise = self._label_noise()
        self.boxes = [crop_box(record, box_noise, seed) for record in self.records]
        self.patches: Patches | None = None
        self._rows = np.arange(len(self.records))
        problems: dict[int, Problem] = {}
        if cache is not False and convention == "pixel-centre":
            side = self.augmentation.reach(self.enlarge)
            pixels = round(size * _DENSITY * side / self.enlarge)
            folder = None if cache is True else cache
            self.patches = load_patches(self.records, self.boxes, side, pixels, folder, track)
            problems = self.patches.problems
        elif skip_bad:
            found = (usable_image(record)[1] for record in track(self.records))
            problems = {row: problem for row, problem in enumerate(found) if problem}
        if problems:
            self._leave_out(problems, skip_bad)

    def _label_noise(self) -> Floats | None:
        """(k, 1) standard deviation of each landmark's label in crop pixels; None: no noise."""
        by_group, markup = self.augmentation.label_noise, get_markup(self.markup)
        if not by_group:
            return None
        spread = np.zeros((markup.size, 1))
        for group, deviation in by_group.items():
            check_choice(f"group of {self.markup}", group, tuple(markup.groups))
            spread[list(markup.groups[group])] = deviation * self.size / self.enlarge
        return spread

    def _leave_out(self, problems: Mapping[int, Problem], skip_bad: bool) -> None:
        if not skip_bad:
            raise refuse(problems.values(), "the training images")
        first = next(iter(problems.values()))
        if len(problems) == len(self.records):
            raise InputError(f"no image could be used; the first: {first}")
        sentence = (
            f"{len(problems):,} faces are left out, their images cannot be used; the first: {first}"
        )
        warnings.warn(sentence, DataWarning, stacklevel=3)
        self._rows = np.setdiff1d(self._rows, list(problems))
        self.records = [self.records[i] for i in self._rows]
        self.boxes = [self.boxes[i] for i in self._rows]

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[CropSample]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: int | tuple[int, int]) -> CropSample:
        epoch, index = key if isinstance(key, tuple) else (0, key)
        if not 0 <= index < len(self):
            raise IndexError(f"face {index} of {len(self)}")
        record, config = self.records[index], self.augmentation
        rng = stream(self.seed, epoch, index)
        geometry = draw_geometry(config, rng)
        affine = place_crop(self.boxes[index], self.size, self.enlarge, geometry, self.convention)
        if config.keep_inside:
            affine = keep_inside(affine, record.points[record.visible], self.size)
        image, image_size = self._crop(index, affine)
        points, visibility = affines.apply(affine, record.points), record.visibility
        if geometry.mirrored and self.flip is not None:
            points, visibility = points[self.flip], visibility[self.flip]
        if config.mask and rng.random() < config.mask:
            image, visibility = add_mask(image, points, visibility, rng)
        if rng.random() < config.occluder:
            image, visibility = add_occluder(image, points, visibility, rng)
        if config.rectangle is not None and rng.random() < config.rectangle.probability:
            image, visibility = add_rectangle(
                image, points, visibility, config.rectangle, affine, image_size, rng
            )
        image = change_colours(image, config, rng)
        if self.label_noise is not None:
            points = points + rng.normal(size=points.shape) * self.label_noise
        return {
            "image": image,
            "points": points.astype(np.float32),
            "visibility": visibility.copy(),
            "affine": affine,
            "index": np.int64(index),
        }

    def _crop(self, index: int, affine: Floats) -> tuple[ImageArray, tuple[int, int]]:
        """The crop's pixels, and the width and height of the image it comes from."""
        if self.patches is not None:
            row = int(self._rows[index])
            width, height = self.patches.image_size[row].tolist()
            from_patch = affines.compose(affine, affines.invert(self.patches.affine[row]))
            # plain bilinear: a patch is hardly finer than a crop, so nothing can alias much
            crop = cv2.warpAffine(self.patches.pixels[row], from_patch, (self.size, self.size))
            return np.asarray(crop, dtype=np.uint8), (width, height)
        record = self.records[index]
        if record.image is None:
            raise InputError(f"{record.name} has no image to crop.")
        image = read_image(record.image)
        turn = float(np.degrees(np.arctan2(-affine[1, 0], affine[1, 1])))  # mirrored or not
        warped = Crop(affine, self.size, turn, self.convention).warp(image)
        return warped, (image.shape[1], image.shape[0])

    def label_classes(self) -> NDArray[np.int8]:
        """(n, k) `Visibility` classes of all labels."""
        return np.stack([record.visibility for record in self.records])

    @property
    def weighted(self) -> bool:
        """Whether any label tells how unsure it is."""
        return any(record.covariance is not None for record in self.records)

    def plain_points(self) -> Floats:
        """(n, k, 2) labels in crop pixels without augmentation; no image is touched."""
        return np.stack([
            affines.apply(
                place_crop(box, self.size, self.enlarge, Geometry(), self.convention), record.points
            )
            for record, box in zip(self.records, self.boxes, strict=True)
        ])  # fmt: skip


def collate(samples: Sequence[CropSample]) -> dict[str, torch.Tensor]:
    """Samples as tensors: `image` (B, 3, S, S) uint8; the others with a first axis B.

    Points without a location become 0, because NaN would spread through a loss even where
    its weight is 0; `visibility` tells which they are.
    """
    import torch

    batch = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
    batch["image"] = np.ascontiguousarray(batch["image"].transpose(0, 3, 1, 2))
    batch["points"] = np.nan_to_num(batch["points"], nan=0.0)
    return {name: torch.from_numpy(values) for name, values in batch.items()}
