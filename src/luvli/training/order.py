"""Which faces are seen when: pure functions of (seed, epoch), so that any step can be redone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


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


def epoch_batches(draws: NDArray[np.int64], batch: int) -> list[NDArray[np.int64]]:
    """Whole batches only: a smaller last one would give its faces more weight."""
    steps = max(1, len(draws) // batch)
    return [draws[step * batch : (step + 1) * batch] for step in range(steps)]


def share_of(batch: NDArray[np.int64], rank: int, world: int) -> NDArray[np.int64]:
    """The part of a global batch that one process of several works on."""
    return batch[rank::world]


def _generator(*numbers: int) -> np.random.Generator:
    return np.random.default_rng(list(numbers))
