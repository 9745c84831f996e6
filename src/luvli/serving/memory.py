"""Freed memory back to the system, again and again.

The C library keeps what a thread has freed for that thread's next wish. Decoding, detection and
the network each have threads of their own, whose highest wishes fall into different moments: for
hours the process grows towards the sum of them, though what it uses stays the same.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

SECONDS = 5.0
"""between two times; each takes some milliseconds"""


def find_trim() -> Callable[[], object] | None:
    """The C library's own function; None where it has none (only glibc has it)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # TypeError: Windows
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return lambda: trim(0)


async def keep_small(work_done: Callable[[], float], seconds: float = SECONDS) -> None:
    """Give freed memory back every few seconds in which something was done; never ends.

    `work_done` counts: while it stays the same nothing is freed, and nothing happens.
    """
    trim = find_trim()
    if trim is None:
        return
    done_before = -1.0
    while True:
        done = work_done()
        if done != done_before:
            # in a thread: the event loop need not wait for it
            await asyncio.get_running_loop().run_in_executor(None, trim)
        done_before = done
        await asyncio.sleep(seconds)
