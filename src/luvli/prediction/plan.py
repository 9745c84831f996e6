"""The plan of a job: which parts it has, kept as a file in its output folder.

OUT/.luvli-job/plan.jsonl holds the job's identity (settings, model, inputs) in its first line, then
one part on each line, with size and time of every input. A run that finds a plan makes its own
again and compares: the same plan goes on, another one is refused.
"""

from __future__ import annotations

import filecmp
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from luvli import __version__
from luvli.errors import InputError
from luvli.files import write_text, writing
from luvli.prediction.containers import ParquetFiles, tar_entries
from luvli.prediction.inputs import Input, Inputs
from luvli.prediction.output_names import OutputNames
from luvli.prediction.parts import Part
from luvli.prediction.places import (
    GO_ON,
    is_file,
    is_uri,
    join,
    list_names,
    open_input,
    read_bytes,
    remove,
    write_whole,
)
from luvli.prediction.video import VideoReader
from luvli.prediction.worker import WORK, JobSettings
from luvli.prediction.writers import SUFFIXES

PLAN, UNTOUCHED = "plan.jsonl", "untouched.json"
FINISHED = ".luvli-finished.json"
"""the identity of the last finished run of a folder, and the files that it wrote"""
FAILED = "failed.txt"
"""one line for each file that could not be done"""
MIN_SIZE, MAX_SIZE, MIN_PARTS = 32, 256, 32
"""images in a part of single files, and how many parts a small source is cut into"""
MAX_PARTS, HUGE = 4096, 1024
"""beyond so many parts they become larger, up to so many images: what a cluster remembers grows
with the number of parts"""
SEGMENT = 1500
"""frames in a segment of a video, at least, where the video has more: a minute or so"""


