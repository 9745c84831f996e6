"""`synthesize`: a set of faces on disk, drawn on all cores, and continued where it stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import cv2

from luvli.data.formats import write_pts
from luvli.errors import InputError
from luvli.files import PathLike, read_text, write_text
from luvli.image.write import write_image
from luvli.progress import Watch
from luvli.synthetic.photographs import photographed_faces
from luvli.synthetic.render import SyntheticFaces, load_head
from luvli.synthetic.turned.faces import TurnedFaces

_SETTINGS = "synthetic.json"
"""beside the faces: what they were made with"""


def synthesize(
    out_dir: PathLike,
    faces: SyntheticFaces | TurnedFaces,
    workers: int = 0,
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
    for what in ("textures", "backgrounds", "photographs"):
        if getattr(faces, what, None) is not None:
            photographed_faces(getattr(faces, what))
    _settle(folder, faces)
    write = partial(_write, folder, faces)
    missing = [i for i in range(len(faces)) if not _label(folder, i).exists()]
    workers = min(workers or os.cpu_count() or 1, max(len(missing), 1))
    done = map(write, missing) if workers == 1 else _by_processes(write, missing, workers)
    for _ in track(done, "faces", len(missing)) if track else done:
        pass
    return len(missing)


def _by_processes(write: partial[int], missing: Iterable[int], workers: int) -> Iterator[int]:
    """Draw faces in other processes. When one of these is killed, as the kernel does where memory
    runs out, this process draws the rest."""
    context = multiprocessing.get_context("spawn")
    left = dict.fromkeys(missing)
    try:
        # one OpenCV thread each: the processes already use every core
        with ProcessPoolExecutor(workers, context, cv2.setNumThreads, (1,)) as pool:
            with _deaf_to_ctrl_c():
                indices = pool.map(write, list(left), chunksize=4)
            for index in indices:
                del left[index]
                yield index
    except BrokenProcessPool:
        yield from map(write, left)


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started meanwhile never see Ctrl-C, which a terminal sends to all: it is
    for their parent, which ends them."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _label(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.pts"


def _settle(folder: Path, faces: SyntheticFaces | TurnedFaces) -> None:
    """Note the settings, or refuse to mix two kinds of faces in one folder."""
    settings = dataclasses.asdict(faces)
    del settings["count"]  # a set may grow
    file = folder / _SETTINGS
    if not file.exists():
        write_text(file, json.dumps(settings, indent=2) + "\n")
        return
    try:
        before = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise InputError(f"{file} is not readable: remove it and the faces beside it.") from error
    changed = sorted(name for name in settings if before.get(name) != settings[name])
    if changed:
        raise InputError(
            f"{folder} holds faces made with another {changed[0]} "
            f"({before.get(changed[0])!r}): choose another folder or the same settings."
        )


def _write(folder: Path, faces: SyntheticFaces | TurnedFaces, index: int) -> int:
    if _label(folder, index).exists():  # drawn by a process that was killed before it could say so
        return index
    sample = faces[index]
    write_image(folder / f"{index:06d}.jpg", sample.image)
    write_pts(_label(folder, index), sample.record.points, sample.record.visibility)
    return index
