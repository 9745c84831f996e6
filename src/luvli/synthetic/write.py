"""`synthesize`: a set of faces on disk, drawn on all cores, and continued where it stopped."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import cv2

from luvli.data.formats import write_pts
from luvli.errors import InputError
from luvli.files import PathLike, read_text, whole_file, write_text
from luvli.synthetic.faces import SyntheticFaces
from luvli.synthetic.photographs import photographs
from luvli.synthetic.render import load_head

SETTINGS = "synthetic.json"
"""beside the faces: what they were made with"""

Track = Callable[[Iterable[int], str, int], Iterator[int]]


def synthesize(
    out_dir: PathLike,
    faces: SyntheticFaces,
    workers: int = 0,
    image_format: Literal["jpg", "png"] = "jpg",
    track: Track | None = None,
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
    for photos in (faces.textures, faces.backgrounds):
        if photos is not None:
            photographs(photos)
    _settle(folder, faces, image_format)
    missing = [i for i in range(len(faces)) if not _label(folder, i).exists()]
    workers = min(workers or os.cpu_count() or 1, max(len(missing), 1))
    done: Iterable[int]
    if workers == 1:
        done = (_write(folder, faces, i, image_format) for i in missing)
        return _count(done, len(missing), track)
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, _begin, (_Job(folder, faces, image_format),)) as pool:
        done = pool.imap_unordered(_work, missing, chunksize=4)
        return _count(done, len(missing), track)


def _count(done: Iterable[int], total: int, track: Track | None) -> int:
    shown = track(done, "faces", total) if track else done
    return sum(1 for _ in shown)


def _label(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.pts"


def _settle(folder: Path, faces: SyntheticFaces, image_format: str) -> None:
    """Note the settings, or refuse to mix two kinds of faces in one folder."""
    settings: dict[str, object] = dataclasses.asdict(faces) | {"image_format": image_format}
    del settings["count"]  # a set may grow
    file = folder / SETTINGS
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


def _write(folder: Path, faces: SyntheticFaces, index: int, image_format: str) -> int:
    sample = faces[index]
    quality = [cv2.IMWRITE_JPEG_QUALITY, 95] if image_format == "jpg" else []
    with whole_file(folder / f"{index:06d}.{image_format}") as temporary:
        if not cv2.imwrite(str(temporary), sample.image[..., ::-1], quality):
            raise OSError("the image could not be encoded")
    write_pts(_label(folder, index), sample.record.points, sample.record.visibility)
    return index


class _Job(NamedTuple):
    folder: Path
    faces: SyntheticFaces
    image_format: str


_jobs: list[_Job] = []
"""what this process was started for"""


def _begin(job: _Job) -> None:
    cv2.setNumThreads(1)  # the processes already use every core
    _jobs[:] = [job]


def _work(index: int) -> int:
    (job,) = _jobs
    return _write(job.folder, job.faces, index, job.image_format)
