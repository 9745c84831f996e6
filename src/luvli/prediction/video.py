"""Video files in and out: one frame at a time, upright, with their times; sound is kept.

PyAV (FFmpeg) does the decoding and encoding. Times come from the file, so videos whose frame
rate varies stay as they are.
"""

from __future__ import annotations

import contextlib
import heapq
import os
from collections.abc import Iterator
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from luvli.errors import InputError, OutputError, require
from luvli.files import PathLike, unreadable, whole_file
from luvli.image.read import ImageArray, check_image_size
from luvli.prediction.places import is_uri, open_input

MP4_FAMILY = (".mp4", ".m4v", ".mov")
CONTAINERS = "mov,mp4,matroska,webm,avi,mpeg,mpegts,mpegvideo,asf,flv,ogg"
"""what is read; scripts such as ffconcat, which name other files, are not"""
CLOCK = Fraction(1, 90_000)
"""tick of written videos: fine enough for every usual frame rate"""


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
    """A range of a video's frames that begins at a key frame, so that it can be decoded alone."""

    number: int
    """from 0"""
    of: int
    """segments of the video"""
    start: int
    """first frame, in ticks of the stream"""
    end: int | None
    """first frame of the next segment; None: the video's end"""
    first_frame: int
    start_time: float
    """of the whole video, seconds"""
    frames: int


class VideoReader:
    """Frames of a file, or of a segment of it, upright RGB; iterate once.

    `ended_early` says, after the last frame, whether the file broke off or was damaged: what could
    be decoded was given all the same.
    """

    def __init__(self, path: PathLike, segment: Segment | None = None) -> None:
        av = require("av", "video")
        self.path = os.fspath(path)
        self.segment = segment
        self.ended_early = ""
        stream = None if not is_uri(self.path) else open_input(self.path)
        if stream is None and not Path(self.path).is_file():
            raise unreadable(self.path)
        try:
            self._container = _open(self.path, stream)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise InputError(
                f"{self.path} is not a readable video ({_why(error)}): copy or download it again."
            ) from error
        if not self._container.streams.video:
            self._container.close()
            raise InputError(f"{self.path} has no video stream: give a video file.")
        self._stream = self._container.streams.video[0]
        self._stream.thread_type = "AUTO"
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
        ends = [*starts[1:], len(times)]
        return [
            Segment(number, len(starts), times[start][0],
                    times[end][0] if end < len(times) else None, start, begin, end - start)
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]  # fmt: skip

    def __iter__(self) -> Iterator[Frame]:
        av = require("av", "video")
        index, last, why = 0, -1.0, ""
        first = 0 if self.segment is None else self.segment.first_frame
        start: float | None = None if self.segment is None else self.segment.start_time
        try:
            for frame in self._decoded():
                number = first + index
                time = number / self.rate if frame.time is None else float(frame.time)
                start = time if start is None else start
                time = max(time - start, last + 1e-4)  # damaged files may jump back
                yield Frame(number, time, upright(frame))
                index, last = index + 1, time
        except av.FFmpegError as error:
            why = f" ({_why(error)})"
        finally:
            self._container.close()
        whole = self.segment is None or self.segment.of == 1
        if index == 0 and whole:
            raise InputError(
                f"{self.path} has no frame that can be decoded: copy or download it again."
            )
        # one sentence for a file that was cut off: whether the packet that was cut raises an error
        # depends on how many threads decode
        counted = self._stream.frames if whole or not self.segment else self.segment.frames
        if counted and index < counted:
            self.ended_early = f"gives only {index} of {counted} frames{why}"
        elif whole and not counted and self._seconds and last < 0.95 * self._seconds - 0.5:
            self.ended_early = f"gives only {last:.1f} of {self._seconds:.1f} seconds{why}"
        elif why:
            self.ended_early = f"is damaged{why}"

    def _decoded(self) -> Iterator[Any]:
        segment = self.segment
        if segment is None or not segment.number:
            frames = decoded_frames(self._container, self._stream)
        else:
            self._container.seek(segment.start, stream=self._stream, backward=True)
            frames = (
                frame
                for frame in decoded_frames(self._container, self._stream)
                if frame.pts is None or frame.pts >= segment.start
            )
        for frame in frames:
            if segment and segment.end is not None and (frame.pts or 0) >= segment.end:
                return
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


def _duration(container: Any, stream: Any) -> float | None:
    """Length of the video stream in seconds; None when the file does not say."""
    if stream.duration:
        return float(stream.duration * stream.time_base)
    hours, _, rest = str(stream.metadata.get("DURATION", "")).partition(":")  # Matroska
    minutes, _, seconds = rest.partition(":")
    with contextlib.suppress(ValueError):
        return 3600 * float(hours) + 60 * float(minutes) + float(seconds)
    if container.duration and len(container.streams) == 1:
        return float(container.duration) / 1e6
    return None


