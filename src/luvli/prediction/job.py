"""`PredictJob`: many images and videos to one output folder, on one machine or on many.

A job is a list of parts (`plan`), each of which is done by a worker (`worker`) and gives one file.
An executor decides where workers run: in this process, in one process for each core, or on a Ray
cluster (`luvli.scale.ray_predict`). When all parts are done, `finish` turns their files into what
was asked for. A run that is killed goes on with the parts that have no file.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, repeat
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from luvli.errors import InputError
from luvli.files import folder_lock, one_line, write_text
from luvli.prediction.inputs import Inputs
from luvli.prediction.isolated import IsolatedWorker
from luvli.prediction.parts import Counts, Part, PartResult, Row, rounded
from luvli.prediction.places import is_uri, join, open_input, read_bytes, write_whole
from luvli.prediction.plan import FAILED, Plan, open_plan, plan_parts, write_finished
from luvli.prediction.predictor import Predictor
from luvli.prediction.tracking import Tracker, smooth_tracks, track_frames
from luvli.prediction.video import Frame, VideoReader
from luvli.prediction.video_output import TrackJoiner, smooth_rows, write_video
from luvli.prediction.worker import (
    TOGETHER,
    JobSettings,
    PackedModel,
    PartWorker,
    WorkOrder,
    drawing_name,
    final_place,
    left_as_it_is,
    part_place,
)
from luvli.prediction.writers import (
    SUFFIXES,
    Writer,
    open_writer,
    parquet_bytes,
    pts_paths,
    read_counts,
    write_pts_files,
)
from luvli.progress import Watch

MANY = 300
"""images from which processes are worth their start, which takes as long as fifty images"""
EXAMPLES = 12
"""rows that a summary shows"""
READERS = 16
"""finished Parquet parts that are looked at together"""

Seconds = dict[str, float]
"""by stage"""


class Executor(Protocol):
    """Where parts are done."""

    def prepare(self) -> None:
        """Find out whether it can work, before anything is written."""

    def run(
        self, parts: Iterator[Part], rows: int, settings: JobSettings, untouched: frozenset[str]
    ) -> Iterator[tuple[int, Seconds]]:
        """Do the parts, in any order; yields how many images each had, and seconds by stage."""


class LocalExecutor:
    """This machine: threads of this process for few images, a process for each core for many."""

    def __init__(self, predictor: Predictor, packed: PackedModel | None = None) -> None:
        """Without `packed` there are threads only, for models that no other process can load."""
        self.predictor, self.packed = predictor, packed

    def prepare(self) -> None:
        pass

    def run(
        self, parts: Iterator[Part], rows: int, settings: JobSettings, untouched: frozenset[str]
    ) -> Iterator[tuple[int, Seconds]]:
        import cv2

        cv2.setNumThreads(1)  # workers have a core each; OpenCV's own threads get in their way
        threads = self.predictor.backend.threads
        with ExitStack() as stack:
            team: list[Callable[[Part], Seconds]] = []
            if rows >= MANY and self.packed is not None and self.packed.can_travel():
                order = WorkOrder(self.packed, settings, untouched)
                for _ in range(threads):
                    child = IsolatedWorker(order)
                    stack.callback(child.close)
                    child.start()
                    team.append(child)
            else:
                alone = self.predictor.for_one_thread()
                # a network that does not keep to one thread is called by one at a time
                threads = threads if alone.backend.threads == 1 else 1
                team = [PartWorker(alone, settings, untouched)] * threads
            yield from _spread(parts, team)


def _spread(
    parts: Iterator[Part], team: list[Callable[[Part], Seconds]]
) -> Iterator[tuple[int, Seconds]]:
    """Parts done by whichever worker is idle; a few wait ahead."""
    idle: SimpleQueue[Callable[[Part], Seconds]] = SimpleQueue()
    for worker in team:
        idle.put(worker)

    def work(part: Part) -> tuple[int, Seconds]:
        worker = idle.get()
        try:
            return part.count, worker(part)
        finally:
            idle.put(worker)

    if len(team) == 1:
        yield from map(work, parts)
        return
    waiting: deque[Future[tuple[int, Seconds]]] = deque()
    pool = ThreadPoolExecutor(len(team))
    try:
        for part in parts:
            waiting.append(pool.submit(work, part))
            if len(waiting) > 2 * len(team):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass
class Summary:
    """What came of a job, earlier runs of it included."""

    counts: Counts = field(default_factory=Counts)
    videos: int = 0
    parts: int = 0
    rows: int = 0
    """images and frames that the plan has"""
    resumed: int = 0
    """of these, done by an earlier run"""
    skipped: Counter[str] = field(default_factory=Counter)
    """files in the folders given that are no inputs, by their ending"""
    left_over: int = 0
    """files of another job that `overwrite` found in the folder and had no new ones for"""
    failed: dict[str, None] = field(default_factory=dict)
    """one sentence for each failure, in order"""
    written: list[Path] = field(default_factory=list)
    """files for the user to look at, without those made for each image"""
    examples: list[Row] = field(default_factory=list)
    """the first few rows, for a table"""
    seconds: Seconds = field(default_factory=dict)
    """of this run, by stage, summed over all workers"""


class PredictJob:
    """One job: `run` plans it, does what is left of it, and writes the results."""

    def __init__(self, inputs: Inputs, settings: JobSettings, overwrite: bool = False) -> None:
        self.inputs, self.settings, self.overwrite = inputs, settings, overwrite
        self.summary = Summary()
        self._files: set[str] = set()

    def run(self, executor: Executor, watch: Watch = lambda items, _, __: items) -> Summary:
        """Do the job. Bad files are listed in the summary and do not stop the rest. When it is
        interrupted, or the disk is full, the same call goes on later."""
        executor.prepare()
        if is_uri(self.settings.out):
            return self._run(executor, watch)
        out = Path(self.settings.out)
        existed = out.exists()
        try:
            with folder_lock(out):
                return self._run(executor, watch)
        finally:
            if not existed:
                with suppress(OSError):  # a mistake leaves nothing behind; results do
                    out.rmdir()

    def _run(self, executor: Executor, watch: Watch) -> Summary:
        plan = open_plan(self.inputs, self.settings, self.overwrite)
        self._run_parts(plan, executor, watch)
        return self._finish(plan)

    def _run_parts(self, plan: Plan, executor: Executor, watch: Watch) -> None:
        summary = self.summary
        summary.parts, summary.rows = plan.parts, plan.rows
        left = sum(part.count for part in plan.todo()) if plan.resumed else plan.rows
        summary.resumed = plan.rows - left

        def images() -> Iterator[None]:
            for count, seconds in executor.run(plan.todo(), left, self.settings, plan.untouched):
                for stage, spent in seconds.items():
                    summary.seconds[stage] = summary.seconds.get(stage, 0.0) + spent
                yield from repeat(None, count)

        if left:
            for _ in watch(images(), "frames" if plan.frames == plan.rows else "images", left):
                pass

    # -- the end ---------------------------------------------------------------------------

    def _finish(self, plan: Plan) -> Summary:
        """Write the results from the parts' files, which then disappear."""
        summary, settings = self.summary, self.settings
        summary.failed |= dict.fromkeys(self.inputs.problems)
        summary.skipped = self.inputs.skipped
        if settings.format == "parts":
            self._finish_parts(plan)
        else:
            groups = groupby(plan.read(), lambda part: part.about.get("stem"))
            for stem, parts in groups:
                if stem is None:
                    self._write_images(parts, plan.untouched)
                else:
                    self._write_video(stem, parts, plan.untouched)
        counts = summary.counts
        done = counts.images + counts.frames + counts.failed
        if done != plan.rows:
            raise InputError(
                f"{settings.out} holds {done:,} of {plan.rows:,} images: was something in it "
                "removed meanwhile? Give the same command again."
            )
        self._write_failed(plan.untouched)
        if settings.format == "parts":
            return summary
        out = Path(settings.out)
        write_finished(plan, self._files)
        plan.remove()
        summary.left_over = sum((out / name).exists() for name in plan.replaced - self._files)
        return summary

    def _load(self, part: Part) -> PartResult:
        place = part_place(self.settings, part)
        try:
            result = PartResult.from_bytes(read_bytes(place), place)
        except InputError as error:
            if "does not exist" not in str(error):
                raise
            raise InputError(
                f"{place} is gone: was {self.settings.out} emptied meanwhile? Give the same "
                "command again."
            ) from error
        self.summary.failed |= dict.fromkeys(result.notes)
        return result

    def _count(self, row: Row) -> Row:
        self.summary.counts.add(Counts.of([row]))
        if row.error:
            self.summary.failed[row.error] = None
        elif row.frame is None and len(self.summary.examples) < EXAMPLES:
            self.summary.examples.append(row)
        return row

    def _write_images(self, parts: Iterable[Part], untouched: frozenset[str]) -> None:
        """All images to one file, which is not made where none could be read."""
        settings = self.settings
        path = Path(settings.out) / f"faces{SUFFIXES.get(settings.format, '')}"
        writer: Writer | None = None
        waiting: deque[Row] = deque()  # failures before the first image that could be read
        with ExitStack() as stack:
            for part in parts:
                rows = map(self._count, self._load(part).rows)
                for row, item in zip(rows, part.items or repeat(None), strict=False):
                    if len(row.faces) and item is not None:
                        self._own_files(row, item, untouched)
                    if writer is None and not row.error and settings.format in SUFFIXES:
                        writer = stack.enter_context(open_writer(path, settings.format))
                    if settings.format in SUFFIXES:
                        waiting.append(row)
                    while writer is not None and waiting:
                        writer.add(waiting.popleft())
        if writer is not None:
            self.summary.written.insert(0, path)
            self._files.add(path.name)

    def _own_files(self, row: Row, item: list[str], untouched: frozenset[str]) -> None:
        """Write a .pts for each face, where asked, and note the files that an image has."""
        settings, out = self.settings, Path(self.settings.out)
        if settings.draw and (drawing := drawing_name(item)) not in untouched:
            self._files.add(drawing)
            if len(self.summary.written) < 10:
                self.summary.written.append(out / drawing)
        if settings.format == "pts":
            names = [str(path) for path in pts_paths(Path(item[1]), len(row.faces))]
            taken = [name for name in names if name in untouched]
            if taken:
                self.summary.failed |= {left_as_it_is(settings, name): None for name in taken}
                return
            write_pts_files(out / item[1], row.faces)
            self._files.update(names)

    def _write_video(self, stem: str, parts: Iterable[Part], untouched: frozenset[str]) -> None:
        """A video to files of its own, which are not made where no frame could be read."""
        segments = list(parts)
        rows = self._tracked(segments)
        first = next(rows)
        if first.error:
            deque(rows, maxlen=0)
            return
        place = segments[0].place
        reader = VideoReader(place) if self.settings.draw else None
        rate = 25.0 if reader is None else reader.rate
        done = write_video(
            self.settings, stem, chain([first], rows), reader, rate, place, untouched
        )
        self.summary.written += done.files
        self._files.update(str(path.relative_to(self.settings.out)) for path in done.files)
        self.summary.failed |= dict.fromkeys(done.notes)

    def _tracked(self, parts: Iterable[Part]) -> Iterator[Row]:
        segments = (self._load(part).rows for part in parts)
        first = True
        for row in video_rows(segments, self.settings):
            self.summary.videos += first and not row.error
            first = False
            yield self._count(row)

    def _finish_parts(self, plan: Plan) -> None:
        """Format "parts": images are written already; videos now, and all are counted."""
        settings, summary = self.settings, self.summary

        def look(part: Part) -> tuple[Counts, list[str]]:
            place = final_place(settings, part)
            with open_input(place) as stream:
                return read_counts(stream, place)

        images = (part for part in plan.read() if part.kind != "video")
        with ThreadPoolExecutor(READERS) as pool:
            while some := list(zip(range(8 * READERS), images, strict=False)):
                for counts, errors in pool.map(look, [part for _, part in some]):
                    summary.counts.add(counts)
                    summary.failed |= dict.fromkeys(errors)
        videos = (part for part in plan.read() if part.kind == "video")
        for _, group in groupby(videos, lambda part: part.about["stem"]):
            self._write_video_parts(list(group))

    def _write_video_parts(self, parts: list[Part]) -> None:
        def segment(row: Row) -> int:
            """Of failures, which come last, the last one."""
            begun = [i for i, part in enumerate(parts) if row.frame is not None
                     and part.about["segment"][4] <= row.frame]  # fmt: skip
            return begun[-1] if begun else len(parts) - 1

        for index, rows in groupby(self._tracked(parts), segment):
            content = parquet_bytes(parts[index], PartResult(list(rows)))
            write_whole(final_place(self.settings, parts[index]), content)

    def _write_failed(self, untouched: frozenset[str]) -> None:
        place = join(self.settings.out, FAILED)
        if FAILED in untouched:
            if self.summary.failed:
                self.summary.failed[left_as_it_is(self.settings, FAILED)] = None
        elif self.summary.failed:
            text = "\n".join(map(one_line, self.summary.failed)) + "\n"
            if is_uri(place):
                write_whole(place, text.encode("utf-8", "backslashreplace"))
            else:
                write_text(place, text)
            self._files.add(FAILED)
        elif not is_uri(place):
            Path(place).unlink(missing_ok=True)  # of an earlier run


