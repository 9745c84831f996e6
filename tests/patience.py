"""Waiting in tests, on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 1800.0
"""The longest wait of a test. It ends tests that would wait for ever, and is far above what any
machine takes: no test may fail because others share the cores."""


def wait_until(condition: Callable[[], object]) -> None:
    """Until the condition holds."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
