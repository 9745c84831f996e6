"""Which faces come when: pure functions of (seed, epoch), so that any step can be redone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def faces_per_epoch(
    sizes: Mapping[str, int], mixture: Mapping[str, float] | None, total: int | None
) -> dict[str, int]:
    """How many faces of each source an epoch shows.

    Without a mixture and a `total`, every face once. Otherwise `total` faces (by default as many
    as the sources have), shared out by the mixture's weights, or by the sources' sizes.

    >>> faces_per_epoch({"real": 800, "drawn": 5000}, {"real": 3, "drawn": 1}, 1000)
    {'real': 750, 'drawn': 250}
    """
    if mixture is None and total is None:
        return dict(sizes)
    shares = mixture or sizes
    whole = total or sum(sizes[name] for name in shares)
    weight = sum(shares.values())
    return {name: max(1, round(whole * share / weight)) for name, share in shares.items()}


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
            shuffled = np.random.default_rng([seed, 1, source, int(number)]).permutation(size)
            index[here] = shuffled[within[here]]
        rows.append(np.stack([np.full(count, source), rounds, index], axis=1))
    draws = np.concatenate(rows)
    return draws[np.random.default_rng([seed, 2, epoch]).permutation(len(draws))]


@dataclass(frozen=True)
class StageOrder:
    """The batches of a whole stage, as lists of draws: what `DataLoader` calls batch sampler.

    Only whole batches: a smaller last one would give its faces more weight. Of each batch, process
    `rank` of `world` gets every `world`-th face.
    """

    seed: int
    sizes: Sequence[int]
    """faces that each source has"""
    counts: Sequence[int]
    """faces of each source in an epoch"""
    batch_size: int
    epochs: int
    rank: int = 0
    world: int = 1
    start: int = 0
    """the step of the stage that iteration begins with"""

    @property
    def steps_per_epoch(self) -> int:
        return max(1, sum(self.counts) // self.batch_size)

    @property
    def steps(self) -> int:
        """Of the whole stage."""
        return self.epochs * self.steps_per_epoch

    def __len__(self) -> int:
        return self.steps - self.start

    def __iter__(self) -> Iterator[list[NDArray[np.int64]]]:
        draws = np.empty((0, 3), np.int64)
        for step in range(self.start, self.steps):
            epoch, place = divmod(step, self.steps_per_epoch)
            if place == 0 or step == self.start:
                draws = epoch_draws(self.seed, epoch, self.sizes, self.counts)
            batch = draws[place * self.batch_size : (place + 1) * self.batch_size]
            yield list(batch[self.rank :: self.world])
