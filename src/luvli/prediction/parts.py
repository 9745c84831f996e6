"""The parts of a job: as much as is read, predicted and written in one go.

A part's result is one file, written whole. What a part holds never changes once it was planned, so
that doing it twice, on any machine, gives the same file.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from luvli.errors import InputError
from luvli.image.read import ImageSource
from luvli.prediction.places import is_uri, join, read_bytes
from luvli.prediction.settings import WORK, JobSettings, drawing_name, video_outputs
from luvli.prediction.video import Segment

AHEAD = 8
"""files of a store that are asked for together"""
Content = ImageSource | InputError
"""an image, or why there is none"""


@dataclass
class Part:
    """What one worker takes at a time."""

    place: str
    """the file that it is from; of single images, the first one"""
    count: int
    """images or frames in it: rows that must come out"""
    stamp: str
    """size and time of the file: a run whose inputs have changed does not go on"""
    number: int = field(default=0, kw_only=True)
    """place in the plan, from 0"""

    @property
    def name(self) -> str:
        """What its files are called.

        >>> Part("s3://b/train-17.tar", 9, "", number=17).name
        'part-0000017'
        """
        return f"part-{self.number:07d}"

    def result_place(self, settings: JobSettings, joined: bool = False) -> str:
        """Where its result is: a Parquet file in OUT where these are what is asked for. Videos have
        to be `joined` before that."""
        if settings.format == "parts" and (joined or not isinstance(self, VideoPart)):
            return join(settings.out, f"{self.name}.parquet")
        return join(settings.out, WORK, f"{self.name}.npz")

    def name_of(self, index: int) -> str:
        """An image's name."""
        return self.place

    def contents(self, start: int) -> Iterator[tuple[str, Content]]:
        """Name and content of each image from number `start` on, a few in memory at a time; none
        of a video, whose frames are one `Segment`."""
        yield from ()

    def other_columns(self) -> Any:
        """What else the source says of each image, as a pyarrow table; None: nothing."""
        return None

    def outputs(self, settings: JobSettings) -> Iterator[str]:
        """Names of files of its own, inside OUT."""
        yield from ()


@dataclass
class ImagesPart(Part):
    """Single image files."""

    paths: list[str]
    stems: list[str]
    """what the outputs of each are called after; empty where none has any"""

    def name_of(self, index: int) -> str:
        return self.paths[index]

    def contents(self, start: int) -> Iterator[tuple[str, Content]]:
        paths = self.paths[start:]
        if not any(map(is_uri, paths)):
            yield from zip(paths, paths, strict=True)  # opened when they are looked at
            return

        def read(place: str) -> tuple[str, Content]:
            try:
                return place, read_bytes(place)
            except InputError as error:
                return place, error

        with ThreadPoolExecutor(AHEAD) as pool:  # a store takes its time to answer
            for i in range(0, len(paths), AHEAD):
                yield from pool.map(read, paths[i : i + AHEAD])

    def outputs(self, settings: JobSettings) -> Iterator[str]:
        for path, stem in zip(self.paths, self.stems, strict=False):
            if settings.format == "pts":
                yield f"{stem}.pts"
            if settings.draw:
                yield drawing_name(path, stem)


@dataclass
class VideoPart(Part):
    """A segment of a video."""

    stem: str
    segment: Segment | None
    error: str = ""
    """why the video cannot be read: the part is one row that says so"""

    def outputs(self, settings: JobSettings) -> Iterator[str]:
        yield from video_outputs(settings, self.stem, self.place).values()
