"""The threads of a run: whole images each, the network in the thread that asks for it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from luvli.image.known_boxes import WholeImage
from luvli.image.write import write_image
from luvli.prediction.batch_job import predict_paths
from luvli.prediction.input_files import Inputs
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.predictor import Predictor, load

from .conftest import disc_image


def two_threads(tiny: dict[str, Path], threads: int = 2) -> Predictor:
    """A real network; the whole image is the face."""
    made = load(tiny["onnx"], threads=threads)
    made.detector = WholeImage()
    return made


@pytest.fixture
def predictor(tiny: dict[str, Path]) -> Predictor:
    return two_threads(tiny)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(10):
        write_image(tmp_path / f"in/{i}.png", disc_image([(60 + 10 * i, 90, 30 + i)]))
    (tmp_path / "in/5b.png").write_bytes((tmp_path / "in/5.png").read_bytes()[:200])
    return tmp_path / "in"


@pytest.mark.parametrize("draw", [False, True])
def test_any_number_of_threads_writes_the_same(
    draw: bool, tiny: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    results = []
    for threads in (1, 2, 3):
        out = tmp_path / f"out-{threads}"
        settings = JobSettings(out, draw=draw)
        summary = predict_paths(two_threads(tiny, threads), Inputs([folder]), settings)
        assert (summary.images, summary.faces, len(summary.failed)) == (10, 10, 1)
        assert "5b.png is damaged" in summary.failed[0]
        assert {"read", "detect", "crop", "network", "write"} <= set(summary.stopwatch.seconds)
        files = (path for path in out.rglob("*") if path.suffix in (".json", ".png"))
        results.append({path.name: path.read_bytes() for path in files})
    assert len(results[0]) == (12 if draw else 2)  # with the note of a finished run
    assert results[0] == results[1] == results[2]


def test_one_thread_computes_in_the_caller(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = predictor.for_one_thread()
    used: set[int] = set()
    kind = type(alone.backend)
    plain = kind._run  # type: ignore[attr-defined]

    def noted(self: object, crops: object) -> object:
        used.add(threading.get_ident())
        return plain(self, crops)

    monkeypatch.setattr(kind, "_run", noted)
    side = alone.info.config.input_size
    crops = np.zeros((9, side, side, 3), np.uint8)
    alone.backend(crops)
    assert used == {threading.get_ident()}
    predictor.backend(crops)
    assert len(used) > 1
