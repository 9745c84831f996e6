"""How this process asks the system for memory."""

from __future__ import annotations

import ctypes
import sys

MMAP_THRESHOLD, LARGEST_CHUNK = -3, 32 << 20
TRIM_THRESHOLD, LARGEST_REST = -1, 64 << 20
"""names of glibc's settings, and their values in bytes"""


def keep_freed_memory() -> bool:
    """Let memory that is given back wait for the next who asks, up to 64 MB -> whether it will.

    Looking for faces takes tens of megabytes and gives them back, image after image. The C library
    hands such chunks to the system, which has to clear each of their pages when they are asked
    for again: a third of the time of an image, or nothing, by the luck of what else lies at the
    end of the heap. For programs that do nothing else; it is theirs to decide, so the library
    itself leaves this alone. Chunks above 32 MB still go back at once.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
        kept = mallopt(MMAP_THRESHOLD, LARGEST_CHUNK), mallopt(TRIM_THRESHOLD, LARGEST_REST)
        return all(kept)
    except (OSError, AttributeError):  # another C library
        return False
