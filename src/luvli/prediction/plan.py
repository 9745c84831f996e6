"""The plan of a job: which parts it has, kept as a file in its output folder.

OUT/.luvli-job/plan.jsonl holds the job's identity (settings, model, inputs) in its first line, then
one part on each line, with size and time of every input. A run that finds a plan makes its own
again and compares: the same plan goes on, another one is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from luvli import __version__
from luvli.errors import InputError, require
from luvli.files import write_text
from luvli.prediction.containers import ParquetFiles, tar_entries
from luvli.prediction.inputs import Input, Inputs
from luvli.prediction.parts import WORK, JobSettings, Part
from luvli.prediction.places import (
    is_file,
    is_uri,
    join,
    list_names,
    read_bytes,
    remove,
    write_whole,
)
from luvli.prediction.video import VideoReader, with_place
from luvli.prediction.video_output import video_outputs
from luvli.prediction.writers import SUFFIXES, drawing_name

PLAN = "plan.jsonl"
FINISHED = ".luvli-finished.json"
"""the identity of the last finished run of a folder"""
FAILED = "failed.txt"
"""one line for each file that could not be done"""
MIN_SIZE, MAX_SIZE = 32, 1024
"""images in a part of single files"""
TAR_SIZE = 256
"""images in a part of a tar"""
SEGMENT = 1500
"""frames in a segment of a video, at least, where the video has more: a minute or so"""
LONGEST = 220
"""bytes of a file's name; file systems allow 255, and outputs are called NAME.jpg (12)-landmarks"""
RESERVED = re.compile(r"(.*/)?(faces|failed|images|.*~\d+)")
"""no stem of an input: results of all images, reports, and the second face of STEM, STEM~2"""