def video_rows(segments: Iterable[list[Row]], settings: JobSettings) -> Iterator[Row]:
    """The frames of one video, tracks numbered through, smoothed if asked; failures come last."""
    join_tracks = TrackJoiner()
    failed: list[Row] = []

    def frames() -> Iterator[Row]:
        for rows in segments:
            failed.extend(row for row in rows if row.error)
            yield from join_tracks([row for row in rows if not row.error])

    yield from map(settings.select, smooth_rows(frames()) if settings.smooth else frames())
    yield from failed


def predict_rows(
    predictor: Predictor, inputs: Inputs, settings: JobSettings, content: bytes | None = None
) -> Iterator[Row]:
    """A job whose rows are handed out and not written; `settings.out` is not used. `content`: of
    an image without a file, which comes first and is called "-"."""
    worker = PartWorker(predictor, settings)
    if content is not None:
        yield worker.image("-", content)
    parts = plan_parts(inputs, replace(settings, part_size=settings.part_size or TOGETHER))
    for stem, group in groupby(parts, lambda part: part.about.get("stem")):
        results = (worker.result(part).rows for part in group)
        yield from chain.from_iterable(results) if stem is None else video_rows(results, settings)


def record_camera(
    predictor: Predictor, settings: JobSettings, frames: Iterable[Frame], name: str, rate: float
) -> Summary:
    """Track, smooth, draw and write a live stream until it ends or is interrupted, which is its
    usual end."""
    summary = Summary(videos=1)
    images: deque[Frame] = deque()

    def rows() -> Iterator[Row]:
        tracked = track_frames(frames, Tracker(predictor, settings.min_score))
        for frame, faces in smooth_tracks(tracked, offline=False) if settings.smooth else tracked:
            images.append(frame)
            height, width = frame.image.shape[:2]
            row = Row(name, rounded(faces), "", (width, height), frame.number, frame.time)
            row = settings.select(row)
            summary.counts.add(Counts.of([row]))
            yield row

    with folder_lock(settings.out):
        shown = iter(images.popleft, None) if settings.draw else None
        done = write_video(settings, name, rows(), shown, rate, None)
    summary.written, summary.failed = done.files, dict.fromkeys(done.notes)
    return summary
