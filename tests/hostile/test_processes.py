"""Processes that are killed or forked at the wrong moment: an answer, never a wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import wait_until

from luvli.data.formats import read_pts
from luvli.image.read import read_image


def children(process: int) -> list[int]:
    """Process numbers below one, at any depth."""
    listed = subprocess.run(
        ["ps", "-eww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    found = [int(pid) for pid, parent, args in rows if int(parent) == process and "spawn" in args]
    return found + [deeper for child in found for deeper in children(child)]


SYNTHESIZE = [sys.executable, "-m", "luvli", "data", "synthesize", "--size", "64", "--workers", "2"]


@pytest.mark.slow
def test_ctrl_c_while_processes_start_prints_no_traceback(tmp_path: Path) -> None:
    """A terminal sends it to all of them."""
    process = subprocess.Popen(
        [*SYNTHESIZE, "--faces", "40", "--out", str(tmp_path)],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        # jobs in the background of a shell ignore Ctrl-C, and so would their children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    wait_until(lambda: children(process.pid) or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130 and "Traceback" not in errors


@pytest.mark.slow
def test_a_killed_worker_does_not_stop_the_drawing(tmp_path: Path) -> None:
    """What the kernel does where memory runs out."""
    out = tmp_path / "faces"
    command = [*SYNTHESIZE, "--faces", "16", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(list(out.glob("*.pts"))) >= 2 or process.poll() is not None)
    killed = children(process.pid)[:1]
    assert killed
    for number in killed:
        os.kill(number, signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    for i in range(16):
        assert len(read_pts(out / f"{i:06d}.pts").points) == 68
        assert read_image(out / f"{i:06d}.jpg").shape == (64, 64, 3)


FORKED = """
import multiprocessing, sys
import numpy as np
import luvli
model = luvli.load(sys.argv[1], threads=2)
image = np.random.default_rng(0).integers(0, 255, (1500, 1500, 3), dtype=np.uint8)
boxes = [[100.0 * i, 100, 100.0 * i + 300, 400] for i in range(4)]

def faces(_=0):
    found = [model.predict(image), model.predict(image, boxes)]
    return [face.points.tolist() for each in found for face in each]

if __name__ == "__main__":
    for _ in range(3):
        before = faces()  # until every thread has been started
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for after in pool.map(faces, range(2)):
            # fewer threads add in another order
            np.testing.assert_allclose(after, before, atol=1e-2)
"""


@pytest.mark.parametrize("kind", ["onnx", pytest.param("torch", marks=pytest.mark.slow)])
def test_fork_after_prediction(tiny: dict[str, Path], kind: str) -> None:
    """Threads do not survive a fork, and whoever waits for them waits for ever."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(tiny[kind])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
