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

    def start(self, number: int, ready: asyncio.Event | None = None) -> asyncio.Task[int]:
        async def prepare() -> int:
            if ready is not None:
                await ready.wait()
            return number

        call: Coroutine[Any, Any, int] = self._batcher(prepare())
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


@pytest.mark.parametrize("preparing", [False, True])
async def test_an_image_waits_only_for_others_that_are_prepared(preparing: bool) -> None:
    double = Doubling(1000.0)  # a wait in vain would never end
    ready = asyncio.Event()
    late = [double.start(2, ready)] if preparing else []
    await asyncio.sleep(0)
    early = double.start(1)
    while not preparing and not early.done():
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    ready.set()
    assert await asyncio.gather(early, *late) == ([2, 4] if preparing else [2])
    assert double.calls == ([[1, 2]] if preparing else [[1]])


async def test_nobody_waits_longer_than_the_maximum() -> None:
    double = Doubling(0.01)
    never = double.start(2, asyncio.Event())
    await asyncio.sleep(0)
    assert await double.start(1) == 2
    never.cancel()


async def test_an_error_reaches_its_callers_and_the_next_call_works() -> None:
    double = Doubling()
    with pytest.raises(ValueError, match="minus one"):
        await double.start(-1)
    assert await double.start(4) == 8
