"""`synthesize`: a set of faces on disk, drawn on all cores, and continued where it stopped."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import cv2

from luvli.data.formats import write_pts
from luvli.errors import InputError
from luvli.files import PathLike, read_text, whole_file, write_text
from luvli.progress import Watch
from luvli.synthetic.faces import SyntheticFaces
from luvli.synthetic.photographs import photographs
from luvli.synthetic.render import load_head
from luvli.synthetic.turned.faces import TurnedFaces

_SETTINGS = "synthetic.json"
"""beside the faces: what they were made with"""


def synthesize(
    out_dir: PathLike,
    faces: SyntheticFaces | TurnedFaces,
    workers: int = 0,
    image_format: Literal["jpg", "png"] = "jpg",
    track: Watch | None = None,
) -> int:
    """Write each face as `NNNNNN.jpg` and `NNNNNN.pts` (MERL-RAV's signs); return how many.

    Faces that are already there are kept, so an interrupted run can be repeated, and a larger
    `count` extends a set; a folder that was made with other settings is refused. The image
    is written before its label: what has a label is whole. `workers` 0 means one for each
    core; processes start afresh, so scripts need the usual `if __name__ == "__main__"`.
    `track` shows progress (see `luvli.progress.track`).

    >>> synthesize("faces", SyntheticFaces(count=5000))  # doctest: +SKIP
    5000
    """
    folder = Path(out_dir)
    load_head(faces.head)  # what cannot be read is refused before anything is written
    for photos in ("textures", "backgrounds", "photographs"):
        if getattr(faces, photos, None) is not None:
            photographs(getattr(faces, photos))
    _settle(folder, faces, image_format)
    missing = [i for i in range(len(faces)) if not _label(folder, i).exists()]
    workers = min(workers or os.cpu_count() or 1, max(len(missing), 1))
    done: Iterable[int]
    if workers == 1:
        done = (_write(folder, faces, i, image_format) for i in missing)
        return _count(done, len(missing), track)
    done = _by_processes(_Job(folder, faces, image_format), missing, workers)
    return _count(done, len(missing), track)


def _by_processes(job: _Job, missing: Sequence[int], workers: int) -> Iterator[int]:
    """Draw faces in other processes. When one of these is killed, as the kernel does where memory
    runs out, the rest is drawn by half as many."""
    todo = dict.fromkeys(missing)
    while todo:
        before = len(todo)
        try:
            for index in _by_pool(job, list(todo), workers):
                del todo[index]
                yield index
        except BrokenProcessPool as error:
            # those that were written and not yet reported are there
            for index in [i for i in todo if _label(job.folder, i).exists()]:
                del todo[index]
                yield index
            if workers == 1 and len(todo) == before:
                raise InputError(
                    f"{job.folder}: the process that draws the faces was killed, perhaps because "
                    "memory ran out: free some, choose a smaller size, and run it again; it goes "
                    "on from here."
                ) from error
            workers = max(1, workers // 2)


def _by_pool(job: _Job, missing: Iterable[int], workers: int) -> Iterator[int]:
    context = multiprocessing.get_context("spawn")
    numbers = iter(missing)
    with ProcessPoolExecutor(workers, context, _begin, (job,)) as pool:
        try:
            waiting = {pool.submit(_work, i) for i in islice(numbers, 4 * workers)}
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield future.result()
                    waiting |= {pool.submit(_work, i) for i in islice(numbers, 1)}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _count(done: Iterable[int], total: int, track: Watch | None) -> int:
    shown = track(done, "faces", total) if track else done
    return sum(1 for _ in shown)


def _label(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.pts"


def _settle(folder: Path, faces: SyntheticFaces | TurnedFaces, image_format: str) -> None:
    """Note the settings, or refuse to mix two kinds of faces in one folder."""
    settings: dict[str, object] = dataclasses.asdict(faces) | {"image_format": image_format}
    del settings["count"]  # a set may grow
    file = folder / _SETTINGS
    if file.exists():
        try:
            before = json.loads(read_text(file))
        except json.JSONDecodeError as error:
            raise InputError(
                f"{file} is not readable: remove it and the faces beside it."
            ) from error
        changed = sorted(name for name in settings if before.get(name) != settings[name])
        if changed:
            raise InputError(
                f"{folder} holds faces made with another {changed[0]} "
                f"({before.get(changed[0])!r}): choose another folder or the same settings."
            )
        return
    write_text(file, json.dumps(settings, indent=2) + "\n")


def _write(folder: Path, faces: SyntheticFaces | TurnedFaces, index: int, image_format: str) -> int:
    sample = faces[index]
    quality = [cv2.IMWRITE_JPEG_QUALITY, 95] if image_format == "jpg" else []
    with whole_file(folder / f"{index:06d}.{image_format}") as temporary:
        if not cv2.imwrite(str(temporary), sample.image[..., ::-1], quality):
            raise OSError("the image could not be encoded")
    write_pts(_label(folder, index), sample.record.points, sample.record.visibility)
    return index


class _Job(NamedTuple):
    folder: Path
    faces: SyntheticFaces | TurnedFaces
    image_format: str


_jobs: list[_Job] = []
"""what this process was started for"""


def _begin(job: _Job) -> None:
    cv2.setNumThreads(1)  # the processes already use every core
    _jobs[:] = [job]


def _work(index: int) -> int:
    (job,) = _jobs
    return _write(job.folder, job.faces, index, job.image_format)
