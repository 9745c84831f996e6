"""Threads that work for an event loop, the one that worked last first.

A thread that goes on where it was finds its core's caches full of the network's weights; one that
wakes up on another core takes a tenth longer for a face. So when there is little to do, always the
same thread does it, which `ThreadPoolExecutor` does not: its threads take turns. And what
`run_in_executor` does with two futures and two turns of the event loop is done here with one.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]
_Inbox = queue.SimpleQueue[_Job | None]


class Threads:
    """`count` threads, each of which does one piece of work at a time.

    >>> async def work() -> int:
    ...     return await Threads(2, "example")(max, 3, 4)
    >>> asyncio.run(work())
    4
    """

    def __init__(self, count: int, name: str) -> None:
        self._turn = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._inboxes: list[_Inbox] = [queue.SimpleQueue() for _ in range(count)]
        self._idle = list(self._inboxes)
        """inboxes of the threads that have nothing to do, the last one to finish at the end"""
        self._closed = False
        for number, inbox in enumerate(self._inboxes):
            thread = threading.Thread(target=self._work, args=(inbox,), daemon=True)
            thread.name = f"{name}-{number}"
            thread.start()

    def __call__(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Its result, in time; cancelled before it began, it never does."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        job = loop, done, work, arguments
        with self._turn:
            if self._idle:
                self._idle.pop().put(job)
            else:
                self._waiting.append(job)
        return done

    def close(self) -> None:
        """Let the threads go when they have done what is in work; what waits is left."""
        with self._turn:
            self._closed = True
            self._waiting.clear()
            for inbox in self._idle:
                inbox.put(None)
            self._idle.clear()

    def _work(self, inbox: _Inbox) -> None:
        while (job := inbox.get()) is not None:
            while job is not None:
                _do(*job)
                job = self._next(inbox)  # nothing of a request is held while it is idle
            if self._closed:
                return

    def _next(self, inbox: _Inbox) -> _Job | None:
        """What waits; or None, and then whoever comes finds this thread idle."""
        with self._turn:
            if self._waiting:
                return self._waiting.popleft()
            if not self._closed:
                self._idle.append(inbox)
            return None


def _do(
    loop: asyncio.AbstractEventLoop,
    done: asyncio.Future[Any],
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """One piece of work, and word of it to the event loop."""
    if done.cancelled():
        return
    value: Any
    error: BaseException | None = None
    try:
        value = work(*arguments)
    except BaseException as raised:
        value, error = None, raised
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_tell, done, value, error)


def _tell(done: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(error)
