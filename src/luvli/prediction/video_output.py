"""The faces of a video on their way to files: tracks joined, smoothed, drawn, written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from luvli.drawing.draw import draw
from luvli.drawing.faces import COVERAGE
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.files import PathLike, whole_file
from luvli.image.box import Box
from luvli.image.read import ImageArray
from luvli.prediction.inputs import DRAWN
from luvli.prediction.parts import Row, rounded
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.tracking import TrackedFrame, smooth_tracks
from luvli.prediction.video import Frame, VideoReader, VideoWriter, output_suffix
from luvli.prediction.worker import JobSettings, draw_result, left_as_it_is
from luvli.prediction.writers import SUFFIXES, open_writer, write_pts_files
from luvli.prefetch import prefetch

MIN_OVERLAP = 0.3
"""intersection over union of two boxes of one face in neighbouring frames, at least"""
NO_IMAGE: ImageArray = np.empty((0, 0, 3), np.uint8)


class TrackJoiner:
    """Numbers the tracks of a video's segments through, which are each tracked from number 1 on.

    A face of a segment's first frame that lies where a face of the last frame before lay gets its
    number; all others get new ones.
    """

    def __init__(self) -> None:
        self._last: list[tuple[int, Box]] = []
        self._highest = 0

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """The frames of the next segment with the numbers of the video."""
        if not rows:
            return []
        tracks = sorted({track for row in rows for track in _tracks(row.faces)})
        numbers = self._match(_boxes(rows[0].faces))
        for track in tracks:
            if track not in numbers:
                self._highest += 1
                numbers[track] = self._highest
        joined = [
            row._replace(
                faces=replace(
                    row.faces, track=np.array([numbers[t] for t in _tracks(row.faces)], np.int64)
                )
            )
            for row in rows
        ]
        self._last = _boxes(joined[-1].faces)
        return joined

    def _match(self, first: list[tuple[int, Box]]) -> dict[int, int]:
        """Number in the segment -> number in the video, of faces that go on."""
        pairs = sorted(
            ((old.iou(new), before, now) for before, old in self._last for now, new in first),
            reverse=True,
        )
        numbers: dict[int, int] = {}
        for overlap, before, now in pairs:
            if overlap >= MIN_OVERLAP and now not in numbers and before not in numbers.values():
                numbers[now] = before
        return numbers


def _tracks(faces: Faces) -> list[int]:
    return [] if faces.track is None else faces.track.tolist()


def _boxes(faces: Faces) -> list[tuple[int, Box]]:
    """Track and tight box of each face."""
    boxes = []
    for track, points in zip(_tracks(faces), faces.points, strict=True):
        try:
            boxes.append((track, Box.around(points)))
        except InputError:  # all points on one spot: no face
            continue
    return boxes


def smooth_rows(rows: Iterable[Row], offline: bool = True) -> Iterator[Row]:
    """The frames of a video with each tracked face smoothed in time."""
    waiting: dict[int, Row] = {}

    def frames() -> Iterator[TrackedFrame]:
        for row in rows:
            number, time = row.frame or 0, row.time or 0.0
            waiting[number] = row
            yield TrackedFrame(Frame(number, time, NO_IMAGE), row.faces)

    for frame, faces in smooth_tracks(frames(), offline):
        yield waiting.pop(frame.number)._replace(faces=rounded(faces))


@dataclass
class WrittenVideo:
    """What was written of a video."""

    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def write_video(
    settings: JobSettings,
    stem: str,
    rows: Iterable[Row],
    images: Iterable[Frame] | None,
    rate: float,
    sound: str | None,
    untouched: frozenset[str] = frozenset(),
) -> WrittenVideo:
    """Write the rows of one video, and draw them on its `images` if there are any.

    Frames and rows come in the same order; a row without a frame is a failure.
    """
    done = WrittenVideo()
    out, format = Path(settings.out), settings.format

    def may_write(name: str) -> bool:
        if name in untouched:
            done.notes.append(left_as_it_is(settings, name))
        return name not in untouched

    results = f"{stem}{SUFFIXES.get(format, '')}"
    drawing = f"{stem}{DRAWN}{output_suffix(sound or stem + '.mp4')}"
    with ExitStack() as stack:
        writer = video = None
        if format in SUFFIXES and may_write(results):
            writer = stack.enter_context(open_writer(out / results, format))
        if images is not None and may_write(drawing):
            temporary = stack.enter_context(whole_file(out / drawing))
            video = stack.enter_context(VideoWriter(temporary, rate, sound))
            done.files.append(out / drawing)
        frames = iter(images if images is not None else ())
        for row in rows:
            if writer is not None:
                writer.add(row)
            elif format == "pts" and row.frame is not None:
                write_pts_files(out / stem / f"{row.frame:06d}", row.faces)
            if video is not None and row.frame is not None:
                frame = next(frames)
                video.write(draw_result(frame.image, row.faces), frame.time)
    if video is not None and video.sound_lost:
        done.notes.append(f"{sound} {video.sound_lost}.")
    if writer is not None or format == "pts":
        done.files.append(out / (results if writer is not None else stem))
    return done


def draw_video(
    source: PathLike,
    out: PathLike,
    model: Predictor | str = "luvli-68",
    smooth: bool = False,
    coverage: float = COVERAGE,
) -> None:
    """Write a copy of a video with the faces drawn on it; the sound is kept.

    Args:
        source: the video file.
        out: the file to write; .mp4, or .mkv, which holds any sound.
        model: a loaded model, or the name of one.
        smooth: filter each landmark over time.
        coverage: share that the ellipses hold.
    """
    predictor = load(model) if isinstance(model, str) else model
    rate = VideoReader(source).rate
    with whole_file(out) as temporary, VideoWriter(temporary, rate, source) as video:
        drawn = (
            (draw(frame.image, faces, coverage=coverage), frame.time)
            for frame, faces in predictor.track(source, smooth=smooth)
        )
        for image, time in prefetch(drawn, ahead=2):  # encoded while the next ones are drawn
            video.write(image, time)
