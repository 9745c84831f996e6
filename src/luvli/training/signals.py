"""SIGTERM and Ctrl-C ask the loop to stop after the step that it is in."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(Exception):
    """A signal asked the run to end; everything it did is in its last checkpoint."""


class Stop:
    """Whether a signal came."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Within the block SIGTERM and SIGINT only set `asked`; a second Ctrl-C ends at once."""
    stop = Stop()

    def note(number: int, frame: Any) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.asked = True

    try:
        before = {number: signal.signal(number, note) for number in _SIGNALS}
    except ValueError:  # not in the main thread: signals are somebody else's
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
