"""Micro-batching: the faces of concurrent requests share one call of the network.

One call runs at a time. Images that arrive while it runs go together into the next call. When the
network is free, an image waits for others only if some are being prepared, and at most `max_wait`
seconds: a lone client never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Item = TypeVar("Item")
_Output = TypeVar("_Output")


class Batcher(Generic[Item, _Output]):
    """Collects the items of concurrent callers for a function of many items.

    Belongs to one event loop. `function` runs in `thread`, an executor with one thread.
    """

    def __init__(
        self,
        function: Callable[[list[Item]], Sequence[_Output]],
        thread: Executor,
        max_batch: int,
        max_wait: float,
        more_expected: Callable[[], bool],
    ) -> None:
        """`more_expected()` tells whether it is worth waiting, up to `max_wait` seconds."""
        self._function = function
        self._thread = thread
        self._max_batch = max_batch
        self._max_wait = max_wait
        self._more_expected = more_expected
        self._queue: asyncio.Queue[tuple[Item, asyncio.Future[_Output]]] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> _Output:
        """The output of an item; that of a cancelled caller is skipped."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Output] = loop.create_future()
        self._queue.put_nowait((item, future))
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._run_batches())
        return await future

    async def _run_batches(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._queue.empty():
            batch = await self._next_batch()
            try:
                items = [item for item, _ in batch]
                outputs = await loop.run_in_executor(self._thread, self._function, items)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), output in zip(batch, outputs, strict=True):
                    if not future.done():
                        future.set_result(output)

    async def _next_batch(self) -> list[tuple[Item, asyncio.Future[_Output]]]:
        batch: list[tuple[Item, asyncio.Future[_Output]]] = []
        deadline = asyncio.get_running_loop().time() + self._max_wait
        while len(batch) < self._max_batch and not (
            self._queue.empty() and (batch == [] or not self._more_expected())
        ):
            try:
                async with asyncio.timeout_at(deadline if self._queue.empty() else None):
                    item, future = await self._queue.get()
            except TimeoutError:
                break
            if not future.done():  # a cancelled caller's is done
                batch.append((item, future))
        return batch
