"""Jitter, lag and speed of tracking on clips with known motion.

    python benchmarks/video.py [--model luvli-68] [--frames 150]

Clips are made of the portrait in scikit-image: it stands still, or moves (pans, zooms, tilts, as a
person before a camera), with camera noise. Jitter is the root mean square change, from frame to
frame, of the difference between landmarks and their true motion, over sqrt(2), in percent of the
inter-ocular distance. Lag is the delay, in frames, at which landmarks fit their true motion best.
MediaPipe stands beside it where it is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from luvli.image.read import ImageArray
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.smooth import smooth_tracks
from luvli.prediction.tracking import Tracker, track_frames
from luvli.prediction.video import Frame

Floats = NDArray[np.float64]
RATE = 30.0
SIZE = (480, 360)


class Clip(NamedTuple):
    frames: list[Frame]
    affines: list[Floats]
    """(2, 3) photograph -> frame"""


def portrait() -> ImageArray:
    """NASA's portrait of Eileen Collins, in the public domain."""
    data: Any = import_module("skimage.data")
    return np.ascontiguousarray(data.astronaut(), dtype=np.uint8)


def make_clip(count: int, moving: bool) -> Clip:
    """A portrait before a noisy camera."""
    rng = np.random.default_rng(0)
    photograph = portrait()
    clip = Clip([], [])
    for i in range(count):
        t = i / RATE if moving else 0.0
        zoom, turn = 1.1 + 0.1 * np.sin(1.3 * t), np.radians(7 * np.sin(0.9 * t))
        middle = np.array([224 + 14 * np.sin(1.7 * t), 120 + 10 * np.sin(2.3 * t)])
        linear = zoom * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        affine = np.column_stack([linear, np.array(SIZE) / 2 - linear @ middle])
        image = cv2.warpAffine(photograph, affine, SIZE, borderMode=cv2.BORDER_REFLECT)
        noisy = image + rng.normal(0, 6, image.shape)
        clip.frames.append(Frame(i, i / RATE, np.clip(noisy, 0, 255).astype(np.uint8)))
        clip.affines.append(affine)
    return clip


def jitter(points: Floats, truth: Floats, interocular: float) -> float:
    change = np.diff(points - truth, axis=0)
    return float(100 * np.sqrt((change**2).sum(axis=-1).mean() / 2) / interocular)


def lag(points: Floats, truth: Floats) -> float:
    """Frames by which `points` (t, k, 2) trail `truth`, to a tenth of one."""
    times = np.arange(len(points), dtype=np.float64)
    inner = slice(10, -10)
    flat, target = points.reshape(len(points), -1), truth.reshape(len(truth), -1)
    offset = (flat - target)[inner].mean(axis=0)
    delays = np.arange(-2.0, 5.05, 0.1)
    errors = []
    for delay in delays:
        shown = np.stack([np.interp(times - delay, times, column) for column in target.T], axis=1)
        errors.append((((flat - shown - offset)[inner]) ** 2).mean())
    return float(delays[int(np.argmin(errors))])


def row(
    name: str, way: str, points: Floats, truth: Floats, interocular: float, seconds: float
) -> list[str]:
    delay = "" if name == "still" else f"{lag(points, truth):.1f}"
    return [name, way, f"{jitter(points, truth, interocular):.3f}", delay,
            f"{len(points) / seconds:.0f}"]  # fmt: skip


def rows(name: str, predictor: Predictor, clip: Clip, still: Floats) -> Iterator[list[str]]:
    truth = np.stack([still @ a[:, :2].T + a[:, 2] for a in clip.affines])
    interocular = float(np.linalg.norm(truth[0, 36] - truth[0, 45]))
    for way in ("plain", "live smoothing", "file smoothing"):
        start = time.process_time()
        items = track_frames(clip.frames, Tracker(predictor))
        if way != "plain":
            items = smooth_tracks(items, offline=way == "file smoothing")
        points = np.stack([item.faces.points[0] for item in items])
        seconds = time.process_time() - start
        yield row(name, way, points, truth, interocular, seconds)


def mediapipe_rows(name: str, clip: Clip) -> Iterator[list[str]]:
    mediapipe: Any = import_module("mediapipe")

    mesh = mediapipe.solutions.face_mesh.FaceMesh(static_image_mode=False)
    start = time.process_time()
    points = []
    for frame in clip.frames:
        marks = mesh.process(frame.image).multi_face_landmarks[0].landmark
        points.append([(mark.x * SIZE[0] - 0.5, mark.y * SIZE[1] - 0.5) for mark in marks[:468]])
    seconds = time.process_time() - start
    places = np.array(points)
    inverse = [np.linalg.inv(a[:, :2]) for a in clip.affines]
    still = np.mean([(p - a[:, 2]) @ inv.T for p, a, inv in
                     zip(places, clip.affines, inverse, strict=True)], axis=0)  # fmt: skip
    truth = np.stack([still @ a[:, :2].T + a[:, 2] for a in clip.affines])
    interocular = float(np.linalg.norm(truth[0, 33] - truth[0, 263]))
    yield row(name, "MediaPipe", places, truth, interocular, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="luvli-68")
    parser.add_argument("--frames", type=int, default=150)
    options = parser.parse_args()
    predictor = load(options.model, threads=1)
    photograph: ImageArray = portrait()
    still = predictor.predict(photograph)[0].points
    table = Table("clip", "way", "jitter, % of inter-ocular", "lag, frames", "frames/s",
                  title=f"{options.model}, one thread, {options.frames} frames")  # fmt: skip
    for name, moving in (("still", False), ("moving", True)):
        clip = make_clip(options.frames, moving)
        for cells in rows(name, predictor, clip, still):
            table.add_row(*cells)
        if find_spec("mediapipe") is not None:
            for cells in mediapipe_rows(name, clip):
                table.add_row(*cells)
    Console().print(table)


if __name__ == "__main__":
    main()
