"""`PredictJob`: many images and videos to one output folder, on one machine or on many.

A job is a list of parts (`plan`), each of which is done by a worker (`worker`) and gives one file.
An executor decides where workers run (`executors`, `luvli.scale.ray_predict`). When all parts are
done, the job turns their files into what was asked for. A run that is killed goes on with the parts
that have no file (`job_folder`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain, groupby, islice, repeat
from pathlib import Path

from luvli.errors import InputError
from luvli.files import NOT_UTF8, folder_lock, one_line
from luvli.prediction.executors import Executor
from luvli.prediction.inputs import Inputs
from luvli.prediction.job_folder import begin, finish_job
from luvli.prediction.parts import ImagesPart, Part, VideoPart
from luvli.prediction.places import is_uri, join, open_input, read_bytes, remove, write_whole
from luvli.prediction.plan import plan_parts
from luvli.prediction.predictor import Predictor
from luvli.prediction.rows import Row, count_rows, unpack_rows
from luvli.prediction.settings import FAILED, SUFFIXES, JobSettings, drawing_name
from luvli.prediction.tracking import Tracker
from luvli.prediction.video import Frame, VideoReader
from luvli.prediction.video_output import smooth_rows, video_rows, write_video
from luvli.prediction.worker import tracked_rows
from luvli.prediction.writers import WRITERS, parquet_bytes, read_counts
from luvli.progress import Watch

EXAMPLES = 12
"""rows that a summary shows"""
SHOWN = 10
"""drawings that a summary names"""
READERS = 16
"""finished Parquet parts that are looked at together"""


@dataclass
class Summary:
    """What came of a job, earlier runs of it included."""

    counts: Counter[str] = field(default_factory=Counter)
    """as of `count_rows`"""
    videos: int = 0
    parts: int = 0
    rows: int = 0
    """images and frames that the plan has"""
    resumed: int = 0
    """of these, done by an earlier run"""
    skipped: Counter[str] = field(default_factory=Counter)
    """files in the folders given that are no inputs, by their ending"""
    failed: dict[str, None] = field(default_factory=dict)
    """one sentence for each failure, in order"""
    written: list[Path] = field(default_factory=list)
    """files for the user to look at; of those made for each image, the first few"""
    examples: list[Row] = field(default_factory=list)
    """the first few rows, for a table"""

    def add(self, row: Row) -> Row:
        self.counts.update(count_rows([row]))
        if row.error:
            self.failed[row.error] = None
        elif row.frame is None and len(self.examples) < EXAMPLES:
            self.examples.append(row)
        return row


def _unwatched(items: Iterable[None], _: str, __: int | None) -> Iterable[None]:
    return items


class PredictJob:
    """One job: `run` plans it, does what is left of it, and writes the results."""

    def __init__(self, inputs: Inputs, settings: JobSettings, overwrite: bool = False) -> None:
        self.inputs, self.settings, self.overwrite = inputs, settings, overwrite
        self.summary = Summary()

    def run(self, executor: Executor, watch: Watch = _unwatched) -> Summary:
        """Do the job. Bad files are listed in the summary and do not stop the rest. When it is
        interrupted, or the disk is full, the same call goes on later."""
        out = self.settings.out
        with nullcontext() if is_uri(out) else folder_lock(out):
            self._write_results(self._do_parts(executor, watch))
        return self.summary

    def rows(self, executor: Executor) -> Iterator[Row]:
        """Do the job and hand out its rows, which are not written: OUT is a temporary folder."""
        return self._rows(self._do_parts(executor, _unwatched))

    def _do_parts(self, executor: Executor, watch: Watch) -> list[Part]:
        """All parts, after those that had no result yet were done."""
        parts, summary = list(plan_parts(self.inputs, self.settings)), self.summary
        todo = begin(self.inputs, self.settings, parts, self.overwrite)
        summary.failed |= dict.fromkeys(self.inputs.problems)
        summary.skipped = self.inputs.skipped
        summary.parts, summary.rows = len(parts), sum(part.count for part in parts)
        left = sum(part.count for part in todo)
        summary.resumed = summary.rows - left
        if todo:
            counts = executor.run(todo, self.settings)
            images = chain.from_iterable(repeat(None, count) for count in counts)
            what = "frames" if all(isinstance(part, VideoPart) for part in parts) else "images"
            deque(watch(images, what, left), maxlen=0)
        return parts

    # -- the end ---------------------------------------------------------------------------

    def _write_results(self, parts: Sequence[Part]) -> None:
        """Write the results from the parts' files, which then disappear."""
        summary, settings = self.summary, self.settings
        images = [part for part in parts if not isinstance(part, VideoPart)]
        videos = [part for part in parts if isinstance(part, VideoPart)]
        if settings.format == "parts":
            self._count_parts(images)
        else:
            self._write_images(images)
        for stem, group in groupby(videos, lambda part: part.stem):
            self._write_video(stem, list(group))
        done = sum(summary.counts[what] for what in ("images", "frames", "failed"))
        if done != summary.rows:
            raise InputError(
                f"{settings.out} holds {done:,} of {summary.rows:,} images: was something in it "
                "removed meanwhile? Give the same command again."
            )
        self._write_failed()
        if settings.format != "parts":
            finish_job(settings, results=done > summary.counts["failed"])

    def _rows(self, parts: Iterable[Part]) -> Iterator[Row]:
        """All rows of some parts, counted."""
        for video, group in groupby(parts, lambda part: getattr(part, "stem", None)):
            results = map(self._load, group)
            images = chain.from_iterable(results)
            rows = images if video is None else video_rows(results, self.settings)
            yield from map(self.summary.add, rows)

    def _load(self, part: Part) -> list[Row]:
        """The rows of a part."""
        settings, written = self.settings, self.summary.written
        place = part.result_place(settings)
        try:
            content = read_bytes(place)
        except InputError as error:
            raise InputError(
                f"{place} cannot be read any more: was {settings.out} removed, or may it not be "
                "written to? Give the same command again."
            ) from error
        rows = unpack_rows(content, place)
        if settings.draw and isinstance(part, ImagesPart):
            named = zip(part.paths, part.stems, rows, strict=True)
            drawn = (drawing_name(path, stem) for path, stem, row in named if row.faces)
            written += [Path(settings.out) / name for name in islice(drawn, SHOWN - len(written))]
        return rows

    def _write_images(self, parts: Iterable[Part]) -> None:
        """All images to one file, which is not made where none could be read."""
        settings = self.settings
        rows = _unless_all_failed(self._rows(parts))
        if settings.format not in WRITERS:  # pts: written by the workers
            deque(rows, maxlen=0)
        elif rows:
            path = Path(settings.out) / f"faces{SUFFIXES[settings.format]}"
            WRITERS[settings.format](path, rows, settings.measures)
            self.summary.written.insert(0, path)

    def _write_video(self, stem: str, parts: list[VideoPart]) -> None:
        """A video to files of its own, which are not made where no frame could be read."""
        settings, summary = self.settings, self.summary
        rows: Iterable[Row] = self._rows(parts)
        if settings.format == "parts":
            rows = self._write_video_parts(parts, rows)
        rows = _unless_all_failed(rows)
        if not rows:
            return
        summary.videos += 1
        reader = VideoReader(parts[0].place) if settings.draw else None
        rate = reader.rate if reader else 0.0
        files, notes = write_video(settings, stem, rows, reader or (), rate, parts[0].place)
        summary.written += files
        summary.failed |= dict.fromkeys(notes)

    def _write_video_parts(self, parts: list[VideoPart], rows: Iterable[Row]) -> Iterator[Row]:
        """Format "parts": the rows of each segment in a file."""
        rows = iter(rows)
        for part in parts:
            some = list(islice(rows, part.count))
            content = parquet_bytes(part, some, self.settings.measures)
            write_whole(part.result_place(self.settings, joined=True), content)
            yield from some

    def _count_parts(self, parts: Iterable[Part]) -> None:
        """Format "parts": images are written already, and counted from the ends of their files."""

        def look(place: str) -> tuple[Counter[str], list[str]]:
            with open_input(place) as stream:
                return read_counts(stream, place)

        places = (part.result_place(self.settings) for part in parts)
        with ThreadPoolExecutor(READERS) as pool:
            for counts, errors in pool.map(look, places):
                self.summary.counts.update(counts)
                self.summary.failed |= dict.fromkeys(errors)

    def _write_failed(self) -> None:
        place = join(self.settings.out, FAILED)
        text = "".join(f"{one_line(sentence)}\n" for sentence in self.summary.failed)
        if text:
            write_whole(place, text.encode("utf-8", NOT_UTF8))
        else:
            remove(place)  # of an earlier run


def _unless_all_failed(rows: Iterable[Row]) -> Iterable[Row]:
    """The same rows; none where all of them are failures."""
    rows, early = iter(rows), []
    for row in rows:
        early.append(row)
        if not row.error:
            return chain(early, rows)
    return ()


def record_camera(
    predictor: Predictor, settings: JobSettings, frames: Iterable[Frame], name: str, rate: float
) -> Summary:
    """Track, smooth, draw and write a live stream until it ends or is interrupted, which is its
    usual end."""
    summary = Summary(videos=1)
    images: deque[Frame] = deque()

    def shown() -> Iterator[Frame]:
        for frame in frames:
            if settings.draw:
                images.append(frame)
            yield frame

    tracker = Tracker(predictor, settings.min_score)
    rows = tracked_rows(name, shown(), tracker, settings.measures)
    rows = smooth_rows(rows, settings, offline=False) if settings.smooth else rows
    rows = (summary.add(row.select(settings.min_confidence)) for row in rows)
    with folder_lock(settings.out):
        summary.written, notes = write_video(settings, name, rows, iter(images.popleft, None), rate)
    summary.failed |= dict.fromkeys(notes)
    return summary
