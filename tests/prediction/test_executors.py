"""Processes that die, hang or outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from patience import wait_until

from luvli.image.box import Box
from luvli.prediction.executors import InProcess, IsolatedWorker, Processes
from luvli.prediction.inputs import Inputs
from luvli.prediction.job import PredictJob
from luvli.prediction.parts import ImagesPart
from luvli.prediction.rows import unpack_rows
from luvli.prediction.settings import WORK, JobSettings
from luvli.prediction.worker import PackedModel

from .jobs import contents, tally


class Deadly:
    """A detector that ends its process at some images, and hangs at others; the rest are faces."""

    def __call__(self, image: Any, name: str = "") -> list[Box]:
        if "deadly" in name:
            os.kill(os.getpid(), signal.SIGKILL)
        if "endless" in name:
            time.sleep(1000)
        height, width = image.shape[:2]
        return [Box(0.1 * width, 0.1 * height, 0.9 * width, 0.9 * height)]


def packed(tiny: dict[str, Path], detector: Any = None) -> PackedModel:
    return PackedModel(tiny["onnx"], tiny["onnx"].read_bytes(), detector=detector)


@pytest.mark.parametrize("format", ["json", "csv", "pts"])
def test_processes_write_the_same(
    format: str, tiny: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    results = []
    model = packed(tiny, Deadly())
    for name, executor in (("one", InProcess(model.open())), ("many", Processes(model, 2))):
        settings = JobSettings(str(tmp_path / name), format, part_size=2)
        summary = PredictJob(Inputs([folder]), settings).run(executor)
        assert tally(summary) == (6, 6, 1)
        results.append(contents(tmp_path / name))
    assert results[0] == results[1]


@pytest.mark.parametrize("count", [1, 7])
def test_an_image_that_ends_its_process_costs_one_row(
    count: int, tiny: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    """However few images there are."""
    (folder / "p1-deadly.png").write_bytes((folder / "p1.png").read_bytes())
    sources = [folder if count == 7 else folder / "p1-deadly.png"]
    settings = JobSettings(str(tmp_path / "out"), part_size=4)
    summary = PredictJob(Inputs(sources), settings).run(Processes(packed(tiny, Deadly()), 2))
    assert tally(summary) == ((6, 6, 2) if count == 7 else (0, 0, 1))
    (death,) = [text for text in summary.failed if "ended the process" in text]
    assert "p1-deadly.png" in death and "SIGKILL" in death


def test_an_image_that_hangs_costs_one_row(
    tiny: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    (folder / "p1-endless.png").write_bytes((folder / "p1.png").read_bytes())
    paths = [str(folder / f"{name}.png") for name in ("p0", "p1-endless", "p2")]
    settings = JobSettings(str(tmp_path / "out"))
    worker = IsolatedWorker(packed(tiny, Deadly()), patience=15.0)
    try:
        worker.do(ImagesPart(paths[0], 3, "", paths, []), settings)
    finally:
        worker.close()
    place = tmp_path / "out" / WORK / "part-0000000.npz"
    rows = unpack_rows(place.read_bytes(), "x")
    assert [bool(row.error) for row in rows] == [False, True, False]
    assert "p1-endless.png" in rows[1].error and "no answer in 15 seconds" in rows[1].error


def test_a_process_ends_with_its_parent(tiny: dict[str, Path]) -> None:
    code = f"""
import os, signal
from pathlib import Path
from luvli.prediction.executors import IsolatedWorker
from luvli.prediction.worker import PackedModel, worker_info
path = Path({str(tiny["onnx"])!r})
worker = IsolatedWorker(PackedModel(path, path.read_bytes()))
print(worker.ask(worker_info).name, worker.start().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(done.stdout.split()[1])

    def gone() -> bool:
        try:  # a zombie: nobody waits for it
            return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until(gone)
