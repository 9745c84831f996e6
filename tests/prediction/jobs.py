"""Jobs in the world of discs: run, look at, interrupt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from luvli.files import LOCK_NAME
from luvli.prediction.executors import InProcess
from luvli.prediction.inputs import Inputs
from luvli.prediction.job import PredictJob, Summary
from luvli.prediction.job_folder import STATE
from luvli.prediction.predictor import Predictor
from luvli.prediction.settings import WORK, JobSettings


def names(folder: Path) -> list[str]:
    """What a user sees, and the work folder of a job that is not finished."""
    state = folder / WORK / STATE
    running = state.is_file() and json.loads(state.read_text())["state"] == "running"
    hidden = [LOCK_NAME] if running else [LOCK_NAME, WORK]
    return sorted(path.name for path in folder.iterdir() if path.name not in hidden)


def tally(summary: Summary) -> tuple[int, int, int]:
    """Images, faces and failures."""
    return summary.counts["images"], summary.counts["faces"], summary.counts["failed"]


def faces_in(path: Path) -> list[dict[str, Any]]:
    faces: list[dict[str, Any]] = json.loads(path.read_text())["faces"]
    return faces


def run(
    predictor: Predictor, source: Any, out: Path, overwrite: bool = False, **settings: Any
) -> Summary:
    paths = source if isinstance(source, list) else [source]
    job = PredictJob(Inputs(paths, out), JobSettings(str(out), **settings), overwrite)
    return job.run(InProcess(predictor))


def contents(out: Path) -> dict[str, bytes]:
    """All files of a folder but what it knows about its job."""
    files = (path for path in out.rglob("*") if path.is_file() and path.name != STATE)
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def stopped(discs: Predictor, folder: Path, out: Path, after: int, **settings: Any) -> None:
    """A run that is interrupted after some images."""

    def watch(items: Iterator[Any], *_: Any) -> Iterator[Any]:
        for number, item in enumerate(items):
            if number == after:
                raise KeyboardInterrupt
            yield item

    job = PredictJob(Inputs([folder], out), JobSettings(str(out), part_size=1, **settings))
    with pytest.raises(KeyboardInterrupt):
        job.run(InProcess(discs), watch)  # type: ignore[arg-type]
