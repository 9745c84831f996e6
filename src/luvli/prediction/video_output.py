"""The faces of a video on their way to files: tracks joined, smoothed, drawn, measured."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.tables import write_rows
from luvli.drawing.faces import COVERAGE, draw
from luvli.errors import require
from luvli.faces import Faces
from luvli.files import PathLike, whole_file
from luvli.image.box import Box
from luvli.measures.measure import Measure
from luvli.prediction.events import MIN_CONFIDENCE
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.rows import Row, rounded
from luvli.prediction.settings import SUFFIXES, JobSettings, video_outputs
from luvli.prediction.smooth import smooth_tracks
from luvli.prediction.video import Frame, VideoReader
from luvli.prediction.video_writer import VideoWriter
from luvli.prediction.writers import WRITERS, measure_cells, text_file, write_pts_files
from luvli.prefetch import prefetch

MIN_OVERLAP = 0.3
"""intersection over union of two boxes of one face in neighbouring frames, at least"""
INTERVAL = 0.95
"""share of the true values that the plotted bands of measures should hold"""


def join_tracks(segments: Iterable[Sequence[Row]]) -> Iterator[Row]:
    """The frames of a video's segments, which are each tracked from number 1 on, with tracks that
    are numbered through.

    A face of a segment's first frame that lies where a face of the last frame before lay gets its
    number; all others get new ones.
    """
    last: dict[int, Box] = {}
    highest = 0
    for rows in segments:
        numbers: dict[int, int] = {}  # in the segment -> in the video
        first = _boxes(rows[0].faces)
        pairs = ((old.iou(new), m, n) for m, old in last.items() for n, new in first.items())
        for overlap, before, now in sorted(pairs, reverse=True):
            if overlap >= MIN_OVERLAP and now not in numbers and before not in numbers.values():
                numbers[now] = before
        for row in rows:
            if not row.error:
                boxes = _boxes(row.faces)
                for track in sorted(boxes.keys() - numbers.keys()):
                    highest += 1
                    numbers[track] = highest
                tracks = np.array([numbers[track] for track in boxes], np.int64)
                last = {numbers[track]: box for track, box in boxes.items()}
                row = row._replace(faces=replace(row.faces, track=tracks))
            yield row


def _boxes(faces: Faces) -> dict[int, Box]:
    """The box of each face, by its track."""
    tracks = [] if faces.track is None else faces.track.tolist()
    return {track: Box(*edges) for track, edges in zip(tracks, faces.boxes.tolist(), strict=True)}


def video_rows(segments: Iterable[Sequence[Row]], settings: JobSettings) -> Iterator[Row]:
    """The frames of one video, tracks numbered through, smoothed if asked."""
    rows = join_tracks(segments)
    for row in smooth_rows(rows, settings) if settings.smooth else rows:
        yield row.select(settings.min_confidence)


def smooth_rows(rows: Iterable[Row], settings: JobSettings, offline: bool = True) -> Iterator[Row]:
    """The frames of a video with each tracked face smoothed in time."""
    for row in smooth_tracks(rows, offline):
        yield row._replace(faces=rounded(row.faces, settings.measures))


def write_video(
    settings: JobSettings,
    stem: str,
    rows: Iterable[Row],
    images: Iterable[Frame],
    rate: float,
    source: str = "",
) -> tuple[list[Path], list[str]]:
    """Write the rows of one video, draw them on its `images` and measure them, as asked -> the
    files, and notes about what was lost.

    Frames and rows come in the same order; a row without a frame is a failure. `source` has the
    sound.
    """
    files = {n: Path(settings.out) / f for n, f in video_outputs(settings, stem, source).items()}
    notes: list[str] = []
    with ExitStack() as stack:

        def through(stage: Generator[Row, None, None]) -> Generator[Row, None, None]:
            stack.callback(stage.close)  # an error ends it now, and its files disappear
            return stage

        if "drawing" in files:
            rows = through(_drawing(rows, files["drawing"], images, rate, source, notes.append))
        if "table" in files:
            rows = through(_measuring(rows, files["table"], files["plot"]))
        if settings.format in SUFFIXES:
            WRITERS[settings.format](files["faces"], rows, settings.measures)
        for row in rows:  # all of them, where no file has taken them
            if settings.format == "pts" and row.frame is not None:
                write_pts_files(files["faces"] / f"{row.frame:06d}", row.faces)
    return [path for path in files.values() if path.exists()], notes


def _drawing(
    rows: Iterable[Row],
    path: Path,
    images: Iterable[Frame],
    rate: float,
    source: str,
    note: Callable[[str], None],
) -> Generator[Row, None, None]:
    """The rows, while a video is written of the images with their faces on them."""
    frames = iter(images)
    with whole_file(path) as temporary, VideoWriter(temporary, rate, source or None) as video:
        for row in rows:
            if row.frame is not None:
                frame = next(frames)
                video.write(draw(frame.image, row.faces), frame.time)
            yield row
    if video.sound_lost:
        note(f"{source} {video.sound_lost}.")


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


# -- measures over time ----------------------------------------------------------------------


def _measuring(rows: Iterable[Row], table: Path, plot: Path) -> Generator[Row, None, None]:
    """The rows, while a table is written with one line for each face of each frame, and at the end
    a plot of the face that was tracked longest."""
    header: list[str] = []
    series: dict[int, dict[str, array[float]]] = {}
    kinds: dict[str, Measure] = {}
    with text_file(table) as stream:
        for row in rows:
            for face, measured in zip(row.faces, measure_cells(row.faces), strict=True):
                kinds.update(row.faces.measures)
                trust = {"confidence": face.confidence, "eyes_closed": face.eyes_closed}
                about = {"frame": row.frame, "time": row.time, "track": face.track, **trust}
                cells: dict[str, float | None] = about | measured
                if not header:
                    header = list(cells)
                    write_rows(stream, [header])
                write_rows(stream, [["" if cell is None else cell for cell in cells.values()]])
                one = series.setdefault(face.track or 0, {})
                for name, value in cells.items():
                    one.setdefault(name, array("d")).append(np.nan if value is None else value)
            yield row
    if series:
        longest = max(series.values(), key=lambda one: len(one["time"]))
        with whole_file(plot) as temporary:
            _plot({name: np.array(v) for name, v in longest.items()}, kinds, temporary)


def _plot(series: Mapping[str, Floats], kinds: Mapping[str, Measure], path: Path) -> None:
    """A panel for each measure: its value, and the interval that holds the true one with 95 %."""
    figures = require("matplotlib.figure", "evaluate")
    time = series["time"]
    figure = figures.Figure(figsize=(9, 1.5 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), sharex=True, squeeze=False)[:, 0]
    unsure = series["confidence"] < MIN_CONFIDENCE
    for axes, (name, kind) in zip(panels, kinds.items(), strict=True):
        value = np.where(unsure, np.nan, series[name])
        measure = Measure(value, series[f"{name}_std"], 1.0, kind.unit, kind.likelihood)
        low, high = measure.interval(INTERVAL)
        axes.fill_between(time, low, high, alpha=0.3, linewidth=0)
        axes.plot(time, value, linewidth=1)
        axes.set_ylabel(f"{name}\n{kind.unit}".replace("_", " ").strip(), fontsize=8)
    panels[0].set_title(f"with {INTERVAL:.0%} intervals", fontsize=9)
    panels[-1].set_xlabel("seconds")
    figure.savefig(path, dpi=100)
