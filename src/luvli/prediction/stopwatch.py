"""`Stopwatch`: where the time of a run goes, summed over its threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Stopwatch:
    """Seconds spent in named stages, by all threads together.

    >>> watch = Stopwatch()
    >>> with watch("network"):
    ...     pass
    >>> list(watch.seconds)
    ['network']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """by stage, in the order in which stages were first met"""
        self.started = time.perf_counter()
        self._turn = threading.Lock()

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add({stage: time.perf_counter() - start})

    def add(self, seconds: Mapping[str, float]) -> None:
        """By stage: what somebody else has measured."""
        with self._turn:
            for stage, spent in seconds.items():
                self.seconds[stage] = self.seconds.get(stage, 0.0) + spent

    @property
    def elapsed(self) -> float:
        """Seconds since it was made."""
        return time.perf_counter() - self.started