def part_size(count: int) -> int:
    """Images in a part of so many single files.

    >>> [part_size(count) for count in (10, 1600, 10**6, 10**8)]
    [32, 50, 256, 1024]
    """
    usual = max(MIN_SIZE, min(MAX_SIZE, -(-count // MIN_PARTS)))
    return max(usual, min(HUGE, count // MAX_PARTS))


def plan_parts(inputs: Inputs, settings: JobSettings) -> Iterator[Part]:
    """The parts of all inputs, numbered: images first, then Parquet files, tars and videos.

    Names of images wait in a file, so that a million take no more memory than a hundred.
    """
    names = OutputNames(Path())
    own_files = settings.draw or settings.format == "pts"
    others: dict[str, list[Input]] = {"parquet": [], "tar": [], "video": []}
    count = number = 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as images:
        for item in inputs:
            if item.kind != "files":
                others[item.kind].append(item)
                continue
            stem = str(names.stem(item)) if own_files else ""
            images.write(json.dumps((item.path, stem, item.stamp)) + "\n")
            count += 1
        if own_files and (others["parquet"] or others["tar"]):
            raise InputError("--draw and --format pts need image files: unpack Parquet and tars.")
        size = settings.part_size or part_size(count)
        images.seek(0)
        while some := [json.loads(line) for line in islice(images, size)]:
            yield Part(number, "files", some[0][0], len(some), some)
            number += 1
    tables = ParquetFiles(settings.image_column, settings.name_column)
    for item in others["parquet"]:
        for rows, about in tables.parts(item.path):
            yield Part(number, "parquet", item.path, rows, [], about | {"stamp": item.stamp})
            number += 1
    for item in others["tar"]:
        entries = tar_entries(item.path)
        for start in range(0, len(entries), settings.part_size or MAX_SIZE):
            some = [list(entry) for entry in entries[start:][: settings.part_size or MAX_SIZE]]
            yield Part(number, "tar", item.path, len(some), some, {"stamp": item.stamp})
            number += 1
    for item in others["video"]:
        about = {"stamp": item.stamp, "stem": str(names.stem(item))}
        for frames, segment in _segments(item.path, settings.part_size or SEGMENT):
            yield Part(number, "video", item.path, frames, [], about | segment)
            number += 1


def _segments(path: str, least: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Frames and description of each part of a video; one that cannot be read is a part of one row,
    which says why."""
    try:
        for segment in VideoReader(path).segments(least):
            yield segment.frames, {"segment": list(segment)}
    except InputError as error:
        sentence = str(error)  # that a package is missing does not name the file
        yield 1, {"error": sentence if path in sentence else f"{path}: {sentence}"}


@dataclass
class Plan:
    """A job that may begin, or go on."""

    settings: JobSettings
    identity: dict[str, Any]
    parts: int = 0
    rows: int = 0
    """images and frames"""
    frames: int = 0
    resumed: bool = False
    """whether an earlier run made the plan"""
    untouched: frozenset[str] = frozenset()
    """files in OUT that were there before and are not ours"""
    replaced: frozenset[str] = frozenset()
    """files of another job that `overwrite` gives up"""

    @property
    def place(self) -> str:
        return join(self.settings.out, WORK, PLAN)

    def read(self) -> Iterator[Part]:
        """The parts, one by one."""
        with open_input(self.place) as stream:
            lines = io.BufferedReader(stream)  # pyarrow's files have no lines
            next(lines)
            yield from map(Part.from_json, lines)

    def todo(self) -> Iterator[Part]:
        """The parts that have no result yet."""
        done = {name.rpartition(".")[0] for name in self.results()}
        return (part for part in self.read() if part.name not in done)

    def results(self) -> set[str]:
        """Names of the files of finished parts."""
        folders = [join(self.settings.out, WORK)]
        folders += [self.settings.out] if self.settings.format == "parts" else []
        return {name for folder in folders for name in list_names(folder) if _is_part(name)}

    def remove(self) -> None:
        """The job is finished: what it needed on the way goes, the plan last."""
        folder = Path(self.settings.out) / WORK
        for path in folder.glob("part-*"):
            path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def _is_part(name: str) -> bool:
    return name.startswith("part-") and name.endswith((".npz", ".parquet"))


def open_plan(inputs: Inputs, settings: JobSettings, overwrite: bool = False) -> Plan:
    """The plan of this job: that of an earlier run, or a new one. Another job's folder is refused,
    unless `overwrite` says that its results may go."""
    identity = job_identity(inputs, settings)
    plan = Plan(settings, identity)
    with (
        writing(tempfile.gettempdir(), GO_ON),
        tempfile.NamedTemporaryFile("w+", suffix=".jsonl") as fresh,
    ):
        fresh.write(json.dumps(identity, sort_keys=True) + "\n")
        for part in plan_parts(inputs, settings):
            fresh.write(part.to_json() + "\n")
            plan.parts, plan.rows = plan.parts + 1, plan.rows + part.count
            plan.frames += part.count if part.kind == "video" else 0
        fresh.flush()
        if is_file(plan.place):
            difference = _difference(plan, fresh)
            if not difference:
                plan.resumed = True
                plan.untouched = frozenset(json.loads(read_bytes(_untouched_place(settings))))
                return plan
            if not overwrite:
                raise InputError(f"{settings.out} holds {difference}")
        _check_folder(plan, overwrite)
        _remove_job(plan, overwrite)
        write_whole(_untouched_place(settings), json.dumps(sorted(plan.untouched)).encode())
        write_whole(plan.place, Path(fresh.name).read_bytes())
    return plan


def job_identity(inputs: Inputs, settings: JobSettings) -> dict[str, Any]:
    """Everything that the results depend on."""
    about = asdict(settings)
    del about["out"]
    places = [p if is_uri(p) else os.path.abspath(p) for p in inputs.paths]  # noqa: PTH100
    return {"luvli": __version__, "inputs": places, **about}


def _untouched_place(settings: JobSettings) -> str:
    return join(settings.out, WORK, UNTOUCHED)


def _difference(plan: Plan, fresh: IO[str]) -> str:
    """Empty where the plan in the folder is the same; otherwise what the folder holds."""
    if not is_uri(plan.place):
        if filecmp.cmp(plan.place, fresh.name, shallow=False):
            return ""
    elif read_bytes(plan.place) == Path(fresh.name).read_bytes():
        return ""
    with open_input(plan.place) as stream:
        first = io.BufferedReader(stream).readline()
    end = "give --overwrite to drop it, or choose another --out."
    try:
        before = json.loads(first)
        differ = [name for name in plan.identity if before.get(name) != plan.identity[name]]
    except (ValueError, AttributeError):
        return f"a damaged plan ({PLAN} in {WORK}): {end}"
    if differ:
        shown = ", ".join(differ[:3])
        return f"an unfinished run with other settings ({shown}): repeat that command, {end}"
    return f"an unfinished run whose inputs have changed since: {end}"


def _remove_job(plan: Plan, overwrite: bool) -> None:
    """Remove what another job left in the folder; its Parquet files only with `overwrite`."""
    out = plan.settings.out
    names = list_names(out) if overwrite else set()
    for name in names:
        if _is_part(name):
            remove(join(out, name))
    if is_uri(out):
        remove(join(out, WORK))
    else:
        plan.remove()


def _check_folder(plan: Plan, overwrite: bool) -> None:
    """Refuse a folder with results of another job, or of somebody else; note what is not ours."""
    settings = plan.settings
    names = list_names(settings.out) if settings.format == "parts" and not overwrite else set()
    if any(name.endswith(".parquet") for name in names):
        raise InputError(
            f"{settings.out} holds Parquet files of somebody else: choose another --out."
        )
    if is_uri(settings.out):
        return
    out = Path(settings.out)
    before, files = read_finished(out)
    other = before is not None and before != plan.identity
    if other and {path.name for path in _visible(out)} <= {FAILED}:
        other = False  # a mistyped name made no results that could be mixed
    if other and not overwrite:
        raise InputError(
            f"{out} holds the results of another run: choose another --out, or give --overwrite to "
            "replace them."
        )
    there = {str(path.relative_to(out)) for path in _visible(out)}
    plan.replaced = frozenset(there & files) if other else frozenset()
    plan.untouched = frozenset() if overwrite else frozenset(there - files)
    results = f"faces{SUFFIXES.get(settings.format, '')}"
    if results in plan.untouched and settings.format in SUFFIXES:
        raise InputError(
            f"{out / results} was there before: choose another --out, or give --overwrite to "
            "replace it."
        )


def _visible(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts):
            yield path


def read_finished(out: Path) -> tuple[Mapping[str, Any] | None, set[str]]:
    """The identity of the run whose results a folder holds and the files that it wrote; None
    where it holds none, {} where the note cannot be read."""
    note = out / FINISHED
    try:
        if not note.is_file():
            return None, set()
        content = json.loads(note.read_text(encoding="utf-8"))
        return dict(content["identity"]), set(map(str, content["files"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}, set()


def write_finished(plan: Plan, files: set[str]) -> None:
    content = {"identity": plan.identity, "files": sorted(files)}
    write_text(Path(plan.settings.out) / FINISHED, json.dumps(content))


def free_folder(inputs: Inputs, settings: JobSettings) -> str:
    """OUT, or OUT-2, OUT-3, ... where the folder holds the results of another run."""
    identity, number, out = job_identity(inputs, settings), 1, settings.out
    while (before := read_finished(Path(out))[0]) is not None and before != identity:
        number += 1
        out = f"{settings.out}-{number}"
    return out