def upright(frame: Any) -> ImageArray:
    """A decoded frame as RGB, turned as the file's display matrix says."""
    check_image_size(frame.width, frame.height, "a frame")
    image = frame.to_ndarray(format="rgb24")
    quarter_turns = round(getattr(frame, "rotation", 0) / 90) % 4  # counter-clockwise
    return np.ascontiguousarray(np.rot90(image, quarter_turns)) if quarter_turns else image


def output_suffix(source: PathLike) -> str:
    """The kind of file to write: MP4 for MP4s, Matroska, which holds any sound, for others."""
    return ".mp4" if Path(source).suffix.lower() in MP4_FAMILY else ".mkv"


class VideoWriter:
    """Writes frames, and adds the sound of `source`, unchanged.

    Sound that cannot be copied, because it is damaged or of a kind that the file cannot hold,
    is left out; `sound_lost` then says so. The caller gives a temporary path
    (`luvli.files.whole_file`), so that a video appears whole or not at all.
    """

    def __init__(self, path: PathLike, rate: float, source: PathLike | None = None) -> None:
        self._path, self._source = Path(path), source
        self._rate = Fraction(rate).limit_denominator(1001)
        self._container = _create(path)
        self._stream: Any = None
        self._last = -1
        self.sound_lost = ""

    def write(self, image: ImageArray, time: float) -> None:
        """One frame, at `time` seconds."""
        av = require("av", "video")
        height, width = image.shape[:2]
        if self._stream is None:
            self._start(width + width % 2, height + height % 2)
        if width % 2 or height % 2:  # the encoder wants even sides
            image = np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        self._last = max(round(time / CLOCK), self._last + 1)
        frame.pts, frame.time_base = self._last, CLOCK
        self._container.mux(self._stream.encode(frame))

    def _start(self, width: int, height: int) -> None:
        av = require("av", "video")
        try:
            av.Codec("libx264", "w")
            name, options = "libx264", {"preset": "veryfast", "crf": "20"}
        except Exception:  # a build of FFmpeg without x264
            name, options = "mpeg4", {"q": "3"}
        self._stream = self._container.add_stream(name, rate=self._rate, options=options)
        self._stream.width, self._stream.height = width, height
        self._stream.pix_fmt = "yuv420p"
        self._stream.codec_context.time_base = CLOCK
        self._stream.thread_type = "AUTO"

    def close(self) -> None:
        """Write what the encoder still holds and the index; then add the sound."""
        if self._stream is not None:
            self._container.mux(self._stream.encode(None))
        self._container.close()
        if self._source is not None and self._stream is not None:
            self.sound_lost = add_sound(self._path, self._source)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(Exception):  # the first error is the one to tell
            self._container.close()


def add_sound(path: Path, source: PathLike) -> str:
    """Add the sound of `source`, packet by packet, to a video without any -> empty, or why not."""
    av = require("av", "video")
    try:
        with _open(source) as sound:
            if not sound.streams.audio:
                return ""
            with whole_file(path) as joined, _open(path) as video, _create(joined) as target:
                _interleave(video, sound, target)
    except OutputError:
        raise
    except (av.FFmpegError, ValueError) as error:  # so are invalid data and arguments
        return f"has sound that could not be copied ({_why(error)})"
    return ""


def _interleave(video: Any, sound: Any, target: Any) -> None:
    """The packets of both files in the order of their times."""
    pictures, audio = video.streams.video[0], sound.streams.audio[0]
    # frames start at 0 (see VideoReader): sound moves by as much
    shown = sound.streams.video[0] if sound.streams.video else None
    shift = 0 if shown is None else (shown.start_time or 0) * (shown.time_base or 0)

    def packets(container: Any, stream: Any, shift: Any) -> Iterator[tuple[Any, Any, Any]]:
        out = target.add_stream_from_template(stream)
        ticks, time = round(shift / stream.time_base), Fraction(0)
        with contextlib.suppress(require("av", "video").FFmpegError):
            # damaged sound ends where it is damaged; the image goes on
            for packet in container.demux(stream):
                if not packet.size:
                    continue  # the empty packet at the end
                packet.pts = None if packet.pts is None else packet.pts - ticks
                if packet.dts is not None:  # Matroska leaves out the first ones
                    packet.dts -= ticks
                    time = packet.dts * packet.time_base
                yield time, out, packet

    both = (packets(video, pictures, 0), packets(sound, audio, shift))
    for _, out, packet in heapq.merge(*both, key=itemgetter(0)):
        packet.stream = out
        target.mux_one(packet)


def _open(path: PathLike, stream: Any = None) -> Any:
    """A container for reading. With `file:` no name is taken for an address; titles and names in a
    file need not be UTF-8, whatever its format promises."""
    return require("av", "video").open(
        stream or f"file:{os.fspath(path)}",
        metadata_errors="replace",
        options={"format_whitelist": CONTAINERS, "protocol_whitelist": "file"},
    )


def _create(path: PathLike) -> Any:
    """A container for writing; the same frames give the same bytes, without date and random
    numbers."""
    return require("av", "video").open(
        f"file:{os.fspath(path)}", "w", container_options={"fflags": "+bitexact"}
    )


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:80]
