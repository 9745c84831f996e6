"""Frames of whatever a video may come as: a file, a camera, OpenCV's capture, images."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeGuard, cast, get_args

import numpy as np

from luvli.errors import InputError, a_type, unknown_choice, warn_caller
from luvli.files import PathLike
from luvli.image.read import ImageArray, read_image
from luvli.image.source import AnyImage, Color, plain_source
from luvli.prediction.video import Frame, VideoReader
from luvli.prefetch import prefetch


class Capture(Protocol):
    """What frames are asked from one by one, as `cv2.VideoCapture`: BGR."""

    def isOpened(self) -> bool: ...
    def read(self) -> tuple[bool, Any]: ...


Stream = PathLike | int | Capture | Iterable[AnyImage | Frame]
"""a video file, the number of a camera, OpenCV's capture, or frames"""


def check_stream(source: Any, rate: Any, color: Any) -> None:
    """One sentence for whatever cannot be a video, before anything is opened."""
    if color not in get_args(Color):
        raise unknown_choice("color", color, get_args(Color))
    if not isinstance(rate, int | float | np.number) or not 0 < rate < math.inf:
        raise InputError(f"rate must be a number of frames a second above 0, got {rate!r}.")
    instead = "give a video file, the number of a camera, or a list or generator of images"
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
        raise InputError(f"an array of shape {shape} is one image, not a video: {instead}.")
    is_bytes = hasattr(source, "read") or isinstance(source, bytes | bytearray | memoryview)
    if isinstance(source, bool) or is_bytes or not isinstance(source, int | os.PathLike | Iterable):
        raise InputError(f"a video cannot be {a_type(source)}: {instead}.")


def stream_frames(source: Stream, rate: float, color: Color) -> Iterator[Frame]:
    """The frames one by one; `rate` is for sources without times, `color` for arrays."""
    if isinstance(source, int):
        yield from camera_frames(source)
    elif isinstance(source, str | os.PathLike):
        reader = VideoReader(source)
        yield from prefetch(reader)
        if reader.ended_early:
            warn_caller(f"{source} {reader.ended_early}: faces are of what could be read.")
    else:
        order: Color = "bgr" if _is_capture(source) else color
        items = _images(source) if _is_capture(source) else cast("Iterable[AnyImage]", source)
        for number, item in enumerate(items):
            if isinstance(item, Frame):
                yield item._replace(image=_pixels(item.image, "rgb", number))
            else:
                yield Frame(number, number / rate, _pixels(item, order, number))


def _is_capture(source: Any) -> TypeGuard[Capture]:
    return hasattr(source, "isOpened") and hasattr(source, "read")


def _images(capture: Capture) -> Iterator[Any]:
    while (shot := capture.read())[0]:
        yield shot[1]


def _pixels(image: AnyImage, color: Color, number: int) -> ImageArray:
    try:
        return np.asarray(read_image(plain_source(image, color)), dtype=np.uint8)
    except InputError as error:
        raise InputError(f"frame {number}: {error}") from error


def camera_frames(number: int) -> Iterator[Frame]:
    """Frames of camera `number` until Ctrl-C; times are the clock's."""
    if number < 0:  # OpenCV would look for any, and ends the whole program where there is none
        raise InputError(f"camera {number} cannot be: count cameras from 0.")
    import cv2

    log: Any = cv2.utils.logging
    before = log.getLogLevel()
    log.setLogLevel(log.LOG_LEVEL_ERROR)  # we say ourselves what is wrong
    capture: Any = cv2.VideoCapture(number)
    log.setLogLevel(before)
    if not capture.isOpened():
        capture.release()
        raise InputError(f"camera {number} cannot be opened: check that it is plugged in and free.")
    stopped = threading.Event()
    # only the main thread may ask for signals; elsewhere whoever reads the frames stops
    main = threading.current_thread() is threading.main_thread()
    # Ctrl-C: the frame at work is finished, then everything is written
    handler = signal.signal(signal.SIGINT, lambda *_: stopped.set()) if main else None
    start = time.monotonic()
    try:
        for count, image in enumerate(_images(capture)):
            if stopped.is_set():
                break
            yield Frame(count, time.monotonic() - start, image[:, :, ::-1].copy())
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
        capture.release()
