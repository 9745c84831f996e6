"""The plan of a job: which parts it has, kept as a file in its output folder.

OUT/.luvli-job/plan.jsonl holds the job's identity (settings, model, inputs) in its first line, then
one part on each line, with size and time of every input. A run that finds a plan makes its own
again and compares: the same plan goes on, another one is refused.
"""

from __future__ import annotations

import filecmp
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from luvli import __version__
from luvli.errors import InputError, require
from luvli.files import write_text, writing
from luvli.prediction.containers import ParquetFiles, tar_entries
from luvli.prediction.inputs import Input, Inputs
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
from luvli.prediction.video_output import video_outputs
from luvli.prediction.worker import WORK, JobSettings, naming
from luvli.prediction.writers import SUFFIXES, drawing_name

PLAN = "plan.jsonl"
FINISHED = ".luvli-finished.json"
"""the identity of the last finished run of a folder"""
FAILED = "failed.txt"
"""one line for each file that could not be done"""
MIN_SIZE, MAX_SIZE, MIN_PARTS = 32, 256, 32
"""images in a part of single files, and how many parts a small source is cut into"""
MAX_PARTS, HUGE = 4096, 1024
"""beyond so many parts they become larger, up to so many images: what a cluster remembers grows
with the number of parts"""
SEGMENT = 1500
"""frames in a segment of a video, at least, where the video has more: a minute or so"""
LONGEST = 220
"""bytes of a file's name; file systems allow 255, and outputs are called NAME.jpg (12)-landmarks"""
NUMBERED = re.compile(r"~\d+$")
"""how the files of a second and third face end: no input's stem may end so"""
RESERVED = frozenset(("faces", "failed", "images"))
"""results of all images, and reports"""


