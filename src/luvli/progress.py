"""Progress for long jobs: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeVar

T = TypeVar("T")
Track = Callable[[Iterable[Any]], Iterable[Any]]
"""hands items on while it shows how far they are"""
Watch = Callable[[Iterable[Any], str, int | None], Iterable[Any]]
"""the same of several things: items, what they are, how many"""

_QUIET_SECONDS = 10.0  # between two plain lines


def track(
    items: Iterable[T], description: str, total: int | None = None, unit: str = "it"
) -> Iterator[T]:
    """Yield the items while showing how far the work is, on standard error.

    `total` is taken from `len(items)` when it has one. Nothing is listed or held back, so
    endless and streamed inputs work; then only the count and the rate are shown.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    if sys.stderr.isatty():
        yield from _bar(items, description, total, unit)
    else:
        yield from _lines(items, description, total, unit)


def progress_bar(field: str, width: int = 40) -> Any:
    """A bar on standard error, with a field of the task behind its count."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(width),
        MofNCompleteColumn(),
        TextColumn(f"{{task.fields[{field}]}}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _bar(items: Iterable[T], description: str, total: int | None, unit: str) -> Iterator[T]:
    from rich.markup import escape

    with progress_bar("rate") as progress:
        task = progress.add_task(escape(description), total=total, rate="")
        start = time.monotonic()
        for done, item in enumerate(items, 1):
            yield item
            rate = done / max(time.monotonic() - start, 1e-9)
            progress.update(task, completed=done, rate=f"{rate:.1f} {unit}/s")


def _lines(items: Iterable[T], description: str, total: int | None, unit: str) -> Iterator[T]:
    start = last = time.monotonic()
    done = 0
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - last >= _QUIET_SECONDS:
            last = now
            print(_line(description, done, total, now - start, unit), file=sys.stderr, flush=True)
    if done and last != start:
        line = _line(description, done, total, time.monotonic() - start, unit)
        print(line, file=sys.stderr, flush=True)


def _line(description: str, done: int, total: int | None, seconds: float, unit: str) -> str:
    rate = done / max(seconds, 1e-9)
    text = f"{description}: {done}{f'/{total}' if total else ''}, {rate:.1f} {unit}/s"
    if total and done < total:
        text += f", {(total - done) / max(rate, 1e-9):.0f} s left"
    return text
