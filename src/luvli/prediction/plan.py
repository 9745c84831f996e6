"""The plan of a job: all its inputs, divided into parts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from luvli.errors import InputError, require
from luvli.prediction.containers import parquet_parts, tar_parts
from luvli.prediction.inputs import Input, Inputs
from luvli.prediction.parts import ImagesPart, Part, VideoPart
from luvli.prediction.settings import JobSettings
from luvli.prediction.video import VideoReader, with_place

MIN_SIZE, MAX_SIZE = 32, 1024
"""images in a part of single files"""
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
        part.number = number
        yield part


def _parts(inputs: Inputs, settings: JobSettings) -> Iterator[Part]:
    stems = OutputStems()
    others: dict[str, list[Input]] = {"parquet": [], "tar": [], "video": []}
    images = _single_images(inputs, others)
    count = 0
    while some := list(islice(images, settings.part_size or part_size(count))):
        paths = [item.path for item in some]
        named = [stems.stem(item) for item in some] if settings.names_outputs else []
        stamp = hashlib.sha256(repr([item.stamp for item in some]).encode()).hexdigest()
        yield ImagesPart(paths[0], len(some), stamp, paths, named)
        count += len(some)
    if settings.names_outputs and (others["parquet"] or others["tar"]):
        raise InputError("--draw and --format pts need image files: unpack Parquet and tars.")
    if settings.measures and others["video"]:
        require("matplotlib", "evaluate")  # for the plots
    yield from parquet_parts(others["parquet"], settings)
    yield from tar_parts(others["tar"], settings)
    for item in others["video"]:
        yield from _video_parts(item, stems.stem(item), settings.part_size or SEGMENT)


def _single_images(inputs: Inputs, others: dict[str, list[Input]]) -> Iterator[Input]:
    """The image files, while all other inputs are put aside by their kind."""
    for item in inputs:
        if item.kind == "files":
            yield item
        else:
            others[item.kind].append(item)


def _video_parts(item: Input, stem: str, least: int) -> Iterator[VideoPart]:
    try:
        for segment in VideoReader(item.path).segments(least):
            yield VideoPart(item.path, segment.frames, item.stamp, stem, segment)
    except InputError as error:
        yield VideoPart(item.path, 1, item.stamp, stem, None, with_place(item.path, error))


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
        while hash(str(stem)) in self._taken or RESERVED.fullmatch(stem.as_posix()):
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
