"""Who gets in: places in the queue and room for bodies, within `Limits`; a clear no at once
otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from luvli.serving.batching import Pace
from luvli.serving.errors import Refused, busy
from luvli.serving.metrics import Metrics
from luvli.serving.settings import Limits


class Admission:
    """Counts what is in work. Belongs to one event loop."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.pace = Pace()
        """how fast images get done lately"""
        self._limits = limits
        self._metrics = metrics
        self._in_flight = 0
        self._by_client: Counter[str] = Counter()
        self._buffered = 0

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """A place in the queue for the duration of a request, or 503 or 429 at once."""
        limits = self._limits
        if self._in_flight >= limits.max_requests:
            raise busy()
        expected = self.pace.expected(self._in_flight)
        if self._in_flight > 1 and expected > limits.request_seconds / 2:
            # it would wait for longer than it may: no is better now than then
            raise busy(retry_after=expected / 2)
        if limits.max_client_requests and self._by_client[client] >= limits.max_client_requests:
            raise Refused(
                429,
                "too_many_requests",
                f"you have {limits.max_client_requests} requests in work already: wait for them.",
                retry_after=1,
            )
        self._in_flight += 1
        self._by_client[client] += 1
        self._metrics.add("luvli_requests_in_flight", 1)
        try:
            yield
        finally:
            self._in_flight -= 1
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]
            self._metrics.add("luvli_requests_in_flight", -1)

    @contextmanager
    def buffer(self, size: int) -> Iterator[None]:
        """Room in memory for a body of `size` bytes, or 503 at once."""
        if self._buffered + size > self._limits.max_buffered_bytes:
            raise busy()
        self._buffered += size
        self._metrics.add("luvli_buffered_bytes", size)
        try:
            yield
        finally:
            self._buffered -= size
            self._metrics.add("luvli_buffered_bytes", -size)

    @contextmanager
    def paced(self) -> Iterator[None]:
        """An image in work: how long it takes tells how long the next ones will."""
        self.pace.begin()
        completed = False
        try:
            yield
            completed = True
        finally:
            self.pace.end(completed)
