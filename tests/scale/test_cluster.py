"""A real Ray cluster of two nodes with one core each, in this machine.

Starting it takes half a minute of processor time, so all tests share it, and all are slow. Where
Ray is missing, or the machine too busy to start a node within Ray's own limits, they are skipped.
`LUVLI_KILLS` sets the number of kills; 20 take some minutes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from luvli.image.write import write_image

from .conftest import NODE, rows_of

pytest.importorskip("ray", reason="needs Ray (extra scale)")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="kills processes by POSIX signals"),
]

KILLS = int(os.environ.get("LUVLI_KILLS", "3"))


@pytest.fixture(scope="module")
def many(astronaut: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty images and one that is none."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(30):
        view = astronaut[0:260, 110 + 2 * number : 370 + 2 * number]
        write_image(folder / f"{number:02d}.jpg", np.ascontiguousarray(view))
    (folder / "broken.jpg").write_bytes(b"nonsense")
    return folder


@pytest.fixture(scope="module")
def alone(many: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Rows of the single-machine command."""
    out = tmp_path_factory.mktemp("alone")
    done = _luvli("predict", many, "--format", "parquet", "--out", out)
    assert done.wait() == 1
    return rows_of(out / "faces.parquet")


def _luvli(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "luvli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _on(cluster: Any, source: Path, out: Path, size: int = 3) -> subprocess.Popen[str]:
    return _luvli(
        "predict", source, "--engine", "ray", "--address", cluster.address, "--part-size", size,
        "--out", out,
    )  # fmt: skip


def test_a_cluster_gives_the_numbers_of_one_machine(
    cluster: Any, many: Path, alone: list[dict[str, Any]], tmp_path: Path
) -> None:
    done = _on(cluster, many, tmp_path / "out")
    text = done.communicate(timeout=240)[0]
    assert done.returncode == 1, text  # as on one machine: a file failed
    assert "rows in 31 = rows out 30 + failures 1: complete" in text
    assert "broken.jpg is not an image" in " ".join(text.split())
    assert rows_of(tmp_path / "out") == alone
    assert "broken.jpg" in (tmp_path / "out/_failed.txt").read_text()


def test_kills_lose_nothing_and_double_nothing(
    cluster: Any, many: Path, alone: list[dict[str, Any]], tmp_path: Path
) -> None:
    chance = random.Random(7)
    out = tmp_path / "out"
    driver = _on(cluster, many, out)
    kills: list[str] = []
    while len(kills) < KILLS:
        time.sleep(chance.uniform(1.0, 8.0))
        if driver.poll() is not None:  # it got through: from the start, with other parts missing
            assert driver.returncode == 1, driver.communicate()[0]
            for file in chance.sample(sorted(out.rglob("part-*/*.parquet")), 6):
                file.unlink()
            driver = _on(cluster, many, out)
            continue
        kind = chance.choice(["driver", "worker", "reader", "node"])
        if kind == "driver":
            driver.kill()
            driver.wait()
            driver = _on(cluster, many, out)
        elif kind == "node":
            cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
            cluster.add_node(**NODE)
        elif not _kill_one("ray::" if kind == "worker" else "luvli.scale.isolated", chance):
            continue
        kills.append(kind)
    while driver.wait(timeout=600) != 1:
        driver = _on(cluster, many, out)
    assert rows_of(out) == alone, kills
    assert len(list(out.rglob("part-*/*.parquet"))) == 11


def _kill_one(mark: str, chance: random.Random) -> bool:
    """Kill a process of this cluster whose command has the mark -> whether there was one."""
    import psutil

    ours = [p for p in psutil.Process().children(recursive=True) if mark in _command(p)]
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


@pytest.fixture(scope="module")
def clip(astronaut: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A face that moves through 24 frames, with a key frame at every sixth."""
    av = pytest.importorskip("av", reason="needs PyAV (extra video)")
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=25, options={"g": "6", "crf": "20"})
        stream.width, stream.height, stream.pix_fmt = 260, 260, "yuv420p"
        for number in range(24):
            view = np.ascontiguousarray(astronaut[0:260, 110 + 2 * number : 370 + 2 * number])
            out.mux(stream.encode(av.VideoFrame.from_ndarray(view, format="rgb24")))
        out.mux(stream.encode(None))
    return path


def test_a_video_on_a_cluster(cluster: Any, clip: Path, tmp_path: Path) -> None:
    """In one part: the rows of one machine. In four: its frames, times and tracks; faces of a
    later part are found anew, so that they differ by as much as the detector's boxes do."""
    alone = _luvli("predict", clip, "--format", "parquet", "--out", tmp_path / "alone")
    assert alone.wait(timeout=240) == 0
    (file,) = (tmp_path / "alone").glob("*.parquet")
    expected = rows_of(file)
    for size, parts in ((30, 1), (6, 4)):
        out = tmp_path / f"out{size}"
        done = _on(cluster, clip, out, size)
        text = done.communicate(timeout=240)[0]
        assert done.returncode == 0, text
        assert "rows in 24 = rows out 24 + failures 0: complete" in text
        assert len(list(out.rglob("part-*/*.parquet"))) == parts
        rows = rows_of(out)
        if parts == 1:
            assert rows == expected
        for ours, theirs in zip(rows, expected, strict=True):
            same = ("image", "frame", "time", "track", "status")
            assert [ours[key] for key in same] == [theirs[key] for key in same]
            np.testing.assert_allclose(ours["points"], theirs["points"], atol=2.0)


def test_no_cluster_at_the_address_is_one_sentence(many: Path, tmp_path: Path) -> None:
    done = _luvli(
        "predict", many, "--engine", "ray", "--address", "127.0.0.1:1", "--out", tmp_path / "o"
    )
    text = done.communicate(timeout=60)[0]
    assert done.returncode == 2, text
    assert "there is no Ray cluster at 127.0.0.1:1" in " ".join(text.split())
