"""A sample of fixed size, evenly from a stream whose length nobody knows."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


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
