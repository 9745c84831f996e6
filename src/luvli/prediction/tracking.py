"""Faces tracked through a video, a camera or any frames: what `model.track` does.

The landmarks of one frame say where the face is in the next, so that the detector need not run on
every frame. It runs when no face is tracked, when a face seems lost, and every `DETECT_EVERY`
frames for new ones. Most of its runs are on a small copy of the frame, which costs a tenth; small
faces are found by the full-size runs between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from luvli.errors import InputError
from luvli.faces import FaceLandmarks, Faces
from luvli.image.box import Box, best_match
from luvli.image.detect import MIN_SCORE
from luvli.image.read import ImageArray
from luvli.prediction.pipeline import Pipeline
from luvli.prediction.video import Frame

DETECT_EVERY = 15
"""frames between two runs of the detector while all goes well"""
FULL_SIZE_EVERY = 4
"""of so many runs one is on the whole frame; and every one when a face seems lost"""
SMALL_SIDE = 480
"""longest side, in pixels, of the copy that the other runs are on"""
LOST_AFTER = 2
"""runs of the detector in a row that a face must be missed by to be given up"""
MAX_SPREAD = 0.12
"""typical standard deviation of the landmarks / size of the face above which it may be lost"""
SUSPECT_SPREAD = 0.03
"""the same, above which a low confidence counts"""
MIN_CONFIDENCE = 0.05
"""confidence below which a face may be lost, after a cut for instance"""
MIN_VISIBLE = 10
"""visible landmarks that make a box; a turned face's hidden ones may lie anywhere"""
BOX_NOISE = 0.02
"""difference of the landmarks' box and the tracked one, as a share of the face's size, half of
which is followed"""
MAX_GROWTH = 1.4
"""change of size from frame to frame that no face makes"""


class TrackedFrame(NamedTuple):
    """One frame and its faces."""

    frame: Frame
    """number, time and image"""
    faces: Faces
    """with `track` and `time`"""


def track_frames(
    frames: Iterable[Frame], tracker: Callable[[ImageArray], Faces]
) -> Iterator[TrackedFrame]:
    """Each frame with its faces and their time."""
    for frame in frames:
        faces = tracker(frame.image)
        yield TrackedFrame(frame, replace(faces, time=np.full(len(faces), frame.time)))


@dataclass
class _Track:
    number: int
    box: Box
    missed: int = 0
    doubtful: bool = False


class Tracker:
    """Gives each frame's faces with numbers that stay with the faces."""

    def __init__(
        self,
        pipeline: Pipeline,
        min_score: float = MIN_SCORE,
        max_faces: int | None = None,
    ) -> None:
        """`max_faces`: track no more than so many, the best of those that are detected."""
        self.pipeline = pipeline
        self.min_score = min_score
        self.max_faces = max_faces
        self.detections = 0
        """how often the detector ran"""
        self._tracks: list[_Track] = []
        self._since_detection = 0
        self._next_number = 1

    def __call__(self, image: ImageArray) -> Faces:
        """The faces of the next frame."""
        doubt = any(track.doubtful for track in self._tracks)
        if not self._tracks or doubt or self._since_detection >= DETECT_EVERY:
            self._run_detector(image)
        self._since_detection += 1
        # as boxes that somebody gave: the landmarks of each frame refine that of the next
        boxes = [replace(track.box, detected=False) for track in self._tracks]
        (faces,) = self.pipeline.predict_cropped([self.pipeline.preprocess(image, boxes)])
        faces = replace(faces, track=np.array([track.number for track in self._tracks], np.int64))
        for track, face in zip(self._tracks, faces, strict=True):
            _move(track, face, image)
        self._drop_doubles()
        return faces

    def _run_detector(self, image: ImageArray) -> None:
        lost = any(track.doubtful for track in self._tracks)
        full_size = lost or self.detections % FULL_SIZE_EVERY == 0
        self.detections += 1
        self._since_detection = 0
        detected = self._detect(image, full_size)
        for track in self._tracks:
            best = best_match(track.box, detected)
            if best is None:
                track.missed += 1
                track.doubtful = True
                continue
            detected.remove(best)
            # the landmarks' own box is the better one, unless the alignment failed
            edges = track.box if track.box.iou(best) > 0.5 and not track.doubtful else best
            track.box = replace(edges, score=best.score)
            track.missed, track.doubtful = 0, False
        self._tracks = [track for track in self._tracks if track.missed < LOST_AFTER]
        for box in detected:
            if self.max_faces is not None and len(self._tracks) >= self.max_faces:
                break
            self._tracks.append(_Track(self._next_number, box))
            self._next_number += 1

    def _detect(self, image: ImageArray, full_size: bool) -> list[Box]:
        longest = max(image.shape[:2])
        if full_size or longest <= SMALL_SIDE:
            return self.pipeline.detect(image, min_score=self.min_score)
        import cv2

        scale = SMALL_SIDE / longest
        small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        boxes = self.pipeline.detect(np.asarray(small, np.uint8), min_score=self.min_score)
        return [box.scaled(1 / scale) for box in boxes]

    def _drop_doubles(self) -> None:
        """Two tracks on one face: the older stays."""
        tracks: list[_Track] = []
        for track in self._tracks:
            if all(track.box.iou(other.box) < 0.6 for other in tracks):
                tracks.append(track)
        self._tracks = tracks


def _move(track: _Track, face: FaceLandmarks, image: ImageArray) -> None:
    """The track's box for the next frame, from this frame's landmarks."""
    visible = face.visible()
    if visible.sum() < MIN_VISIBLE:
        visible[:] = True
    try:
        box = Box.around(face.points[visible], track.box.score)
    except InputError:  # all points on one spot: no face
        track.doubtful = True
        return
    height, width = image.shape[:2]
    x, y = box.centre
    spread = float(np.median(face.uncertainty[visible])) / box.size
    growth = box.size / track.box.size
    confidence = 1.0 if face.confidence is None else face.confidence
    track.doubtful = track.doubtful or bool(
        spread > MAX_SPREAD
        or not 1 / MAX_GROWTH < growth < MAX_GROWTH
        or not (0 <= x < width and 0 <= y < height)
        or (spread > SUSPECT_SPREAD and confidence < MIN_CONFIDENCE)
    )
    if not track.doubtful:
        track.box = _followed(track.box, box)


def _followed(box: Box, landmarks: Box) -> Box:
    """The box for the next crop: it follows the landmarks' own box, and ignores what is noise.

    A crop that copies every frame's landmarks makes them tremble: they depend a little on the
    crop, and the crop on them. The share of the way that it goes is d^2 / (d^2 + BOX_NOISE^2).
    """
    edges = np.array([box.array, landmarks.array])
    distance = float(np.abs(edges[1] - edges[0]).max()) / box.size
    share = distance**2 / (distance**2 + BOX_NOISE**2)
    x0, y0, x1, y1 = (edges[0] + share * (edges[1] - edges[0])).tolist()
    return Box(x0, y0, x1, y1, landmarks.score)
