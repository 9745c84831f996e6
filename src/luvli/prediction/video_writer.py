"""Video files, written frame by frame; the sound of another file is added, unchanged."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Self

import numpy as np

from luvli.errors import brief, require
from luvli.files import PathLike
from luvli.image.read import ImageArray
from luvli.prediction.video import open_container

CLOCK = Fraction(1, 60_000)
"""tick of written videos: fine enough for every usual frame rate; MPEG-4 takes no finer one"""
ENCODERS = {"libx264": {"preset": "veryfast", "crf": "20"}, "mpeg4": {"b": "8M"}}
"""the first one that this FFmpeg has is used: some are built without H.264"""


class VideoWriter:
    """Writes frames, and adds the sound of `source`, unchanged.

    Sound that cannot be copied, because it is damaged or of a kind that the file cannot hold,
    is left out; `sound_lost` then says so. The caller gives a temporary path
    (`luvli.files.whole_file`), so that a video appears whole or not at all.
    """

    def __init__(self, path: PathLike, rate: float, source: PathLike | None = None) -> None:
        self.sound_lost = ""
        self._path, self._source = path, source
        self._rate = Fraction(rate).limit_denominator(1001)
        self._container: Any = None
        self._last = -1
        self._sound: Iterator[tuple[Fraction, Any]] = iter(())
        self._next: tuple[Fraction, Any] | None = None
        """the sound's packet that comes next, and its time in seconds"""

    def write(self, image: ImageArray, time: float) -> None:
        """One frame, at `time` seconds."""
        av = require("av", "video")
        height, width = image.shape[:2]
        if self._container is None:
            self._start(width + width % 2, height + height % 2)
        if width % 2 or height % 2:  # the encoder wants even sides
            image = np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        self._last = max(round(time / CLOCK), self._last + 1)
        frame.pts, frame.time_base = self._last, CLOCK
        self._write_sound(time)
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Write the rest of the sound, what the encoder still holds, and the index."""
        if self._container is not None:
            self._write_sound(math.inf)
            self._container.mux(self._stream.encode(None))
            self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        elif self._container is not None:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self._container.close()

    def _start(self, width: int, height: int) -> None:
        """Open the file, with the sound if it can hold it."""
        av = require("av", "video")
        self._create(width, height)
        if self._source is not None:
            try:
                self._sound = self._open_sound(self._source)
                self._next = next(self._sound, None)
                self._container.start_encoding()
            except (av.FFmpegError, ValueError) as error:  # so are invalid data and arguments
                self._lose_sound(error)
                with contextlib.suppress(av.FFmpegError):
                    self._container.close()
                self._create(width, height)

    def _create(self, width: int, height: int) -> None:
        """A container for writing; the same frames give the same bytes, without date and random
        numbers."""
        av = require("av", "video")
        self._container = av.open(
            f"file:{os.fspath(self._path)}", "w", container_options={"fflags": "+bitexact"}
        )
        codec = next(name for name in ENCODERS if name in av.codecs_available)
        stream = self._container.add_stream(codec, rate=self._rate, options=ENCODERS[codec])
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = CLOCK
        stream.thread_type = "AUTO"
        self._stream = stream

    def _open_sound(self, source: PathLike) -> Iterator[tuple[Fraction, Any]]:
        """The packets of the sound with their times, for a stream of this file."""
        container = open_container(source)
        if not container.streams.audio:
            container.close()
            return iter(())
        sound = container.streams.audio[0]
        # frames start at 0 (see VideoReader): sound moves by as much
        shown = container.streams.video[0] if container.streams.video else None
        shift = 0 if shown is None else (shown.start_time or 0) * (shown.time_base or 0)
        return _packets(container, sound, self._container.add_stream_from_template(sound), shift)

    def _write_sound(self, until: float) -> None:
        """The packets up to a time, in seconds."""
        av = require("av", "video")
        try:
            while self._next is not None and self._next[0] <= until:
                self._container.mux_one(self._next[1])
                self._next = next(self._sound, None)
        except (av.FFmpegError, ValueError) as error:
            self._lose_sound(error)

    def _lose_sound(self, error: Exception) -> None:
        self._next = None
        self.sound_lost = f"has sound that could not be copied ({brief(error)})"


def _packets(
    container: Any, stream: Any, target: Any, shift: Any
) -> Iterator[tuple[Fraction, Any]]:
    """Packets for a stream of another file; damaged sound ends where it is damaged."""
    ticks, time = round(shift / stream.time_base), Fraction(0)
    with container, contextlib.suppress(require("av", "video").FFmpegError):
        for packet in container.demux(stream):
            if not packet.size:
                continue  # the empty packet at the end
            packet.pts = None if packet.pts is None else packet.pts - ticks
            if packet.dts is not None:  # Matroska leaves out the first ones
                packet.dts -= ticks
                time = packet.dts * packet.time_base
            packet.stream = target
            yield time, packet
