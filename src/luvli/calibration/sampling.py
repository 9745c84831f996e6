"""Samples of fixed size: evenly from a list, or from a stream of batches of unknown length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def evenly(items: Sequence[T], count: int) -> list[T]:
    """At most so many of the items, evenly from the first to the last.

    >>> evenly(range(10), 4)
    [0, 2, 5, 7]
    """
    if len(items) <= count:
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


class _Batch(Protocol):
    """Something of a length that takes a mask, as `Faces` does."""

    def __len__(self) -> int: ...
    def __getitem__(self, which: Any, /) -> Any: ...


B = TypeVar("B", bound=_Batch)


class EvenSample(Generic[B]):
    """Every n-th item of a stream of batches; n doubles whenever there are more than `size`.

    >>> sample = EvenSample[np.ndarray](4)
    >>> for start in range(0, 20, 5):
    ...     sample.add(np.arange(start, start + 5))
    >>> np.concatenate(sample.batches).tolist()
    [0, 8, 16]
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.step, self.count = 1, 0
        self._parts: list[tuple[NDArray[np.intp], B]] = []

    def add(self, batch: B) -> None:
        """Look at the next items."""
        self._parts.append((self.count + np.arange(len(batch)), batch))
        self.count += len(batch)
        self._thin(self._parts.pop())
        while sum(len(places) for places, _ in self._parts) > self.size:
            self.step *= 2
            parts, self._parts = self._parts, []
            for part in parts:
                self._thin(part)

    def _thin(self, part: tuple[NDArray[np.intp], B]) -> None:
        places, batch = part
        chosen = places % self.step == 0
        if chosen.any():
            self._parts.append((places[chosen], batch[chosen]))

    @property
    def batches(self) -> list[B]:
        """The chosen items, in their batches."""
        return [batch for _, batch in self._parts]