def part_size(number: int) -> int:
    """Images in the part that begins with image `number`: parts grow with the job, so that small
    jobs are shared out evenly and large ones have few parts.

    >>> [part_size(number) for number in (0, 1600, 10**4, 10**8)]
    [32, 50, 312, 1024]
    """
    return max(MIN_SIZE, min(MAX_SIZE, number // 32))


def plan_parts(inputs: Inputs, settings: JobSettings) -> Iterator[Part]:
    """The parts of all inputs, numbered: images first, then Parquet files, tars and videos."""
    for number, part in enumerate(_parts(inputs, settings)):
        yield replace(part, number=number)


def _parts(inputs: Inputs, settings: JobSettings) -> Iterator[Part]:
    stems = OutputStems()
    own_files = settings.draw or settings.format == "pts"
    others: dict[str, list[Input]] = {"parquet": [], "tar": [], "video": []}

    def images() -> Iterator[list[str]]:
        for item in inputs:
            if item.kind == "files":
                yield [item.path, stems.stem(item) if own_files else "", item.stamp]
            else:
                others[item.kind].append(item)

    left, count = images(), 0
    while some := list(islice(left, settings.part_size or part_size(count))):
        yield Part(0, "files", some[0][0], len(some), some)
        count += len(some)
    if own_files and (others["parquet"] or others["tar"]):
        raise InputError("--draw and --format pts need image files: unpack Parquet and tars.")
    if settings.measures and others["video"]:
        require("matplotlib", "evaluate")  # for the plots
    tables = ParquetFiles(settings.image_column, settings.name_column)
    for item in others["parquet"]:
        for rows, about in tables.parts(item.path):
            yield Part(0, "parquet", item.path, rows, [], about | {"stamp": item.stamp})
    for item in others["tar"]:
        entries = map(list, tar_entries(item.path))
        while members := list(islice(entries, settings.part_size or TAR_SIZE)):
            yield Part(0, "tar", item.path, len(members), members, {"stamp": item.stamp})
    for item in others["video"]:
        about = {"stamp": item.stamp, "stem": stems.stem(item)}
        try:
            for segment in VideoReader(item.path).segments(settings.part_size or SEGMENT):
                more = about | {"segment": list(segment)}
                yield Part(0, "video", item.path, segment.frames, [], more)
        except InputError as error:  # a part of one row, which says why
            why = {"error": with_place(item.path, error)}
            yield Part(0, "video", item.path, 1, [], about | why)


class OutputStems:
    """Gives each input of a run a stem of its own, from which all its outputs are named.

    >>> stems = OutputStems()
    >>> [stems.stem(Input(f"/{folder}/x.jpg", "x.jpg")) for folder in "abc"]
    ['x', 'x.jpg', 'x.jpg (2)']
    """

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def stem(self, item: Input) -> str:
        """Where outputs of one input go, without a suffix; no two inputs share it."""
        name = Path(*map(_shortened, Path(item.name).parts))
        stem, number = name.with_suffix(""), 1
        while hash(str(stem)) in self._taken or RESERVED.fullmatch(str(stem)):
            # a.png beside a.jpg, and a third one of the name
            stem = name if number == 1 else name.with_name(f"{name.name} ({number})")
            number += 1
        self._taken.add(hash(str(stem)))
        return str(stem)


def _shortened(part: str) -> str:
    """A name that leaves room for what outputs add to it; two long ones stay different."""
    raw = part.encode("utf-8", "surrogatepass")
    if len(raw) <= LONGEST:
        return part
    start = raw[: LONGEST - 40].decode("utf-8", "ignore")
    return f"{start}-{hashlib.sha256(raw).hexdigest()[:12]}{Path(part).suffix[:16]}"


@dataclass
class Plan:
    """A job that may begin, or go on."""

    settings: JobSettings
    identity: dict[str, Any]
    """everything that the results depend on"""
    lines: list[bytes]
    """a part each, as JSON: all of them are in memory"""
    rows: int = 0
    """images and frames"""
    frames: int = 0
    resumed: bool = False
    """whether an earlier run made the plan"""

    @property
    def place(self) -> str:
        return join(self.settings.out, WORK, PLAN)

    @property
    def content(self) -> bytes:
        """Of the file."""
        return b"\n".join([json.dumps(self.identity, sort_keys=True).encode(), *self.lines])

    def parts(self) -> Iterator[Part]:
        return map(Part.from_json, self.lines)

    def todo(self) -> Iterator[Part]:
        """The parts that have no result yet."""
        folders = (self.settings.out, join(self.settings.out, WORK))
        places = (place for folder in folders for place in _results(folder))
        done = {place.rpartition("/")[2].partition(".")[0] for place in places}
        return (part for part in self.parts() if part.name not in done)

    def finish(self, results: bool) -> None:
        """Note that the job is done, if it has `results`, and remove what it needed on the way."""
        out = Path(self.settings.out)
        if results:
            write_text(out / FINISHED, json.dumps(self.identity))
        shutil.rmtree(out / WORK, ignore_errors=True)


def _results(folder: str) -> Iterator[str]:
    """Files of finished parts."""
    for name in list_names(folder):
        if re.fullmatch(r"part-\d+\.(npz|parquet)", name):
            yield join(folder, name)


def job_identity(inputs: Inputs, settings: JobSettings) -> dict[str, Any]:
    """Everything that the results depend on."""
    about = asdict(settings)
    del about["out"]
    return {"luvli": __version__, "inputs": inputs.places, **about}


def open_plan(inputs: Inputs, settings: JobSettings, overwrite: bool = False) -> Plan:
    """The plan of this job: that of an earlier run, or a new one. Another job's folder is refused,
    and files of others are, unless `overwrite` says that they may be replaced."""
    plan = Plan(settings, job_identity(inputs, settings), [])
    before = read_bytes(plan.place) if is_file(plan.place) else None
    check = not overwrite and before is None and _check_free(plan)
    if check:
        _refuse_existing(settings, [f"faces{SUFFIXES.get(settings.format, '')}", FAILED])
    for part in plan_parts(inputs, settings):
        if check:
            _refuse_existing(settings, _outputs(part, settings))
        plan.lines.append(part.to_json().encode())
        plan.rows += part.count
        plan.frames += part.count if part.kind == "video" else 0
    plan.resumed = before == plan.content
    if before is not None and not plan.resumed and not overwrite:
        raise InputError(f"{settings.out} holds {_difference(plan, before)}")
    if not plan.resumed:
        # also those that the removal of an earlier job's folder has left
        folders = ([settings.out] if overwrite else []) + [join(settings.out, WORK)]
        for place in [place for folder in folders for place in _results(folder)]:
            remove(place)
        write_whole(plan.place, plan.content)
    return plan


def _difference(plan: Plan, before: bytes) -> str:
    """What a folder with another plan holds."""
    end = "give --overwrite to drop it, or choose another --out."
    try:
        identity = json.loads(before.partition(b"\n")[0])
        differ = [name for name in plan.identity if identity.get(name) != plan.identity[name]]
    except (ValueError, AttributeError):
        return f"a damaged plan ({PLAN} in {WORK}): {end}"
    if differ:
        shown = ", ".join(differ[:3])
        return f"an unfinished run with other settings ({shown}): repeat that command, {end}"
    return f"an unfinished run whose inputs have changed since: {end}"


def _check_free(plan: Plan) -> bool:
    """Refuse a folder with the results of another run -> whether it may hold files of others, which
    must not be replaced. Results of this very job may."""
    out = plan.settings.out
    names = {name for name in list_names(out) if name[:1] != "."}
    if plan.settings.format == "parts" and any(name.endswith(".parquet") for name in names):
        raise InputError(f"{out} holds Parquet files of somebody else: choose another --out.")
    if is_uri(out) or names <= {FAILED}:  # of a run that could read nothing
        return False
    before = read_finished(Path(out))
    if before not in (None, plan.identity):
        raise InputError(
            f"{out} holds the results of another run: choose another --out, or give --overwrite to "
            "replace them."
        )
    return before is None


def _refuse_existing(settings: JobSettings, names: Iterable[str]) -> None:
    for path in (Path(settings.out) / name for name in names):
        if path.exists():
            raise InputError(
                f"{path} was there before: choose another --out, or give --overwrite to replace it."
            )


def _outputs(part: Part, settings: JobSettings) -> Iterator[str]:
    """Names of the files of one part's images or video."""
    if part.kind == "video":
        yield from video_outputs(settings, part.about["stem"], part.place).values()
    for path, stem, _ in part.items if part.kind == "files" else ():
        if settings.format == "pts":
            yield f"{stem}.pts"
        if settings.draw:
            yield drawing_name(path, stem)


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
