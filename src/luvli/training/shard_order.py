"""The order of faces that lie in shards: random, but few shards at a time.

Shards are shuffled and put together to windows of at least `buffer` faces; the faces of a window
are shuffled. Who reads them in this order has one window in memory. Everything is a function of
(seed, source, round, place), so that any step can be entered at once, without the steps before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK = 16_384
"""draws that are mixed over the sources at a time"""


class ShardOrder:
    """The faces of one source in their order, round after round."""

    def __init__(self, seed: int, source: int, sizes: Sequence[int], buffer: int) -> None:
        """`sizes`: faces in each shard. `buffer`: faces in a window, at least."""
        self.seed, self.source, self.buffer = seed, source, buffer
        self.sizes = np.asarray(sizes, np.int64)
        self.first = np.cumsum(self.sizes) - self.sizes
        self.size = int(self.sizes.sum())
        self._round: tuple[int, list[NDArray[np.int64]], NDArray[np.int64]] | None = None
        self._window: tuple[int, int, NDArray[np.int64]] | None = None

    def draws(self, start: int, stop: int) -> NDArray[np.int64]:
        """(n, 2) round and index of the faces at these places of the endless sequence."""
        found = []
        while start < stop:
            turn, within = divmod(start, self.size)
            windows, ends = self.windows(turn)
            number = int(np.searchsorted(ends, within, side="right"))
            offset = within - (int(ends[number - 1]) if number else 0)
            faces = self._faces(turn, number, windows[number])[offset : offset + stop - start]
            found.append(np.stack([np.full(len(faces), turn), faces], axis=1))
            start += len(faces)
        return np.concatenate(found) if found else np.empty((0, 2), np.int64)

    def windows(self, turn: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """The shards of each window of a round, and the place after its last face."""
        if self._round is None or self._round[0] != turn:
            shuffled = np.random.default_rng([self.seed, 3, self.source, turn]).permutation(
                np.flatnonzero(self.sizes)
            )
            ends = np.cumsum(self.sizes[shuffled])
            cuts, reached = [], 0
            for place, end in enumerate(ends.tolist()):
                if end - reached >= self.buffer:
                    cuts.append(place + 1)
                    reached = end
            if cuts and cuts[-1] == len(shuffled):
                cuts.pop()
            windows = np.split(shuffled, cuts)
            self._round = turn, windows, ends[[*(cut - 1 for cut in cuts), len(ends) - 1]]
        return self._round[1], self._round[2]

    def _faces(self, turn: int, number: int, shards: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._window is None or self._window[:2] != (turn, number):
            parts = [np.arange(self.first[s], self.first[s] + self.sizes[s]) for s in shards]
            rng = np.random.default_rng([self.seed, 4, self.source, turn, number])
            self._window = turn, number, rng.permutation(np.concatenate(parts))
        return self._window[2]


def mixed_draws(
    seed: int, epoch: int, orders: Sequence[ShardOrder], counts: Sequence[int], skip: int = 0
) -> Iterator[NDArray[np.int64]]:
    """(n, 3) the faces of one epoch, some at a time: source, round, index in the source.

    Each source keeps its own order; which source comes when is random. `skip`: draws at the
    beginning that are left out.
    """
    total = sum(counts)
    blocks = -(-total // BLOCK)
    for block in range(blocks):
        low = [count * block // blocks for count in counts]
        high = [count * (block + 1) // blocks for count in counts]
        begins = sum(low)
        if sum(high) <= skip:
            continue
        label = np.repeat(np.arange(len(counts)), np.subtract(high, low))
        label = np.random.default_rng([seed, 5, epoch, block]).permutation(label)
        draws = np.empty((len(label), 3), np.int64)
        draws[:, 0] = label
        for source, order in enumerate(orders):
            start = epoch * counts[source]
            draws[label == source, 1:] = order.draws(start + low[source], start + high[source])
        yield draws[max(skip - begins, 0) :]
