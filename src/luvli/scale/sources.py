"""From what the user names to parts: folders and files, Parquet, tars, videos."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from luvli.errors import InputError, check_range, require
from luvli.image.read import IMAGE_SUFFIXES
from luvli.prediction.input_files import VIDEO_SUFFIXES
from luvli.scale.parquet_source import ParquetFiles
from luvli.scale.parts import Part
from luvli.scale.places import Found, exists, is_uri, list_files
from luvli.scale.tar_source import tar_parts
from luvli.scale.video_source import SEGMENT, video_parts_or_failure

LARGEST, SMALLEST, WANTED = 256, 32, 32
"""images in a part: at most, at least, and how many parts a small source is cut into"""
MANY, HUGE = 4096, 1024
"""beyond so many parts they become larger, up to so many images: Ray Data remembers something
about each part, so that its memory grows with their number"""
TARS = (".tar",)
PACKED = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst", ".zip")
AHEAD = 8
"""files whose inside is looked at together"""


@dataclass(frozen=True)
class SourceOptions:
    """How a source is read."""

    image_column: str | None = None
    """Parquet: the column with images, as bytes or as paths"""
    name_column: str | None = None
    """Parquet: the column with the images' names"""
    part_size: int | None = None
    """images in a part of single files or of a tar; frames, at least, in a segment of a video"""

    def __post_init__(self) -> None:
        if self.part_size is not None:
            check_range("--part-size", self.part_size, 1)


def plan_parts(sources: Iterable[str], options: SourceOptions) -> Iterator[Part]:
    """The parts of all sources, numbered; nothing but one folder's names is held in memory."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape") as images:
        count = 0
        numbered = _Numbered()
        wholes = _WholeFiles(options)
        for source in sources:
            before = count + wholes.count
            for found in _expand(source):
                if wholes.take(found):
                    continue
                images.write(found.place.replace("\n", "\0") + "\n")
                count += 1
            if count + wholes.count == before:
                raise InputError(f"{source} holds no image, Parquet, tar or video: check it.")
        size = options.part_size or part_size(count)
        images.seek(0)
        names = (line.rstrip("\n").replace("\0", "\n") for line in images)
        while some := list(islice(names, size)):
            yield numbered("files", some[0], len(some), some)
        yield from wholes.parts(numbered, size if options.part_size else LARGEST)


def part_size(count: int) -> int:
    """Images in a part of so many single files.

    >>> [part_size(count) for count in (10, 1600, 10**6, 10**8)]
    [32, 50, 256, 1024]
    """
    usual = max(SMALLEST, min(LARGEST, -(-count // WANTED)))
    return max(usual, min(HUGE, count // MANY))


def _expand(source: str) -> Iterator[Found]:
    if exists(source):
        yield Found(source, source.rpartition("/")[2], 0)
        return
    for found in list_files(source):
        name = found.inside.lower()
        if name.endswith(PACKED):
            raise InputError(f"{found.place} is packed: unpack it, or make plain .tar files of it.")
        if name.endswith((*IMAGE_SUFFIXES, *VIDEO_SUFFIXES, *TARS, ".parquet")):
            yield found


class _Numbered:
    """Makes parts with running numbers."""

    def __init__(self) -> None:
        self.next = 0

    def __call__(
        self, kind: Any, place: str, count: int, items: Any = (), about: Any = None
    ) -> Part:
        part = Part(self.next, kind, place, count, list(items), about or {})
        self.next += 1
        return part


class _WholeFiles:
    """Parquet files, tars and videos, which are looked into to be cut."""

    def __init__(self, options: SourceOptions) -> None:
        self.parquet, self.tars, self.videos = list[str](), list[str](), list[str]()
        self.options = options

    @property
    def count(self) -> int:
        return len(self.parquet) + len(self.tars) + len(self.videos)

    def take(self, found: Found) -> bool:
        name = found.place.split("?")[0] if is_uri(found.place) else found.place
        kinds = (
            (".parquet", self.parquet),
            (TARS, self.tars),
            (tuple(VIDEO_SUFFIXES), self.videos),
        )
        for suffixes, places in kinds:
            if name.lower().endswith(suffixes):
                places.append(found.place)
                return True
        return False

    def parts(self, numbered: _Numbered, size: int) -> Iterator[Part]:
        if self.parquet:
            tables = ParquetFiles(self.options.image_column, self.options.name_column)
            for place, groups in _ahead(tables.look, self.parquet):
                for count, about in tables.checked(place, groups):
                    yield numbered("parquet", place, count, (), about)
        for place, pieces in _ahead(partial(tar_parts, size=size), self.tars):
            for entries in pieces:
                yield numbered("tar", place, len(entries), entries)
        if self.videos:
            require("av", "video")
        least = self.options.part_size or SEGMENT
        for place, segments in _ahead(partial(video_parts_or_failure, least=least), self.videos):
            for count, about in segments:
                yield numbered("video", place, count, (), about)


def _ahead(look: Callable[[str], Any], places: list[str]) -> Iterator[tuple[str, Any]]:
    """Look into several files at a time, in order."""
    with ThreadPoolExecutor(AHEAD) as pool:
        for start in range(0, len(places), 4 * AHEAD):
            some = places[start : start + 4 * AHEAD]
            yield from zip(some, pool.map(look, some), strict=True)
