"""Making things ready while others are in use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T], ahead: int = 4) -> Iterator[T]:
    """The items, made by another thread while the last one is in use, at most `ahead` of them.

    An error in making them is raised here; whoever stops asking ends the thread.

    >>> list(prefetch(range(3)))
    [0, 1, 2]
    """
    source, end = iter(items), object()
    with ThreadPoolExecutor(1) as helper:
        ready = deque(helper.submit(next, source, end) for _ in range(ahead))
        try:
            while (item := ready.popleft().result()) is not end:
                ready.append(helper.submit(next, source, end))
                value: Any = item
                yield value
        finally:
            for waiting in ready:
                waiting.cancel()
