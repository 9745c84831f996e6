"""Video files, written frame by frame; the sound of another file is added, unchanged."""

from __future__ import annotations

import contextlib
import heapq
import os
from collections.abc import Iterator
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import numpy as np

from luvli.errors import OutputError, brief, require
from luvli.files import PathLike, whole_file
from luvli.image.read import ImageArray
from luvli.prediction.video import open_container

MP4_FAMILY = (".mp4", ".m4v", ".mov")
CLOCK = Fraction(1, 90_000)
"""tick of written videos: fine enough for every usual frame rate"""


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
        options = {"preset": "veryfast", "crf": "20"}
        self._stream = self._container.add_stream("libx264", rate=self._rate, options=options)
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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(Exception):  # the first error is the one to tell
            self._container.close()


def add_sound(path: Path, source: PathLike) -> str:
    """Add the sound of `source`, packet by packet, to a video without any -> empty, or why not."""
    av = require("av", "video")
    try:
        with open_container(source) as sound:
            if not sound.streams.audio:
                return ""
            with (
                whole_file(path) as joined,
                open_container(path) as video,
                _create(joined) as target,
            ):
                _interleave(video, sound, target)
    except OutputError:
        raise
    except (av.FFmpegError, ValueError) as error:  # so are invalid data and arguments
        return f"has sound that could not be copied ({brief(error)})"
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


def _create(path: PathLike) -> Any:
    """A container for writing; the same frames give the same bytes, without date and random
    numbers."""
    return require("av", "video").open(
        f"file:{os.fspath(path)}", "w", container_options={"fflags": "+bitexact"}
    )
