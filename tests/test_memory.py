"""Memory that is given back and asked for again, image after image."""

from __future__ import annotations

import subprocess
import sys

import pytest

ROUNDS = """
import resource, sys
import numpy as np
from luvli.memory import keep_freed_memory
if sys.argv[1] == "keep":
    print(keep_freed_memory())
def images(count):
    for _ in range(count):
        held = [np.ones(6 << 20, np.uint8) for _ in range(4)]
        del held
images(5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
images(20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def rounds(how: str) -> list[str]:
    command = [sys.executable, "-c", ROUNDS, how]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_kept_memory_is_not_asked_for_again() -> None:
    """Twenty times 24 MB are 120,000 pages, each of which the system would have to clear."""
    kept, faults = rounds("keep")
    if kept != "True":
        pytest.skip("another C library")
    (usual,) = rounds("leave")
    assert int(faults) < 200
    assert int(usual) > 10_000, "nothing to gain here: the C library has changed"
