"""Faces followed through a video, a camera or any frames: the generator behind `model.track`."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeGuard, cast, get_args

import numpy as np

from luvli.errors import InputError, a_type, unknown_choice, warn_caller
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


class Capture(Protocol):
    """What frames are asked from one by one, as `cv2.VideoCapture`: BGR."""

    def isOpened(self) -> bool: ...
    def read(self) -> tuple[bool, Any]: ...


Stream = PathLike | int | Capture | Iterable[AnyImage | Frame]
"""a video file, the number of a camera, OpenCV's capture, or frames"""


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
    """Frames with their faces, as `Predictor.track` says; checked here, not at the first frame."""
    _check(source, rate, min_score, color)
    return _tracked(predictor, source, smooth, rate, min_score, color)


def _tracked(
    predictor: Predictor, source: Stream, smooth: bool, rate: float, min_score: float, color: Color
) -> Iterator[TrackedFrame]:
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


def _check(source: Any, rate: Any, min_score: Any, color: Any) -> None:
    """One sentence for whatever cannot be a video, before anything is opened."""
    if color not in get_args(Color):
        raise unknown_choice("color", color, get_args(Color))
    for name, value, good in (
        ("rate", rate, "a number of frames a second above 0"),
        ("min_score", min_score, "a number in 0..1"),
    ):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        fits = number and (0 < value < math.inf if name == "rate" else 0 <= value <= 1)
        if not fits:
            raise InputError(f"{name} must be {good}, got {value!r}.")
    give = "give a video file, the number of a camera, or a list or generator of images"
    if isinstance(source, str) and "://" in source:
        raise InputError(
            f"{source} is an address: download the video and give its path, or give "
            "cv2.VideoCapture(address)."
        )
    if _is_capture(source):
        if not source.isOpened():
            raise InputError("the cv2.VideoCapture is not open: check its path or address.")
        return
    if 0 < getattr(source, "ndim", 4) <= 3:  # arrays and tensors
        shape = tuple(source.shape)
        raise InputError(f"an array of shape {shape} is one image, not a video: {give}.")
    held = hasattr(source, "read") or isinstance(source, bytes | bytearray | memoryview)
    if isinstance(source, bool) or held or not isinstance(source, int | os.PathLike | Iterable):
        raise InputError(f"a video cannot be {a_type(source)}: {give}.")


def _frames(source: Stream, rate: float, color: Color) -> Iterator[Frame]:
    if isinstance(source, int):
        yield from camera_frames(source)
    elif isinstance(source, str | os.PathLike):
        reader = VideoReader(source)
        yield from prefetch(reader)
        if reader.ended_early:
            warn_caller(f"{source} {reader.ended_early}: faces are of what could be read.")
    elif _is_capture(source):
        good, image = source.read()
        number = 0
        while good:
            yield Frame(number, number / rate, _pixels(image, "bgr", number))
            good, image = source.read()
            number += 1
    else:
        for number, item in enumerate(cast("Iterable[AnyImage | Frame]", source)):
            if isinstance(item, Frame):
                yield item._replace(image=_pixels(item.image, "rgb", number))
                continue
            yield Frame(number, number / rate, _pixels(item, color, number))


def _is_capture(source: Any) -> TypeGuard[Capture]:
    return hasattr(source, "isOpened") and hasattr(source, "read")


def _pixels(image: AnyImage, color: Color, number: int) -> ImageArray:
    try:
        return np.asarray(read_image(plain_source(image, color)), dtype=np.uint8)
    except InputError as error:
        raise InputError(f"frame {number}: {error}") from error
