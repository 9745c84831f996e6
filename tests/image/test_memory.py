"""How much memory the largest images take, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").is_file(), reason="memory is measured on Linux only"
)

# Linux's high-water mark of this program alone; getrusage tells that of its parent too.
START = """
import sys
import numpy as np
from luvli.image import Box, Crop
from luvli.image.detect import YuNet
from luvli.image.photograph import Photograph
def peak():
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0]) / 1024
find = YuNet()
find(np.zeros((960, 960, 3), np.uint8))
"""


def megabytes(program: str, *arguments: str) -> float:
    code = f"{START}{program}\nprint(peak() - before)"
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return float(run.stdout)


@pytest.mark.parametrize("shape", [(2, 20_000), (7_500, 20_000)])
def test_detection_takes_little_memory(shape: tuple[int, int]) -> None:
    """Faceless, so that every look is taken."""
    image = f"image = np.zeros({(*shape, 3)}, np.uint8); image += 1\nbefore = peak()\n"
    assert megabytes(image + "assert find(image) == []") < 120


def test_a_large_photograph_takes_little_memory(
    tmp_path: Path, astronaut: NDArray[np.uint8]
) -> None:
    """24 megapixels with a large face: far below the 72 MB that its pixels take, whole."""
    path = tmp_path / "large.jpg"
    tall = cv2.resize(astronaut[:300, 30:430], (6000, 4000), interpolation=cv2.INTER_LINEAR)
    Image.fromarray(np.asarray(tall, np.uint8)).save(path, quality=90)
    program = """
before = peak()
photograph = Photograph(sys.argv[1])
assert len(find(photograph.overview(960).image)) == 1
photograph.warp(Crop.from_box(Box(2200, 900, 3800, 2500), 128, 1.25))
"""
    assert megabytes(program, str(path)) < 60
