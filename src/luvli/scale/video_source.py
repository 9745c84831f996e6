"""Videos in segments that begin at key frames, so that each can be decoded by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from luvli.errors import InputError, require
from luvli.prediction.video import Frame, decoded_frames, upright
from luvli.scale.parts import Part
from luvli.scale.places import is_uri, open_place

SEGMENT = 1500
"""frames in a segment at least, where the video has more: a minute or so. Shorter videos are one
part and give what `luvli predict` gives; in longer ones each segment is followed anew."""


def video_parts(place: str, least: int = SEGMENT) -> list[tuple[int, dict[str, Any]]]:
    """Frames and description of each segment; packets are read, nothing is decoded."""
    with _Video(place) as video:
        times: list[tuple[int, bool]] = []
        for packet in video.container.demux(video.stream):
            if packet.pts is not None:
                times.append((packet.pts, packet.is_keyframe))
    times.sort()
    if not times:
        raise InputError(f"{place} has no frame: copy or download it again.")
    starts = [0]
    for i, (_, key) in enumerate(times):
        if key and i - starts[-1] >= least and len(times) - i >= least // 2:
            starts.append(i)
    ends = [*starts[1:], len(times)]
    first = times[0][0]
    return [
        (
            end - start,
            {
                "segment": number,
                "segments": len(starts),
                "start": times[start][0],
                "end": times[end][0] if end < len(times) else None,
                "first_frame": start,
                "start_time": float(first * video.base),
            },
        )
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def video_parts_or_failure(place: str, least: int) -> list[tuple[int, dict[str, Any]]]:
    """The same; a video that cannot be read is one part of one row, which says why."""
    try:
        return video_parts(place, least)
    except InputError as error:
        return [(1, {"segment": 0, "segments": 1, "error": str(error)})]


def read_video_part(part: Part) -> Iterator[Frame]:
    """The frames of a segment, numbered and timed as in the whole video."""
    av = require("av", "video")
    about = part.about
    number, last = about["first_frame"], -1.0
    with _Video(part.place) as video:
        if about["segment"]:
            video.container.seek(about["start"], stream=video.stream, backward=True)
        try:
            for frame in decoded_frames(video.container, video.stream):
                if about["segment"] and frame.pts is not None and frame.pts < about["start"]:
                    continue
                if about["end"] is not None and frame.pts is not None and frame.pts >= about["end"]:
                    return
                time = number / video.rate if frame.time is None else float(frame.time)
                time = max(time - about["start_time"], last + 1e-4)
                yield Frame(number, time, upright(frame))
                number, last = number + 1, time
        except av.FFmpegError as error:
            raise InputError(
                f"{part.place} is damaged after frame {number} ({error.strerror}): results are for "
                "what could be read."
            ) from error


class _Video:
    """An open video file with its first stream of images."""

    def __init__(self, place: str) -> None:
        av = require("av", "video")
        local = not is_uri(place)
        if local and not Path(place).is_file():
            raise InputError(f"{place} does not exist: check the path.")
        try:
            self._file = None if local else _stream(place)
            self.container = av.open(place if local else self._file)
        except (av.FFmpegError, OSError) as error:
            why = error.strerror or error
            raise InputError(
                f"{place} is not a readable video ({why}): copy or download it again."
            ) from error
        if not self.container.streams.video:
            self.container.close()
            raise InputError(f"{place} has no video stream: give a video file.")
        self.stream = self.container.streams.video[0]
        self.stream.thread_type = "AUTO"
        self.base = self.stream.time_base
        self.rate = float(self.stream.average_rate or self.stream.guessed_rate or 25)

    def __enter__(self) -> _Video:
        return self

    def __exit__(self, *_: object) -> None:
        self.container.close()
        if self._file is not None:
            self._file.close()


def _stream(place: str) -> Any:
    files, path = open_place(place)
    return files.open_input_file(path)
