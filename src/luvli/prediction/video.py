"""Video files, read one frame at a time, upright, with their times, or segment by segment.

PyAV (FFmpeg) decodes them. Times come from the file, so that videos whose frame rate varies stay as
they are; `luvli.prediction.video_writer` writes them so.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.errors import InputError, brief, require
from luvli.files import PathLike, unreadable
from luvli.image.array import ImageArray, check_image_size
from luvli.prediction.places import is_uri, open_input

CONTAINERS = "mov,mp4,matroska,webm,avi,mpeg,mpegts,mpegvideo,asf,flv,ogg"
"""what is read; scripts such as ffconcat, which name other files, are not"""


class Frame(NamedTuple):
    """One image of a video."""

    number: int
    """from 0"""
    time: float
    """seconds; grows from frame to frame"""
    image: ImageArray

    def __repr__(self) -> str:
        """One line, without the pixels."""
        height, width = self.image.shape[:2]
        return f"Frame(number={self.number}, time={self.time:.3f}, image {width} x {height})"


class Segment(NamedTuple):
    """A range of a video's frames that begins at a key frame, so that it can be decoded alone; by
    default all of them."""

    start: int = 0
    """first frame, in ticks of the stream"""
    end: int | None = None
    """first frame of the next segment; None: the video's end"""
    first_frame: int = 0
    """its number in the video"""
    start_time: float | None = None
    """of the whole video, seconds; None: that of its first frame"""
    frames: int = 0
    """0 where nobody knows"""


class VideoReader:
    """Frames of a file, or of a segment of it, upright RGB; iterate once.

    `ended_early` says, after the last frame, whether the file broke off or was damaged: what could
    be decoded was given all the same.
    """

    def __init__(self, path: PathLike, segment: Segment | None = None) -> None:
        av = require("av", "video")
        self.path = os.fspath(path)
        self.ended_early = ""
        stream = None if not is_uri(self.path) else open_input(self.path)
        if stream is None and not Path(self.path).is_file():
            raise unreadable(self.path)
        try:
            self._container = open_container(self.path, stream)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise InputError(
                f"{self.path} is not a readable video ({brief(error)}): copy or download it again."
            ) from error
        if not self._container.streams.video:
            self._container.close()
            raise InputError(f"{self.path} has no video stream: give a video file.")
        self._stream = self._container.streams.video[0]
        self._stream.thread_type = "AUTO"
        self.segment = segment or Segment(frames=self._stream.frames)
        self.rate = float(self._stream.average_rate or self._stream.guessed_rate or 25)
        self._seconds = _duration(self._container, self._stream)

    def segments(self, least: int) -> list[Segment]:
        """Segments of at least so many frames; packets are read, nothing is decoded."""
        av = require("av", "video")
        times: list[tuple[int, bool]] = []
        with contextlib.suppress(av.FFmpegError):  # a file that is cut off: what is there
            for packet in self._container.demux(self._stream):
                if packet.pts is not None:
                    times.append((packet.pts, packet.is_keyframe))
        self._container.close()
        times.sort()
        if not times:
            raise InputError(
                f"{self.path} has no frame that can be decoded: copy or download it again."
            )
        starts = [0]
        for i, (_, key) in enumerate(times):
            if key and i - starts[-1] >= least and len(times) - i >= least // 2:
                starts.append(i)
        begin = float(times[0][0] * self._stream.time_base)
        # what the file promises and does not have counts as lost, in the last segment
        short = (times[-1][0] - times[0][0]) * self._stream.time_base < 0.95 * self._seconds - 0.5
        promised = self._stream.frames or (round(self._seconds * self.rate) if short else 0)
        ends = [*starts[1:], max(len(times), promised)]
        return [
            Segment(times[start][0], times[end][0] if end < len(times) else None, start, begin,
                    end - start)
            for start, end in zip(starts, ends, strict=True)
        ]  # fmt: skip

    def __iter__(self) -> Iterator[Frame]:
        av = require("av", "video")
        count, last, why = 0, -1.0, ""
        _, _, first, start, promised = self.segment
        try:
            for frame in self._decoded():
                time = (first + count) / self.rate if frame.time is None else float(frame.time)
                start = time if start is None else start
                last = max(time - start, last + 1e-4)  # damaged files may jump back
                yield Frame(first + count, last, upright(frame))
                count += 1
        except av.FFmpegError as error:
            why = f" ({brief(error)})"
        finally:
            self._container.close()
        if not count and not first:
            raise InputError(
                f"{self.path} has no frame that can be decoded: copy or download it again."
            )
        # one sentence for a file that was cut off: whether the packet that was cut raises an error
        # depends on how many threads decode
        if promised and count < promised:
            self.ended_early = f"gives only {count} of {promised} frames{why}"
        elif not promised and self._seconds and last < 0.95 * self._seconds - 0.5:
            self.ended_early = f"gives only {last:.1f} of {self._seconds:.1f} seconds{why}"
        elif why:
            self.ended_early = f"is damaged{why}"

    def _decoded(self) -> Iterator[Any]:
        start, end, first, *_ = self.segment
        if first:
            self._container.seek(start, stream=self._stream, backward=True)
        for frame in decoded_frames(self._container, self._stream):
            if end is not None and frame.pts is not None and frame.pts >= end:
                return
            if not first or frame.pts is None or frame.pts >= start:
                yield frame


def decoded_frames(container: Any, stream: Any) -> Iterator[Any]:
    """Frames of all packets that can be decoded; damage in the middle costs only itself."""
    av = require("av", "video")
    failed: Exception | None = None
    for packet in container.demux(stream):
        try:
            yield from packet.decode()
        except av.FFmpegError as error:
            failed = error
    if failed is not None:
        raise failed


def _duration(container: Any, stream: Any) -> float:
    """Length of the video stream in seconds; 0 when the file does not say."""
    if stream.duration:
        return float(stream.duration * stream.time_base)
    hours, _, rest = str(stream.metadata.get("DURATION", "")).partition(":")  # Matroska
    minutes, _, seconds = rest.partition(":")
    with contextlib.suppress(ValueError):
        return 3600 * float(hours) + 60 * float(minutes) + float(seconds)
    if container.duration and len(container.streams) == 1:
        return float(container.duration) / 1e6
    return 0.0


def upright(frame: Any) -> ImageArray:
    """A decoded frame as RGB, turned as the file's display matrix says."""
    check_image_size(frame.width, frame.height, "a frame")
    image = frame.to_ndarray(format="rgb24")
    quarter_turns = round(getattr(frame, "rotation", 0) / 90) % 4  # counter-clockwise
    return np.ascontiguousarray(np.rot90(image, quarter_turns)) if quarter_turns else image


def open_container(path: PathLike, stream: Any = None) -> Any:
    """A container for reading. With `file:` no name is taken for an address; titles and names in a
    file need not be UTF-8, whatever its format promises."""
    return require("av", "video").open(
        stream or f"file:{os.fspath(path)}",
        metadata_errors="replace",
        options={"format_whitelist": CONTAINERS, "protocol_whitelist": "file"},
    )


def with_place(place: str, error: InputError) -> str:
    """The sentence of an error, with the file in it: that a package is missing does not name it."""
    return str(error) if place in str(error) else f"{place}: {error}"