def part_size(count: int) -> int:
    """Images in a part of so many single files.

    >>> [part_size(count) for count in (10, 1600, 10**6, 10**8)]
    [32, 50, 256, 1024]
    """
    usual = max(MIN_SIZE, min(MAX_SIZE, -(-count // MIN_PARTS)))
    return max(usual, min(HUGE, count // MAX_PARTS))


def plan_parts(inputs: Inputs, settings: JobSettings) -> Iterator[Part]:
    """The parts of all inputs, numbered: images first, then Parquet files, tars and videos."""
    parts = _parts(inputs, settings)
    return (replace(part, number=number) for number, part in enumerate(parts))


def _parts(inputs: Inputs, settings: JobSettings) -> Iterator[Part]:
    """Names of images wait in a file, so that a million take no more memory than a hundred."""
    stems = OutputStems()
    own_files = settings.draw or settings.format == "pts"
    others: dict[str, list[Input]] = {"parquet": [], "tar": [], "video": []}
    count = 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as images:
        for item in inputs:
            if item.kind != "files":
                others[item.kind].append(item)
                continue
            stem = stems.stem(item) if own_files else ""
            images.write(json.dumps((item.path, stem, item.stamp)) + "\n")
            count += 1
        if own_files and (others["parquet"] or others["tar"]):
            raise InputError("--draw and --format pts need image files: unpack Parquet and tars.")
        if settings.measures and others["video"]:
            require("matplotlib", "evaluate")  # for the plots
        size = settings.part_size or part_size(count)
        images.seek(0)
        while some := [json.loads(line) for line in islice(images, size)]:
            yield Part(0, "files", some[0][0], len(some), some)
    tables = ParquetFiles(settings.image_column, settings.name_column)
    for item in others["parquet"]:
        for rows, about in tables.parts(item.path):
            yield Part(0, "parquet", item.path, rows, [], about | {"stamp": item.stamp})
    size = settings.part_size or MAX_SIZE
    for item in others["tar"]:
        entries = [list(entry) for entry in tar_entries(item.path)]
        for start in range(0, len(entries), size):
            some = entries[start : start + size]
            yield Part(0, "tar", item.path, len(some), some, {"stamp": item.stamp})
    for item in others["video"]:
        about = {"stamp": item.stamp, "stem": stems.stem(item)}
        try:
            for segment in VideoReader(item.path).segments(settings.part_size or SEGMENT):
                more = about | {"segment": list(segment)}
                yield Part(0, "video", item.path, segment.frames, [], more)
        except InputError as error:  # a part of one row, which says why
            yield Part(0, "video", item.path, 1, [], about | {"error": naming(item.path, error)})


class OutputStems:
    """Gives each input of a run a stem of its own, from which all its outputs are named.

    >>> stems = OutputStems()
    >>> [stems.stem(Input(f"/{folder}/x.jpg", "x.jpg")) for folder in "abc"]
    ['x', 'x.jpg', 'x.jpg (2)']
    """

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._folders: set[int] = set()

    def stem(self, item: Input) -> str:
        """Where outputs of one input go, without a suffix; no two inputs share it."""
        name = Path(*map(_shortened, Path(item.name).parts))
        number = 0
        while True:
            number += 1
            stem = name.with_suffix("") if number == 1 else name  # a.png beside a.jpg
            stem = stem if number < 3 else name.with_name(f"{name.name} ({number - 1})")
            key, parents = hash(str(stem)), {hash(str(parent)) for parent in stem.parents}
            reserved = str(stem) in RESERVED or NUMBERED.search(stem.name)
            # the frames of a video get a folder of the stem's name
            inside = item.kind == "video" and key in self._folders
            if not (key in self._taken or reserved or inside or parents & self._taken):
                self._taken.add(key)
                self._folders |= parents
                return str(stem)


def _shortened(part: str) -> str:
    """A name that leaves room for what outputs add to it; two long ones stay different."""
    raw = part.encode("utf-8", "surrogatepass")
    if len(raw) <= LONGEST:
        return part
    stem, suffix = os.path.splitext(part)  # noqa: PTH122
    digest = hashlib.blake2b(raw, digest_size=6).hexdigest()
    start = stem.encode("utf-8", "surrogatepass")[: LONGEST - 40].decode("utf-8", "ignore")
    return f"{start}-{digest}{suffix[:16]}"


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
        done = {name.rpartition(".")[0] for name in _results(self.settings.out)}
        done |= {name.rpartition(".")[0] for name in _results(join(self.settings.out, WORK))}
        return (part for part in self.read() if part.name not in done)

    def finish(self, results: bool) -> None:
        """Note that the job is done, if it has `results`, and remove what it needed on the way."""
        out = Path(self.settings.out)
        if results:
            write_text(out / FINISHED, json.dumps(self.identity))
        shutil.rmtree(out / WORK, ignore_errors=True)


def _results(folder: str) -> list[str]:
    """Names of the files of finished parts."""
    names = (name for name in list_names(folder) if name.startswith("part-"))
    return [name for name in names if name.endswith((".npz", ".parquet"))]


def job_identity(inputs: Inputs, settings: JobSettings) -> dict[str, Any]:
    """Everything that the results depend on."""
    about = asdict(settings)
    del about["out"]
    return {"luvli": __version__, "inputs": inputs.places, **about}


def open_plan(inputs: Inputs, settings: JobSettings, overwrite: bool = False) -> Plan:
    """The plan of this job: that of an earlier run, or a new one. Another job's folder is refused,
    and files of others are, unless `overwrite` says that they may be replaced."""
    plan = Plan(settings, job_identity(inputs, settings))
    with (
        writing(tempfile.gettempdir(), GO_ON),
        tempfile.NamedTemporaryFile("w+", suffix=".jsonl") as fresh,
    ):
        fresh.write(json.dumps(plan.identity, sort_keys=True) + "\n")
        for part in plan_parts(inputs, settings):
            fresh.write(part.to_json() + "\n")
            plan.parts, plan.rows = plan.parts + 1, plan.rows + part.count
            plan.frames += part.count if part.kind == "video" else 0
        fresh.flush()
        if is_file(plan.place):
            difference = _difference(plan, fresh)
            plan.resumed = not difference
            if difference and not overwrite:
                raise InputError(f"{settings.out} holds {difference}")
        elif not overwrite:
            _check_folder(plan, fresh)
        if not plan.resumed:
            for folder in (join(settings.out, WORK), *([settings.out] if overwrite else [])):
                for name in _results(folder):
                    remove(join(folder, name))
            write_whole(plan.place, Path(fresh.name).read_bytes())
    return plan


def _difference(plan: Plan, fresh: IO[str]) -> str:
    """Empty where the plan in the folder is the same; otherwise what the folder holds."""
    if not is_uri(plan.place):
        if filecmp.cmp(plan.place, fresh.name, shallow=False):
            return ""
    elif read_bytes(plan.place) == Path(fresh.name).read_bytes():
        return ""
    end = "give --overwrite to drop it, or choose another --out."
    try:
        with open_input(plan.place) as stream:
            identity = json.loads(io.BufferedReader(stream).readline())
        differ = [name for name in plan.identity if identity.get(name) != plan.identity[name]]
    except (ValueError, AttributeError):
        return f"a damaged plan ({PLAN} in {WORK}): {end}"
    if differ:
        shown = ", ".join(differ[:3])
        return f"an unfinished run with other settings ({shown}): repeat that command, {end}"
    return f"an unfinished run whose inputs have changed since: {end}"


def _check_folder(plan: Plan, fresh: IO[str]) -> None:
    """Refuse a folder with results of another job, or with a file of somebody else that this one
    would replace."""
    settings, out = plan.settings, plan.settings.out
    if settings.format == "parts" and any(n.endswith(".parquet") for n in list_names(out)):
        raise InputError(f"{out} holds Parquet files of somebody else: choose another --out.")
    if is_uri(out):
        return
    there = {path.removesuffix(".pts") for path in _visible(Path(out))}
    if there <= {FAILED}:
        return  # a run that could read nothing
    before = read_finished(Path(out))
    if before == plan.identity:
        return
    if before is not None:
        raise InputError(
            f"{out} holds the results of another run: choose another --out, or give --overwrite to "
            "replace them."
        )
    fresh.seek(0)
    fresh.readline()
    names = (name for line in fresh for name in _outputs(Part.from_json(line), settings))
    for name in (f"faces{SUFFIXES.get(settings.format, '')}", FAILED, *names):
        if name in there:
            raise InputError(
                f"{Path(out) / name} was there before: choose another --out, or give --overwrite "
                "to replace it."
            )


def _outputs(part: Part, settings: JobSettings) -> Iterator[str]:
    """Names of the files of one part's images, .pts without suffix and number, or video."""
    if part.kind == "video":
        yield from video_outputs(settings, part.about["stem"], part.place).values()
    for path, stem, _ in part.items if part.kind == "files" and part.items[0][1] else ():
        yield stem if settings.format == "pts" else FAILED
        if settings.draw:
            yield drawing_name(path, stem)


def _visible(folder: Path) -> Iterator[str]:
    """Files of a folder, as they are called inside it, and the folders that they are in; of
    STEM~2.pts it is STEM.pts."""
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if not any(part.startswith(".") for part in inside.parts):
            yield str(inside.with_stem(NUMBERED.sub("", inside.stem)) if inside.stem else inside)


def read_finished(out: Path) -> dict[str, Any] | None:
    """The identity of the run whose results a folder holds; None where it holds none, {} where the
    note cannot be read."""
    note = out / FINISHED
    try:
        return dict(json.loads(note.read_text(encoding="utf-8"))) if note.is_file() else None
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def free_folder(inputs: Inputs, settings: JobSettings) -> str:
    """OUT, or OUT-2, OUT-3, ... where the folder holds the results of another run."""
    identity, number, out = job_identity(inputs, settings), 1, settings.out
    while read_finished(Path(out)) not in (None, identity):
        number += 1
        out = f"{settings.out}-{number}"
    return out
