"""Processes of a run: the same results as without them, whatever becomes of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from luvli.image.box import Box
from luvli.image.known_boxes import WholeImage
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.prediction import batch_job
from luvli.prediction.batch_job import predict_paths
from luvli.prediction.image_worker import ImageWorker
from luvli.prediction.input_files import Inputs
from luvli.prediction.job_settings import JobSettings, JobSummary
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.worker_process import WorkerProcess, WorkOrder

from .conftest import disc_image


class Deadly(WholeImage):
    """Ends the process that looks at an image called deadly, but for the test's own."""

    def __init__(self) -> None:
        super().__init__()
        self.parent = os.getpid()

    def __call__(self, image: ImageArray, name: str = "") -> list[Box]:
        if "deadly" in name and os.getpid() != self.parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(image, name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(40):
        write_image(tmp_path / f"in/{i:02d}.png", disc_image([(60 + 3 * i, 90, 30 + i % 7)]))
    (tmp_path / "in/05b.png").write_bytes((tmp_path / "in/05.png").read_bytes()[:200])
    return tmp_path / "in"


def predictor(tiny: dict[str, Path], threads: int, detector: WholeImage) -> Predictor:
    made = load(tiny["onnx"], threads=threads)
    made.detector = detector
    return made


def run(made: Predictor, folder: Path, out: Path, **settings: object) -> JobSummary:
    return predict_paths(made, Inputs([folder]), JobSettings(out, **settings))  # type: ignore[arg-type]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[WorkerProcess]:
    """Processes for any number of images, few at a time; and those that were made."""
    made: list[WorkerProcess] = []
    begin = WorkerProcess.__init__

    def noted(self: WorkerProcess, order: WorkOrder, own: ImageWorker) -> None:
        begin(self, order, own)
        made.append(self)

    monkeypatch.setattr(WorkerProcess, "__init__", noted)
    monkeypatch.setattr(batch_job, "MAX_IMAGES", 3)
    monkeypatch.setattr(batch_job, "FEW", 9)
    return made


@pytest.mark.parametrize("format", ["json", "csv", "pts"])
def test_processes_write_the_same(
    format: str,
    tiny: dict[str, Path],
    folder: Path,
    tmp_path: Path,
    at_once: list[WorkerProcess],
) -> None:
    results = []
    for threads in (1, 3):
        out = tmp_path / f"out-{threads}"
        summary = run(predictor(tiny, threads, WholeImage()), folder, out, format=format)
        assert len(at_once) == threads - 1
        assert (summary.images, summary.faces, len(summary.failed)) == (40, 40, 1)
        assert [face.image for face in summary.examples][:2] == [
            str(folder / "00.png"),
            str(folder / "01.png"),
        ]
        assert "05b.png is damaged" in summary.failed[0]
        assert {"read", "detect", "crop", "network", "write"} <= set(summary.stopwatch.seconds)
        files = (path for path in out.rglob("*") if path.is_file())
        results.append({path.name: path.read_bytes() for path in files})
    assert results[0] == results[1]
    children = [worker._child for worker in at_once]
    assert all(child is not None and child.poll() is not None for child in children)


def test_an_image_that_ends_its_process_costs_one_row(
    tiny: dict[str, Path], folder: Path, tmp_path: Path, at_once: list[WorkerProcess]
) -> None:
    for i in range(0, 40, 4):  # in every group, so that no process is spared
        (folder / f"{i:02d}-deadly.png").write_bytes((folder / "00.png").read_bytes())
    made = predictor(tiny, 3, Deadly())
    summary = run(made, folder, tmp_path / "out")
    deaths = [text for text in summary.failed if "ended the process" in text]
    assert deaths
    assert all("deadly.png" in text and "SIGKILL" in text for text in deaths)
    assert summary.images + len(summary.failed) == 51
    assert len(summary.failed) == len(deaths) + 1


def test_where_no_process_can_begin_the_work_is_done_here(
    tiny: dict[str, Path], folder: Path, tmp_path: Path, at_once: list[WorkerProcess]
) -> None:
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(tiny["onnx"].read_bytes())
    made = load(copy, threads=2)
    made.detector = WholeImage()
    copy.unlink()
    summary = run(made, folder, tmp_path / "out")
    assert (len(at_once), summary.images, len(summary.failed)) == (1, 40, 1)
    assert at_once[0]._child is None


def test_a_process_ends_with_its_parent(tiny: dict[str, Path], tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.predictor import load
from luvli.prediction.worker_process import WorkerProcess, WorkOrder
order = WorkOrder.of(load({str(tiny["onnx"])!r}, threads=2), JobSettings(Path("out")))
worker = WorkerProcess(order, order.worker())
worker._prepare()
print(worker._child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    # the pipe to us is inherited by the child: it closes when both have ended
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert told.returncode == -signal.SIGKILL
    assert told.stdout.strip().isdecimal()


def test_what_cannot_be_given_away_stays(tiny: dict[str, Path], tmp_path: Path) -> None:
    made = load(tiny["onnx"], threads=2)
    assert WorkOrder.of(made, JobSettings(tmp_path)) is not None
    assert WorkOrder.of(made, JobSettings(tmp_path, draw=True)) is None
    made.detector = lambda image, name="": []
    assert WorkOrder.of(made, JobSettings(tmp_path)) is None


def test_few_images_are_not_worth_a_process(
    tiny: dict[str, Path], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(WorkerProcess, "__init__", refuse)
    assert run(predictor(tiny, 2, WholeImage()), folder, tmp_path / "out").images == 40


def test_a_process_that_dies_before_it_begins_is_no_fault_of_an_image(
    tiny: dict[str, Path], folder: Path, tmp_path: Path, at_once: list[WorkerProcess]
) -> None:
    begin = WorkerProcess._start

    def stillborn(self: WorkerProcess) -> None:
        begin(self)
        assert self._child is not None
        self._child.kill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerProcess, "_start", stillborn)
        summary = run(predictor(tiny, 2, WholeImage()), folder, tmp_path / "out")
    assert (len(at_once), summary.images, len(summary.failed)) == (1, 40, 1)
