"""Threads for an event loop: who works, in which order, and what becomes of the result."""

from __future__ import annotations

import asyncio
import threading

import pytest

from luvli.serving.threads import Threads


def test_a_lone_caller_always_gets_the_same_thread() -> None:
    async def work() -> None:
        threads = Threads(4, "test")
        used = set()
        for _ in range(20):
            used.add(await threads(threading.get_ident))
            await asyncio.sleep(0.002)  # by then it is idle again
        assert len(used) == 1

    asyncio.run(work())


def test_as_many_work_at_once_as_there_are_threads_and_the_rest_waits_in_order() -> None:
    async def work() -> None:
        threads = Threads(2, "test")
        both = threading.Barrier(2, timeout=10)
        go, begun = threading.Event(), []

        def held(number: int) -> int:
            begun.append(number)
            if number < 2:
                both.wait()  # only passes when two are here at the same time
                go.wait(10)
            return number

        waiting = [threads(held, number) for number in range(6)]
        while len(begun) < 2:
            await asyncio.sleep(0.001)
        assert sorted(begun) == [0, 1]
        go.set()
        assert await asyncio.gather(*waiting) == list(range(6))
        assert sorted(begun[2:4]) == [2, 3]

    asyncio.run(work())


def test_what_is_cancelled_before_it_began_never_does() -> None:
    async def work() -> None:
        threads = Threads(1, "test")
        go, done = threading.Event(), []
        first = threads(go.wait, 10)
        second = threads(done.append, 2)
        third = threads(done.append, 3)
        second.cancel()
        go.set()
        await asyncio.gather(first, third)
        assert done == [3]

    asyncio.run(work())


def test_an_error_reaches_its_caller_and_the_thread_goes_on() -> None:
    async def work() -> None:
        threads = Threads(1, "test")
        with pytest.raises(ZeroDivisionError):
            await threads(divmod, 1, 0)
        assert await threads(divmod, 7, 2) == (3, 1)

    asyncio.run(work())


def test_threads_end_when_they_are_let_go() -> None:
    async def work() -> None:
        threads = Threads(2, "leaving")
        assert await threads(max, 1, 2) == 2
        go = threading.Event()
        last = threads(go.wait, 10)
        threads.close()
        go.set()
        assert await last  # what is in work is finished

    asyncio.run(work())
    for thread in threading.enumerate():
        if thread.name.startswith("leaving"):
            thread.join(10)
            assert not thread.is_alive()
