"""Batches of a stage from any step on, prepared while the network works."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.prefetch import prefetch
from luvli.training.order import epoch_batches, epoch_draws, share_of
from luvli.training.sources import Batch, TrainingFaces, make_batch


class StageOrder:
    """The batches of a whole stage, as lists of draws: what `DataLoader` calls batch sampler."""

    def __init__(
        self,
        seed: int,
        sizes: Sequence[int],
        counts: Sequence[int],
        batch: int,
        epochs: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.seed, self.sizes, self.counts = seed, list(sizes), list(counts)
        self.batch, self.epochs, self.rank, self.world = batch, epochs, rank, world
        self.start = 0
        """step of the stage that iteration begins with"""
        self.steps_per_epoch = max(1, sum(self.counts) // batch)

    def __len__(self) -> int:
        return self.epochs * self.steps_per_epoch - self.start

    def __iter__(self) -> Iterator[list[NDArray[np.int64]]]:
        first, skip = divmod(self.start, self.steps_per_epoch)
        for epoch in range(first, self.epochs):
            draws = epoch_draws(self.seed, epoch, self.sizes, self.counts)
            for batch in epoch_batches(draws, self.batch)[skip if epoch == first else 0 :]:
                yield list(share_of(batch, self.rank, self.world))


def batches(faces: TrainingFaces, order: StageOrder, workers: int) -> Iterator[Batch]:
    """The batches of `order`: made by a thread, or by `workers` processes."""
    from torch.utils.data import DataLoader

    loader: Iterable[Any] = DataLoader(
        faces,  # type: ignore[arg-type]
        batch_sampler=order,
        num_workers=workers,
        collate_fn=make_batch,
    )
    return iter(loader) if workers else prefetch(loader)
