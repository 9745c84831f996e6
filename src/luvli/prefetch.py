"""Making things ready while others are in use."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Full, Queue
from typing import Any, TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T], ahead: int = 4) -> Iterator[T]:
    """The items, made by another thread while the last one is in use, at most `ahead` of them.

    An error in making them is raised here; whoever stops asking ends the thread.

    >>> list(prefetch(range(3)))
    [0, 1, 2]
    """
    ready: Queue[Any] = Queue(maxsize=ahead)
    gone, main = threading.Event(), threading.main_thread()
    end = object()

    def put(item: Any) -> bool:
        while not gone.is_set() and main.is_alive():  # not after the end of the program
            try:
                ready.put(item, timeout=0.2)
                return True
            except Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(end)
        except BaseException as error:  # handed over, so that the reader fails, not the thread
            put(error)

    # the end of the program waits for it: libraries that are unloaded under a thread abort
    thread = threading.Thread(target=work)
    thread.start()
    try:
        while True:
            item = ready.get()
            if item is end:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        gone.set()
        thread.join(timeout=5.0)
