"""Live images from a camera, through OpenCV."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from luvli.errors import InputError
from luvli.prediction.video import Frame


def camera_frames(number: int, seconds: float | None = None) -> Iterator[Frame]:
    """Frames of camera `number` until Ctrl-C, or for some seconds; times are the clock's."""
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
    try:
        start, count = time.monotonic(), 0
        while not stopped.is_set():
            good, image = capture.read()
            now = time.monotonic() - start
            if not good or (seconds is not None and now > seconds):
                break
            yield Frame(count, now, image[:, :, ::-1].copy())
            count += 1
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
        capture.release()
