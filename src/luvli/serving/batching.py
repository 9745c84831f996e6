"""Micro-batching: the images of concurrent requests share one call of the model.

One call runs at a time. Images that arrive while it runs go together into the next call, so a lone
client never waits. With `max_wait` a call also waits for images that may come.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answered = TypeVar("Answered")


class Batcher(Generic[Item, Answered]):
    """Collects the items of concurrent callers for a function of many items.

    Belongs to one event loop. `function` runs in `thread`, an executor with one thread.
    """

    def __init__(
        self,
        function: Callable[[list[Item]], Sequence[Answered]],
        thread: Executor,
        max_batch: int,
        max_wait: float,
    ) -> None:
        self._function = function
        self._thread = thread
        self._max_batch = max_batch
        self._max_wait = max_wait
        self._queue: asyncio.Queue[tuple[Item, asyncio.Future[Answered]]] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Answered:
        """The output of an item; that of a cancelled caller is skipped."""
        loop = asyncio.get_running_loop()
        self._worker = self._worker or loop.create_task(self._work())
        future: asyncio.Future[Answered] = loop.create_future()
        self._queue.put_nowait((item, future))
        return await future

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [waiting for waiting in await self._next_batch() if not waiting[1].done()]
            if not batch:  # all callers were cancelled
                continue
            items = [item for item, _ in batch]
            try:
                outputs = await loop.run_in_executor(self._thread, self._function, items)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), output in zip(batch, outputs, strict=True):
                    if not future.done():
                        future.set_result(output)

    async def _next_batch(self) -> list[tuple[Item, asyncio.Future[Answered]]]:
        batch = [await self._queue.get()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._max_wait):
                while len(batch) < self._max_batch and (self._max_wait or self._queue.qsize()):
                    batch.append(await self._queue.get())
        return batch
