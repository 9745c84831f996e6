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

_QUIET_SECONDS = 10.0
"""between two plain lines"""


def track(
    items: Iterable[T], description: str, total: int | None = None, unit: str = "it"
) -> Iterator[T]:
    """Yield the items while showing how far the work is, on standard error.

    `total` is taken from `len(items)` when it has one. Nothing is listed or held back, so
    endless and streamed inputs work; then only the count and the rate are shown.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    show = _bar if sys.stderr.isatty() else _lines
    yield from show(items, description, total, unit)


def progress_bar(field: str, width: int = 40) -> Any:
    """A bar on standard error, with a field of the task behind its count."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(width),
        progress.MofNCompleteColumn(),
        progress.TextColumn(f"{{task.fields[{field}]}}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
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
    done, shown = 0, 0

    def show() -> None:
        rate = done / max(time.monotonic() - start, 1e-9)
        text = f"{description}: {done}{f'/{total}' if total else ''}, {rate:.1f} {unit}/s"
        if total and done < total:
            text += f", {(total - done) / max(rate, 1e-9):.0f} s left"
        print(text, file=sys.stderr, flush=True)

    for done, item in enumerate(items, 1):
        yield item
        if time.monotonic() - last >= _QUIET_SECONDS:
            last, shown = time.monotonic(), done
            show()
    if shown and shown < done:  # the end of a job that took long enough for lines
        show()
