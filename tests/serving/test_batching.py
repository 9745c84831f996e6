"""Micro-batching: who shares a call, and who waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from luvli.serving.batching import Batcher

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Doubling:
    """Doubles numbers in batches of at most four, records the calls, and can be held up."""

    def __init__(self, max_wait: float = 0.0) -> None:
        self.calls: list[list[int]] = []
        self.go, self.begun = threading.Event(), threading.Event()
        self.go.set()
        self._batcher = Batcher(self._double, ThreadPoolExecutor(1), 4, max_wait)

    def _double(self, items: list[int]) -> list[int]:
        self.begun.set()
        self.go.wait()
        self.calls.append(items)
        if -1 in items:
            raise ValueError("minus one")
        return [2 * item for item in items]

    def start(self, number: int) -> asyncio.Task[int]:
        call: Coroutine[Any, Any, int] = self._batcher(number)
        return asyncio.ensure_future(call)


async def test_callers_share_a_call_get_their_own_and_cancelled_ones_are_skipped() -> None:
    double = Doubling()
    double.go.clear()
    first = double.start(0)
    while not double.begun.is_set():  # it runs, and the others queue behind it
        await asyncio.sleep(0)
    others = [double.start(i) for i in range(1, 7)]
    await asyncio.sleep(0)
    others.pop(2).cancel()
    await asyncio.sleep(0)
    double.go.set()
    assert await first == 0
    assert await asyncio.gather(*others) == [2, 4, 8, 10, 12]
    assert double.calls == [[0], [1, 2, 4], [5, 6]]


async def test_who_is_alone_does_not_wait_and_others_are_waited_for_if_wanted() -> None:
    assert await Doubling().start(1) == 2
    double = Doubling(max_wait=1000.0)  # ends when four have come
    early = double.start(1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert await asyncio.gather(early, *map(double.start, (2, 3, 4))) == [2, 4, 6, 8]
    assert double.calls == [[1, 2, 3, 4]]
    assert await Doubling(max_wait=0.01).start(1) == 2  # nobody came in that time


async def test_an_error_reaches_its_callers_and_the_next_call_works() -> None:
    double = Doubling()
    with pytest.raises(ValueError, match="minus one"):
        await double.start(-1)
    assert await double.start(4) == 8
