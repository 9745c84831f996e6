"""Micro-batching: faces of several requests share a call of the network.

One call runs at a time. While it runs, faces gather; when it ends, they go together. When the
network is free and a face arrives, it goes at once if nobody else is being prepared. Otherwise
it waits for those, for as long as faces have lately taken to follow each other, and never longer
than `patience`. So a lone client never waits, and a crowd is served in batches.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from luvli.serving.threads import Threads

Item = TypeVar("Item")
T = TypeVar("T")

MEMORY = 0.2
"""weight of the newest interval between two arrivals in the running mean"""
OUTLIER = 10.0
"""times the mean that one interval between completions counts at most; work that stays slow is
noticed all the same, within a few pieces"""


class Pace:
    """How fast work gets done: the mean time between two completions while there is work.

    >>> now = iter([0.0, 2.0, 4.0])
    >>> pace = Pace(lambda: next(now))
    >>> pace.begin(); pace.begin(); pace.end(); pace.end(completed=True)
    >>> round(pace.expected(10), 2)  # two of them took two seconds each
    7.2
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._working = 0
        self._last = 0.0
        self._seconds = 0.0

    def begin(self) -> None:
        """A piece of work is there."""
        if self._working == 0:
            self._last = self._clock()
        self._working += 1

    def end(self, completed: bool = True) -> None:
        """It is done, or given up."""
        self._working -= 1
        if completed:
            now = self._clock()
            since = now - self._last
            if self._seconds:  # a moment in which the whole machine stood still is no pace
                since = min(since, OUTLIER * self._seconds)
            self._seconds += MEMORY * (since - self._seconds)
            self._last = now

    def expected(self, pieces: int) -> float:
        """Seconds until so many pieces are done."""
        return pieces * self._seconds


@dataclass
class _Job(Generic[Item, T]):
    items: Sequence[Item]
    done: asyncio.Future[list[T]]


class Batcher(Generic[Item, T]):
    """Gathers items of concurrent callers for one function of many items.

    Belongs to one event loop. `run` is called in `thread`, never twice at the same time.
    """

    def __init__(
        self,
        run: Callable[[list[Item]], list[T]],
        thread: Threads,
        max_batch: int = 16,
        patience: float = 0.003,
    ) -> None:
        """`patience` in seconds."""
        self._run = run
        self._thread = thread
        self._max_batch = max_batch
        self._patience = patience
        self._waiting: deque[_Job[Item, T]] = deque()
        self._running = False
        self._timer: asyncio.TimerHandle | None = None
        self._coming = 0
        self._interval = patience  # mean time between arrivals, in seconds
        self._last_arrival = 0.0

    @property
    def queued(self) -> int:
        """Items that wait for a call."""
        return sum(len(job.items) for job in self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nobody is running, waiting or on the way."""
        return not (self._running or self._waiting or self._coming)

    def announce(self) -> None:
        """A caller is being prepared and will bring items soon, or `withdraw`."""
        self._coming += 1

    def withdraw(self) -> None:
        """The announced caller will not come."""
        self._coming -= 1
        self._consider()

    async def __call__(self, items: Sequence[Item], announced: bool = False) -> list[T]:
        """The results of `items`, in their order. A cancelled caller leaves the queue."""
        if not items:
            if announced:
                self.withdraw()
            return []
        self._coming -= announced
        now = time.monotonic()
        since = min(now - self._last_arrival, 1.0)
        self._interval += MEMORY * (since - self._interval)
        self._last_arrival = now
        job = _Job(items, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._consider()
        try:
            return await job.done
        except asyncio.CancelledError:
            if job in self._waiting:
                self._waiting.remove(job)
            raise

    def wait(self) -> float:
        """Seconds that the items at hand should still wait for others; 0: go."""
        if self._coming == 0 or self.queued >= self._max_batch or self._interval > self._patience:
            return 0.0
        return min(self._patience, 2 * self._interval)

    def _consider(self) -> None:
        if self._running or not self._waiting:
            return
        seconds = self.wait()
        if seconds <= 0:
            self._go()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._go)

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running:
            return
        jobs: list[_Job[Item, T]] = []
        size = 0
        # a caller's items stay together; one with more than a batch goes alone
        while self._waiting and (not jobs or size + len(self._waiting[0].items) <= self._max_batch):
            jobs.append(self._waiting.popleft())
            size += len(jobs[-1].items)
        if not jobs:
            return
        self._running = True
        asyncio.get_running_loop().create_task(self._call(jobs))

    async def _call(self, jobs: list[_Job[Item, T]]) -> None:
        items = [item for job in jobs for item in job.items]
        try:
            results = await self._thread(self._run, items)
        except BaseException as error:
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)
        else:
            remaining = iter(results)
            for job in jobs:
                share = [next(remaining) for _ in job.items]
                if not job.done.done():
                    job.done.set_result(share)
        finally:
            self._running = False
            self._consider()
