"""Micro-batching: who shares a call, who waits, and for how long."""

from __future__ import annotations

import asyncio
import threading

import pytest

from luvli.serving.batching import Batcher, Pace
from luvli.serving.threads import Threads


class Doubler:
    """Doubles numbers; remembers the calls, and can be held up."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, items: list[int]) -> list[int]:
        self.go.wait(10)
        self.calls.append(list(items))
        if -1 in items:
            raise ValueError("minus one")
        return [2 * item for item in items]


def make(double: Doubler, max_batch: int = 4, patience: float = 0.05) -> Batcher[int, int]:
    return Batcher(double, Threads(1, "test"), max_batch, patience)


def test_a_lone_caller_does_not_wait() -> None:
    async def work() -> None:
        double = Doubler()
        batcher = make(double, patience=30.0)  # a wait would be noticed
        async with asyncio.timeout(5):
            assert await batcher([1]) == [2]
            assert await batcher([2, 3]) == [4, 6]
        assert double.calls == [[1], [2, 3]]

    asyncio.run(work())


def test_callers_share_a_call_and_get_their_own() -> None:
    async def work() -> None:
        double = Doubler()
        double.go.clear()
        batcher = make(double, max_batch=6)
        first = asyncio.ensure_future(batcher([0]))
        await asyncio.sleep(0.01)  # it runs, and the others gather behind it
        others = [asyncio.ensure_future(batcher([i, 10 * i])) for i in range(1, 5)]
        await asyncio.sleep(0.01)
        assert batcher.queued == 8
        double.go.set()
        assert await first == [0]
        assert await asyncio.gather(*others) == [[2 * i, 20 * i] for i in range(1, 5)]
        assert double.calls == [[0], [1, 10, 2, 20, 3, 30], [4, 40]]

    asyncio.run(work())


def test_a_face_waits_for_those_that_are_announced_but_not_forever() -> None:
    async def work() -> None:
        double = Doubler()
        batcher = make(double, patience=0.05)
        for _ in range(40):  # a crowd: arrivals follow each other closely
            await batcher([0])
        double.calls.clear()
        batcher.announce()
        batcher.announce()
        early = asyncio.ensure_future(batcher([1], announced=True))
        await asyncio.sleep(0)
        assert batcher.queued == 1 and batcher.wait() > 0
        late = asyncio.ensure_future(batcher([2], announced=True))
        assert await asyncio.gather(early, late) == [[2], [4]]
        assert double.calls == [[1, 2]]
        batcher.announce()  # and never comes
        async with asyncio.timeout(5):
            assert await batcher([3]) == [6]

    asyncio.run(work())


def test_a_withdrawn_caller_is_not_waited_for() -> None:
    async def work() -> None:
        batcher = make(Doubler(), patience=1.0)
        for _ in range(40):
            await batcher([0])
        batcher.announce()
        waiting = asyncio.ensure_future(batcher([1]))
        await asyncio.sleep(0)
        batcher.withdraw()
        assert batcher.queued == 0  # it went at once
        assert await waiting == [2]

    asyncio.run(work())


def test_a_cancelled_caller_leaves_the_queue() -> None:
    async def work() -> None:
        double = Doubler()
        double.go.clear()
        batcher = make(double)
        first = asyncio.ensure_future(batcher([0]))
        await asyncio.sleep(0.01)
        gone = asyncio.ensure_future(batcher([1]))
        stays = asyncio.ensure_future(batcher([2]))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.sleep(0.01)
        double.go.set()
        assert await first == [0] and await stays == [4]
        assert double.calls == [[0], [2]]

    asyncio.run(work())


def test_an_error_reaches_its_callers_and_the_next_call_works() -> None:
    async def work() -> None:
        batcher = make(Doubler())
        with pytest.raises(ValueError, match="minus one"):
            await batcher([-1])
        assert await batcher([4]) == [8]

    asyncio.run(work())


def test_more_items_than_a_batch_go_alone() -> None:
    async def work() -> None:
        double = Doubler()
        batcher = make(double, max_batch=2)
        assert await batcher(list(range(5))) == [0, 2, 4, 6, 8]
        assert await batcher([]) == []

    asyncio.run(work())


def test_pace_settles_at_the_time_of_one_piece_and_forgets_pauses() -> None:
    now = 0.0
    pace = Pace(lambda: now)
    assert pace.expected(100) == 0  # nothing known: nobody is turned away
    for _ in range(60):
        now += 1000.0  # a pause without work does not count
        pace.begin()
        pace.begin()
        for _ in range(2):
            now += 0.5
            pace.end()
    assert pace.expected(10) == pytest.approx(5.0, rel=1e-3)
    pace.begin()
    now += 7.0
    pace.end(completed=False)  # given up by its client: says nothing of the pace
    assert pace.expected(10) == pytest.approx(5.0, rel=1e-3)


def test_pace_takes_a_moment_for_a_moment_and_slow_work_for_slow() -> None:
    now = 0.0
    pace = Pace(lambda: now)
    pace.begin()

    def complete(seconds: float) -> None:
        nonlocal now
        pace.begin()
        now += seconds
        pace.end()

    for _ in range(60):
        complete(0.005)
    complete(20.0)  # the machine stood still
    assert pace.expected(64) < 1.0  # nobody is turned away for it
    for _ in range(40):
        complete(2.0)
    assert pace.expected(1) == pytest.approx(2.0, rel=0.05)
