"""A real Ray cluster of two nodes with one core each, in this machine.

A cluster costs ten seconds of processor time and each start of a job thirty, so that all tests
share the one and one job shows all. Where Ray is missing, or the machine too busy to start a node
within Ray's own limits, they are skipped. `LUVLI_KILLS` sets the number of kills: 20 take some
minutes, 0 is a job that nobody disturbs.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from patience import SECONDS
from typer.testing import CliRunner, Result

from luvli.cli import app
from luvli.image.write import write_image

from .conftest import NODE, rows_of

pytest.importorskip("ray", reason="needs Ray (extra scale)")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.seconds(20),
    pytest.mark.skipif(sys.platform == "win32", reason="kills processes by POSIX signals"),
]

KILLS = int(os.environ.get("LUVLI_KILLS", "4"))
KINDS = ("worker", "node", "reader", "driver")
WORKERS = ("ray::Map", "ray::FlatMap", "ray::IDLE")
"""names of processes that work, or have worked, for a job"""
SIDE, FRAMES = 260, 24


@pytest.fixture(scope="module")
def many(astronaut: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty images and one that is none; a video with a key frame at every sixth frame, which is
    cut there, and one with a single key frame, which cannot be cut."""
    folder = tmp_path_factory.mktemp("many")
    views = [
        np.ascontiguousarray(astronaut[0:SIDE, 110 + 2 * n : 110 + SIDE + 2 * n]) for n in range(30)
    ]
    for number, view in enumerate(views):
        write_image(folder / f"images/{number:02d}.jpg", view)
    (folder / "images/broken.jpg").write_bytes(b"nonsense")
    _write_video(folder / "cut.mp4", views[:FRAMES], 6)
    _write_video(folder / "whole.mp4", views[:FRAMES], 250)
    return folder


def _write_video(path: Path, images: list[NDArray[np.uint8]], key_every: int) -> None:
    av = pytest.importorskip("av", reason="needs PyAV (extra video)")
    options = {"g": str(key_every), "sc_threshold": "0", "crf": "20"}
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = SIDE, SIDE, "yuv420p"
        for image in images:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        out.mux(stream.encode(None))


@pytest.fixture(scope="module")
def alone(many: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Rows of the single-machine command."""
    out = tmp_path_factory.mktemp("alone")
    options = ["--format", "parts", "--out", str(out)]
    done = CliRunner().invoke(app, ["predict", str(many), *options])
    assert done.exit_code == 1, done.output
    return rows_of(out)


def _on(cluster: Any, source: Path, out: Path) -> subprocess.Popen[str]:
    """The command, of images two by two."""
    command = [sys.executable, "-m", "luvli", "predict", source, "--engine", "ray", "--out", out,
               "--part-size", 2]  # fmt: skip
    return subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, "RAY_ADDRESS": cluster.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _from(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [row for row in rows if f"/{name}" in row["image"]]


def test_kills_lose_nothing_double_nothing_and_change_no_number(
    cluster: Any, many: Path, alone: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Images and a video in one part: every row is that of one machine. A video in four parts:
    its frames, times and tracks; faces of a later part are found anew, so that they differ by as
    much as the detector's boxes do."""
    out = tmp_path / "out"
    driver, kills = _killed(cluster, many, out)
    for _ in range(3):  # whoever was hit by the last kills
        text = driver.communicate(timeout=SECONDS)[0]
        if driver.returncode == 1:
            break
        driver = _on(cluster, many, out)
    assert driver.returncode == 1, text  # as on one machine: a file failed
    count = 30 + 2 * FRAMES
    assert f"images in {count + 1} = done {count} + failed 1" in text, kills
    assert "broken.jpg is not an image" in " ".join(text.split())
    assert "core_worker" not in text and "logging.cc" not in text, "Ray's own messages"
    assert "broken.jpg" in (out / "failed.txt").read_text()
    assert len(list(out.glob("part-*.parquet"))) == 16 + 4 + 1
    rows = rows_of(out)
    for name, number in (("images/", 31), ("whole.mp4", FRAMES)):
        assert len(_from(rows, name)) == number, kills
        assert _from(rows, name) == _from(alone, name), kills
    for ours, theirs in zip(_from(rows, "cut.mp4"), _from(alone, "cut.mp4"), strict=True):
        same = ("image", "frame", "time", "track", "status")
        assert [ours[key] for key in same] == [theirs[key] for key in same]
        apart = np.subtract(ours["points"], theirs["points"]).reshape(-1, 2)
        assert np.linalg.norm(apart, axis=1).mean() < 1.0
        # and nowhere further than the network itself says it may be: some points slide on a line
        inverse = np.linalg.inv(np.reshape(theirs["covariance"], (-1, 2, 2)))
        assert np.sqrt(np.einsum("ki,kij,kj->k", apart, inverse, apart)).max() < 2.0


def _killed(cluster: Any, source: Path, out: Path) -> tuple[subprocess.Popen[str], list[str]]:
    """A job of which something is killed now and then: the driver of the rest, and what was."""
    chance = random.Random(7)
    driver = _on(cluster, source, out)
    kinds = list(KINDS)
    kills: list[str] = []
    while len(kills) < KILLS:
        # after a few further parts; none: whatever is starting just now
        _wait_for_parts(out, _parts(out) + chance.randint(0, 4), driver)
        if driver.poll() is not None:  # it got through: from the start, with other parts missing
            assert driver.returncode == 1, driver.communicate()[0]
            for file in chance.sample(sorted(out.glob("part-*.parquet")), 12):
                file.unlink()
            driver = _on(cluster, source, out)
            continue
        kind = kinds[len(kills) % len(kinds)]
        if kind == "driver":
            driver.kill()
            driver.wait()
            driver = _on(cluster, source, out)
        elif kind == "node":
            cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
            cluster.add_node(**NODE)
        elif not _kill_one(
            WORKERS if kind == "worker" else ("luvli.prediction.executors",), chance
        ):
            time.sleep(0.2)
            continue
        kills.append(kind)
        if len(kills) % len(kinds) == 0:
            chance.shuffle(kinds)
    return driver, kills


def _parts(out: Path) -> int:
    return len(list(out.rglob("part-*[0-9].*")))


def _wait_for_parts(out: Path, number: int, driver: subprocess.Popen[str]) -> None:
    """Until so many parts are there, or the driver has ended."""
    deadline = time.monotonic() + 120
    while _parts(out) < number and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)


def _kill_one(marks: tuple[str, ...], chance: random.Random) -> bool:
    """Kill a process of this cluster whose command has a mark -> whether there was one."""
    import psutil

    children = psutil.Process().children(recursive=True)
    ours = [p for p in children if any(mark in _command(p) for mark in marks)]
    if not ours:
        return False
    os.kill(chance.choice(ours).pid, signal.SIGKILL)
    return True


def _command(process: Any) -> str:
    import psutil

    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_no_cluster_at_the_address_is_one_sentence(
    many: Path, luvli: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "o"
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    done = luvli("predict", many, "--engine", "ray", "--out", out)
    assert done.exit_code == 2, done.output
    assert "there is no Ray cluster at 127.0.0.1:1" in " ".join(done.output.split())
    assert not out.exists(), "nothing is left behind"
