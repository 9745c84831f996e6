"""Which faces are seen when: pure functions of (seed, epoch), so that any step can be redone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.training.shard_order import ShardOrder, mixed_draws


def faces_per_epoch(
    sizes: Mapping[str, int], mixture: Mapping[str, float] | None, total: int | None
) -> dict[str, int]:
    """How many faces of each source an epoch shows.

    Without a mixture every face once. With one, `total` faces (by default as many as the
    sources of the mixture have), shared out by the mixture's weights.

    >>> faces_per_epoch({"real": 800, "drawn": 5000}, {"real": 3, "drawn": 1}, 1000)
    {'real': 750, 'drawn': 250}
    """
    if mixture is None:
        return dict(sizes)
    whole = total or sum(sizes[name] for name in mixture)
    weight = sum(mixture.values())
    return {name: max(1, round(whole * share / weight)) for name, share in mixture.items()}


def epoch_draws(
    seed: int, epoch: int, sizes: Sequence[int], counts: Sequence[int]
) -> NDArray[np.int64]:
    """(n, 3) the faces of one epoch in their order: source, round, index in the source.

    The round says how often a face came before; it chooses its random stream.

    Each source is gone through in random permutations, one after the other and across
    epochs, so that no face comes a second time before all have come once.

    >>> epoch_draws(0, 0, [3], [4])[:, 1:].tolist()
    [[0, 1], [0, 0], [0, 2], [1, 1]]
    """
    rows = []
    for source, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        places = np.arange(epoch * count, (epoch + 1) * count)
        rounds, within = places // size, places % size
        index = np.empty(count, dtype=np.int64)
        for number in np.unique(rounds):
            here = rounds == number
            shuffled = _generator(seed, 1, source, int(number)).permutation(size)
            index[here] = shuffled[within[here]]
        rows.append(np.stack([np.full(count, source), rounds, index], axis=1))
    draws = np.concatenate(rows)
    return draws[_generator(seed, 2, epoch).permutation(len(draws))]


def epoch_batches(draws: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """Whole batches only: a smaller last one would give its faces more weight."""
    steps = max(1, len(draws) // batch_size)
    return [draws[step * batch_size : (step + 1) * batch_size] for step in range(steps)]


def share_of(batch: NDArray[np.int64], rank: int, world: int) -> NDArray[np.int64]:
    """The part of a global batch that one process of several works on."""
    return batch[rank::world]


class Sharded(NamedTuple):
    """A source that is read shard by shard."""

    sizes: Sequence[int]
    """faces in each shard"""
    buffer: int
    """faces that are shuffled together, at least"""


class StageOrder:
    """The batches of a whole stage, as lists of draws: what `DataLoader` calls batch sampler."""

    def __init__(
        self,
        seed: int,
        sizes: Sequence[int],
        counts: Sequence[int],
        batch_size: int,
        epochs: int,
        rank: int = 0,
        world: int = 1,
        start: int = 0,
        shards: Sequence[Sharded | None] = (),
    ) -> None:
        """`start`: the step of the stage that iteration begins with. `shards`: for each source
        that is read in shards, how; the whole stage then goes through its sources in windows."""
        self.seed, self.sizes, self.counts = seed, list(sizes), list(counts)
        self.batch_size, self.epochs, self.rank, self.world = batch_size, epochs, rank, world
        self.start, self.shards = start, list(shards)
        self.steps_per_epoch = max(1, sum(self.counts) // batch_size)
        self.steps = epochs * self.steps_per_epoch

    def __len__(self) -> int:
        return self.steps - self.start

    def __iter__(self) -> Iterator[list[NDArray[np.int64]]]:
        first, skip = divmod(self.start, self.steps_per_epoch)
        if any(self.shards):
            for epoch in range(first, self.epochs):
                yield from self._streamed(epoch, skip if epoch == first else 0)
            return
        for epoch in range(first, self.epochs):
            draws = epoch_draws(self.seed, epoch, self.sizes, self.counts)
            for batch in epoch_batches(draws, self.batch_size)[skip if epoch == first else 0 :]:
                yield list(share_of(batch, self.rank, self.world))

    def _streamed(self, epoch: int, skip: int) -> Iterator[list[NDArray[np.int64]]]:
        """Batches of one epoch from the one numbered `skip` on; few draws are in memory."""
        orders = self._orders()
        waiting = np.empty((0, 3), np.int64)
        done = skip
        size = min(self.batch_size, sum(self.counts))
        for draws in mixed_draws(self.seed, epoch, orders, self.counts, skip * size):
            waiting = np.concatenate([waiting, draws])
            while len(waiting) >= size and done < self.steps_per_epoch:
                yield list(share_of(waiting[:size], self.rank, self.world))
                waiting, done = waiting[size:], done + 1

    def _orders(self) -> list[ShardOrder]:
        """How each source is gone through; one that is in memory is a shard by itself."""
        given = [
            how or Sharded([size], 1) for how, size in zip(self.shards, self.sizes, strict=True)
        ]
        return [ShardOrder(self.seed, n, how.sizes, how.buffer) for n, how in enumerate(given)]


def _generator(*numbers: int) -> np.random.Generator:
    return np.random.default_rng(list(numbers))
