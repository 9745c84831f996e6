"""Samples of fixed size: evenly from a list, or from a stream whose length nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


def evenly(items: Sequence[T], most: int) -> list[T]:
    """At most so many of the items, evenly from the first to the last.

    >>> evenly(range(10), 4)
    [0, 2, 5, 7]
    """
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)]


class EvenSample(Generic[T]):
    """Keeps every n-th item; n doubles whenever there are too many.

    >>> sample = EvenSample[int](4)
    >>> for number in range(20):
    ...     sample.add(number)
    >>> sample.kept
    [0, 8, 16]
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: list[T] = []
        self.step, self.count = 1, 0

    def add(self, item: T) -> None:
        if self.count % self.step == 0:
            self.kept.append(item)
            if len(self.kept) > self.most:
                del self.kept[1::2]
                self.step *= 2
        self.count += 1
