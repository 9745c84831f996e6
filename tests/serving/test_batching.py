"""Micro-batching: who shares a call, and who waits."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from luvli.serving.batching import Batcher


class Doubler:
    """Doubles numbers, records the calls, and can be held up."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Event()

    def __call__(self, items: list[int]) -> list[int]:
        self.begun.set()
        self.go.wait()
        self.calls.append(items)
        if -1 in items:
            raise ValueError("minus one")
        return [2 * item for item in items]


class Doubling:
    """A batcher of at most four, for numbers that are ready."""

    def __init__(self, double: Doubler, wait: float = 0.0) -> None:
        self.batcher = Batcher(double, ThreadPoolExecutor(1), 4, wait)

    async def __call__(self, number: int, ready: asyncio.Event | None = None) -> int:
        async def prepare() -> int:
            if ready is not None:
                await ready.wait()
            return number

        return await self.batcher(prepare())


def test_callers_share_a_call_get_their_own_and_cancelled_ones_are_skipped() -> None:
    async def work() -> None:
        double = Doubler()
        double.go.clear()
        batcher = Doubling(double)
        first = asyncio.ensure_future(batcher(0))
        while not double.begun.is_set():  # it runs, and the others queue behind it
            await asyncio.sleep(0)
        others = [asyncio.ensure_future(batcher(i)) for i in range(1, 7)]
        await asyncio.sleep(0)
        others.pop(2).cancel()
        await asyncio.sleep(0)
        double.go.set()
        assert await first == 0
        assert await asyncio.gather(*others) == [2, 4, 8, 10, 12]
        assert double.calls == [[0], [1, 2, 4], [5, 6]]

    asyncio.run(work())


@pytest.mark.parametrize("preparing", [False, True])
def test_an_image_waits_only_for_others_that_are_prepared(preparing: bool) -> None:
    async def work() -> None:
        double = Doubler()
        batcher = Doubling(double, 1000.0)  # a wait in vain would never end
        ready = asyncio.Event()
        late = [asyncio.ensure_future(batcher(2, ready))] if preparing else []
        await asyncio.sleep(0)
        early = asyncio.ensure_future(batcher(1))
        while not preparing and not early.done():
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        ready.set()
        assert await asyncio.gather(early, *late) == ([2, 4] if preparing else [2])
        assert double.calls == ([[1, 2]] if preparing else [[1]])

    asyncio.run(work())


def test_nobody_waits_longer_than_the_maximum() -> None:
    async def work() -> None:
        batcher = Doubling(Doubler(), 0.01)
        never = asyncio.ensure_future(batcher(2, asyncio.Event()))
        await asyncio.sleep(0)
        assert await batcher(1) == 2
        never.cancel()

    asyncio.run(work())


def test_an_error_reaches_its_callers_and_the_next_call_works() -> None:
    async def work() -> None:
        batcher = Doubling(Doubler())
        with pytest.raises(ValueError, match="minus one"):
            await batcher(-1)
        assert await batcher(4) == 8

    asyncio.run(work())
