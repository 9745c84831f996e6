"""Following faces from frame to frame, so that they are looked for only now and then.

The landmarks of one frame say where the face is in the next. The detector looks at a frame
when no face is followed, when a face seems lost, and every `DETECT_EVERY` frames for new
ones. Most looks are at a small copy of the frame, which costs a tenth; small faces are found
by the thorough looks between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.image.box import Box
from luvli.image.detect import MIN_SCORE
from luvli.image.match import best_match
from luvli.image.read import ImageArray
from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result
from luvli.prediction.smooth import Smoother
from luvli.prediction.video import Frame

DETECT_EVERY = 15
"""frames between two looks of the detector while all goes well"""
THOROUGH_EVERY = 4
"""of so many looks one is at the whole frame; and every one when a face seems lost"""
GLANCE = 480
"""longest side, in pixels, of the copy that the other looks are at"""
LOST_AFTER = 2
"""looks of the detector in a row that a face must be missed by to be given up"""
DOUBTFUL = 0.12
"""typical standard deviation of the landmarks / size of the face above which it may be lost"""
SUSPECT = 0.03
"""the same, above which a model that tells its confidence is asked for it; it costs some percent
of the network, so not for every frame"""
HOPELESS = 0.05
"""confidence below which a face may be lost, after a cut for instance"""
LEAST_SEEN = 10
"""visible landmarks that make a box; a turned face's hidden ones may lie anywhere"""
JUMP = 1.4
"""change of size from frame to frame that no face makes"""


@dataclass
class _Track:
    number: int
    box: Box
    missed: int = 0
    doubtful: bool = False


class Follower:
    """Gives each frame's faces with a number that stays with the face."""

    def __init__(self, predictor: Predictor, min_score: float = MIN_SCORE) -> None:
        self.predictor = predictor
        self.min_score = min_score
        self.looks = 0
        """how often the detector was asked"""
        self._tracks: list[_Track] = []
        self._since_look = 0
        self._next = 1

    def __call__(self, image: ImageArray) -> list[tuple[int, FaceLandmarks]]:
        """Track number and face, for each face of the next frame."""
        doubt = any(track.doubtful for track in self._tracks)
        if not self._tracks or doubt or self._since_look >= DETECT_EVERY:
            self._look(image)
        self._since_look += 1
        if not self._tracks:
            return []
        crops = [self.predictor.crop(track.box) for track in self._tracks]
        boxes = [track.box for track in self._tracks]
        faces = self.predictor.run([crop.warp(image) for crop in crops], crops, boxes)
        found = [(t.number, face) for t, face in zip(self._tracks, faces, strict=True)]
        for track, face in zip(self._tracks, faces, strict=True):
            _move(track, face, image)
        self._drop_doubles()
        return found

    def _look(self, image: ImageArray) -> None:
        lost = any(track.doubtful for track in self._tracks)
        thorough = lost or self.looks % THOROUGH_EVERY == 0
        self.looks += 1
        self._since_look = 0
        detected = self._detect(image, thorough)
        for track in self._tracks:
            best = best_match(track.box, detected)
            if best is None:
                track.missed += 1
                track.doubtful = True
                continue
            detected.remove(best)
            # the landmarks' own box is the better one, unless they went astray
            edges = track.box if track.box.iou(best) > 0.5 and not track.doubtful else best
            track.box = replace(edges, score=best.score)
            track.missed, track.doubtful = 0, False
        self._tracks = [track for track in self._tracks if track.missed < LOST_AFTER]
        for box in detected:
            self._tracks.append(_Track(self._next, box))
            self._next += 1

    def _detect(self, image: ImageArray, thorough: bool) -> list[Box]:
        longest = max(image.shape[:2])
        if thorough or longest <= GLANCE:
            return self.predictor.detect(image, min_score=self.min_score)
        import cv2

        scale = GLANCE / longest
        small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        found = self.predictor.detect(np.asarray(small, np.uint8), min_score=self.min_score)
        return [box.scaled(1 / scale) for box in found]

    def _drop_doubles(self) -> None:
        """Two tracks on one face: the older stays."""
        kept: list[_Track] = []
        for track in self._tracks:
            if all(track.box.iou(other.box) < 0.6 for other in kept):
                kept.append(track)
        self._tracks = kept


def _move(track: _Track, face: FaceLandmarks, image: ImageArray) -> None:
    """The track's box for the next frame, from this frame's landmarks."""
    seen = face.visible()
    if seen.sum() < LEAST_SEEN:
        seen[:] = True
    try:
        box = Box.around(face.points[seen], track.box.score)
    except InputError:  # all points on one spot: no face
        track.doubtful = True
        return
    height, width = image.shape[:2]
    x, y = box.centre
    spread = float(np.median(face.uncertainty[seen])) / box.size
    change = box.size / track.box.size
    track.doubtful = track.doubtful or bool(
        spread > DOUBTFUL
        or not 1 / JUMP < change < JUMP
        or not (0 <= x < width and 0 <= y < height)
        or (spread > SUSPECT and face.confidence is not None and face.confidence < HOPELESS)
    )
    if not track.doubtful:
        track.box = box


@dataclass
class _Waiting:
    """A frame whose faces are still being smoothed."""

    frame: int
    time: float
    tracks: list[int]
    faces: dict[int, FaceLandmarks] = field(default_factory=dict)


def smoothed(results: Iterable[Result], offline: bool = True) -> Iterator[Result]:
    """The same results with each followed face smoothed in time.

    Offline, a result comes out at most `smooth.LAG + smooth.BLOCK` frames later.
    """
    waiting: deque[_Waiting] = deque()
    smoothers: dict[int, Smoother] = {}
    image = ""

    def deliver(track: int, faces: list[FaceLandmarks]) -> None:
        frames = (w for w in waiting if track in w.tracks and track not in w.faces)
        for face, slot in zip(faces, frames, strict=False):
            slot.faces[track] = face

    def ready() -> Iterator[Result]:
        while waiting and len(waiting[0].faces) == len(waiting[0].tracks):
            done = waiting.popleft()
            faces = tuple(done.faces[track] for track in done.tracks)
            yield Result(image, faces, done.frame, done.time, tuple(done.tracks))

    for number, result in enumerate(results):
        image = result.image
        time = number / 25 if result.time is None else result.time
        waiting.append(_Waiting(result.frame or 0, time, list(result.tracks)))
        for track, face in zip(result.tracks, result.faces, strict=True):
            deliver(track, smoothers.setdefault(track, Smoother(offline)).push(time, face))
        for track in [t for t in smoothers if t not in result.tracks]:
            deliver(track, smoothers.pop(track).finish())
        yield from ready()
    for track, smoother in smoothers.items():
        deliver(track, smoother.finish())
    yield from ready()


def follow(
    frames: Iterable[Frame], name: str, follower: Follower
) -> Iterator[tuple[Result, ImageArray]]:
    """Each frame's result together with the frame."""
    for frame in frames:
        found = follower(frame.image)
        numbers = tuple(number for number, _ in found)
        faces = tuple(face for _, face in found)
        yield Result(name, faces, frame.number, frame.time, numbers), frame.image
