"""Work in a fork of this process, which has loaded what it needs and loses nothing if it dies."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable


def fork(work: Callable[[], object], errors: int = 2) -> int:
    """The process number of a fork that does some work and exits with its code."""
    if pid := os.fork():
        return pid
    code = 70
    try:
        os.dup2(errors, 2)
        code = 0 if work() is None else 1
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)
