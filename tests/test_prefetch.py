"""Things made ready by another thread."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from luvli.errors import InputError
from luvli.prefetch import prefetch


def test_prefetching_passes_errors_and_stops_when_left() -> None:
    made = []

    def numbers() -> Iterator[int]:
        for i in range(1000):
            made.append(i)
            yield i
            if i == 500:
                raise InputError("five hundred")

    with pytest.raises(InputError, match="five hundred"):
        list(prefetch(numbers()))
    made.clear()
    for i in prefetch(numbers()):
        if i == 10:
            break
    assert len(made) < 20


def test_a_program_may_end_in_the_middle() -> None:
    """The thread neither keeps the interpreter alive nor is cut off while it works."""
    code = "from itertools import count; from luvli.prefetch import prefetch\n"
    code += "items = prefetch(count()); print(next(items), next(items))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["0", "1"], "")
