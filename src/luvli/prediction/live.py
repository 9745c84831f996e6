"""Faces followed through a video, a camera or any frames: the generator behind `model.track`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from luvli.faces import FaceLandmarks
from luvli.files import PathLike
from luvli.image.detect import MIN_SCORE
from luvli.image.read import ImageArray, read_image
from luvli.image.source import AnyImage, Color, plain_source
from luvli.prediction.camera import camera_frames
from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result
from luvli.prediction.track import Follower, follow, smoothed
from luvli.prediction.video import Frame, VideoReader
from luvli.prefetch import prefetch

Stream = PathLike | int | Iterable[AnyImage | Frame]
"""a video file, the number of a camera, or frames"""


class TrackedFrame(NamedTuple):
    """One frame and its faces."""

    frame: Frame
    """number, time and image"""
    faces: list[FaceLandmarks]
    """each with its `track` and `time`"""


def track_faces(
    predictor: Predictor,
    source: Stream,
    smooth: bool = False,
    rate: float = 25.0,
    min_score: float = MIN_SCORE,
    color: Color = "rgb",
) -> Iterator[TrackedFrame]:
    """Frames with their faces, as `Predictor.track` says."""
    is_file = isinstance(source, str | os.PathLike)
    held: deque[Frame] = deque()  # smoothing looks ahead; frames wait for their faces

    def passed() -> Iterator[Result]:
        follower = Follower(predictor, min_score)
        for frame in _frames(source, rate, color):
            held.append(frame)
            yield from (result for result, _ in follow([frame], "", follower))

    for result in smoothed(passed(), offline=is_file) if smooth else passed():
        frame = held.popleft()
        faces = [
            replace(face, track=track, time=frame.time)
            for face, track in zip(result.faces, result.tracks, strict=True)
        ]
        yield TrackedFrame(frame, faces)


def _frames(source: Stream, rate: float, color: Color) -> Iterator[Frame]:
    if isinstance(source, int):
        yield from camera_frames(source)
    elif isinstance(source, str | os.PathLike):
        yield from prefetch(VideoReader(source))
    else:
        for number, item in enumerate(source):
            if isinstance(item, Frame):
                yield item
                continue
            yield Frame(number, number / rate, _pixels(item, color))


def _pixels(image: AnyImage, color: Color) -> ImageArray:
    return np.asarray(read_image(plain_source(image, color)), dtype=np.uint8)
