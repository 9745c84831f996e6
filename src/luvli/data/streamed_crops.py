"""Crops of faces that are read from Parquet while they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from luvli.data.augment import Augmentation
from luvli.data.boxes import BoxNoise, crop_box
from luvli.data.dataset import CropDataset, CropSample
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import implausible
from luvli.data.shards import ShardedFaces, even_shards
from luvli.errors import InputError
from luvli.image import Box
from luvli.image import affine as affines
from luvli.image.crop import warp_affine
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray

SAMPLED_SHARDS = 64
"""row groups, evenly from all, whose labels stand for all of them: a mean shape needs no more"""


class StreamedCrops(CropDataset):
    """As `CropDataset` without a cache, but no face is in memory beyond the open shards."""

    records: ShardedFaces

    def __init__(
        self,
        faces: ShardedFaces,
        size: int,
        *,
        enlarge: str | float = "reference",
        augmentation: Augmentation | None = None,
        box_noise: BoxNoise = "paper",
        seed: int = 0,
        skip_bad: bool = False,
    ) -> None:
        """`skip_bad`: a face whose label or image cannot be used is replaced by the next one of
        its row group; otherwise it ends the run."""
        self.records, self.box_noise, self.skip_bad = faces, box_noise, skip_bad
        self._set_up(faces[0].markup, size, enlarge, augmentation, "pixel-centre", seed)
        self._last: tuple[int, FaceRecord, bytes] | None = None

    def __getitem__(self, key: int | tuple[int, int]) -> CropSample:
        epoch, index = key if isinstance(key, tuple) else (0, key)
        shard, _ = self.records.place(index)
        first = sum(self.records.sizes[:shard])
        size = self.records.sizes[shard]
        problem: InputError | None = None
        for step in range(size if self.skip_bad else 1):
            chosen = first + (index - first + step) % size
            try:
                return super().__getitem__((epoch, chosen))
            except InputError as error:
                name = self.records.name(*self.records.place(chosen))
                sentence = str(error).removeprefix(f"{name} ")
                problem = InputError(
                    f"{name} cannot be learnt from: {sentence} Mend it, or set skip_bad: true."
                )
        assert problem is not None
        raise problem

    def _face(self, index: int) -> tuple[FaceRecord, Box]:
        record, content = self.records.open(index)
        self._last = index, record, content
        return record, crop_box(record, self.box_noise, self.seed)

    def _draw(self, index: int, affine: NDArray[np.float64]) -> tuple[ImageArray, tuple[int, int]]:
        assert self._last is not None and self._last[0] == index
        _, record, content = self._last
        seen = Photograph(content).at(max(1, int(1 / affines.scale(affine))))
        problem = implausible(record, seen.size)
        if problem is not None:
            raise InputError(str(problem))
        moved = affines.compose(affine, affines.invert(seen.affine)) if seen.factor > 1 else affine
        return warp_affine(seen.image, moved, self.size), seen.size

    def label_classes(self) -> Iterator[NDArray[np.int8]]:
        for shard in range(len(self.records.shards)):
            yield np.stack([record.visibility for record in self.records.labels(shard)])

    @property
    def weighted(self) -> bool:
        return False

    def plain_points(self) -> NDArray[np.float64]:
        """Of the faces of some shards, evenly from all."""
        chosen = even_shards(self.records, SAMPLED_SHARDS)
        labels = (record for shard in chosen for record in self.records.labels(int(shard)))
        return self._plain((r, crop_box(r, self.box_noise, self.seed)) for r in labels)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": None}
