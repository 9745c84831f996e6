"""Other commands on a full disk, and logs that a crash has spoilt."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from luvli.errors import OutputError
from luvli.training.run_log import METRICS, RunLog, read_run_metrics


class Full:
    """Stands for TensorBoard's writer on a disk without space."""

    def __getattr__(self, name: str) -> object:
        def fail(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        return fail


def test_the_log_of_a_training(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "run", None)
    image = np.zeros((8, 8, 3), np.uint8)
    log.sheet(1, image)
    log._events = Full()
    with pytest.raises(OutputError, match=r"No space left on device\): free some space and give"):
        log.sheet(2, image)
    log.close()  # does not fail again


def test_a_place_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="could not be written"):
        RunLog(tmp_path / "file", None)


def test_spoilt_lines_of_a_log_are_passed_over(tmp_path: Path) -> None:
    good = b'{"step": 1, "loss": 2.0}\n'
    (tmp_path / METRICS).write_bytes(
        good + b'\xff{"step": }\n[1]\n{"step": "x"}\n' + good + b'{"st'
    )
    assert [line["step"] for line in read_run_metrics(tmp_path)] == [1, 1]
    RunLog(tmp_path, 0).close()  # a run that begins anew forgets them
    assert read_run_metrics(tmp_path) == []
