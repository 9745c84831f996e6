"""A whole run of `luvli predict`: many images and videos to one output folder."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue

from luvli.errors import InputError
from luvli.files import folder_lock, one_line, write_text
from luvli.image.write import write_image
from luvli.memory import keep_freed_memory
from luvli.prediction.image_worker import Done, ImageWorker
from luvli.prediction.input_files import Input, Inputs
from luvli.prediction.job_output import JobOutput, job_identity
from luvli.prediction.job_settings import JobSettings, JobSummary
from luvli.prediction.journal import FAILED, Finished
from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result
from luvli.prediction.video import Frame
from luvli.prediction.video_job import VideoJob
from luvli.prediction.worker_process import WorkerProcess, WorkOrder
from luvli.prediction.write import pts_paths, write_json_lines, write_pts_files, write_results
from luvli.progress import Watch

MAX_IMAGES = 16
"""images that one worker takes at a time. What it does to one it does to all, stage by stage, so
that code and weights are still in the processor's caches for the next"""
FEW = 400
"""images that are done before processes to help with them have been started"""
WRITABLE = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")

Group = list[tuple[Input, Path]]
"""images and the stems of their outputs"""
Worker = ImageWorker | WorkerProcess


class BatchJob:
    """One run; `images`, `videos` and `finish`, in this order, do the work.

    What is finished is noted in a journal; when the run is interrupted, the same run goes on
    from there.
    """

    def __init__(self, predictor: Predictor, settings: JobSettings) -> None:
        if settings.min_confidence is not None and predictor.info.trust is None:
            raise InputError(
                f"{predictor.info.name} tells no confidence: leave --min-confidence out, or "
                "calibrate the model with luvli calibrate."
            )
        self.predictor = predictor
        self.settings = settings
        self._began = time.time()
        self.output = JobOutput(predictor, settings)
        self.summary, self.journal = self.output.summary, self.output.journal
        self._videos = VideoJob(self.output)
        self.stopwatch = self.summary.stopwatch

    # -- images --------------------------------------------------------------------------

    def images(self, inputs: Iterable[Input]) -> Iterator[Input]:
        """Do all images; yields each input when it is done, one way or the other."""
        for image in self._done(inputs):
            if image.error:
                self.summary.failed.append(image.error)
                self.summary.failed_images.append((image.input.path, image.error))
            else:
                with self.stopwatch("write"):
                    self._keep(image)
            yield image.input

    def _done(self, inputs: Iterable[Input]) -> Iterator[Done]:
        """Images in order, done by as many workers as the model may use, each of which takes some
        at a time the whole way; some wait ahead for whoever is free."""
        threads = self.predictor.backend.threads
        groups = self._groups(inputs)
        first = list(islice(groups, FEW // MAX_IMAGES)) if threads > 1 else []
        team = self._team(threads, many=sum(map(len, first)) >= FEW)
        idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in team:
            idle.put(worker)

        def work(group: Group) -> list[Done]:
            worker = idle.get()
            try:
                return worker(group)
            finally:
                idle.put(worker)

        waiting: deque[Future[list[Done]]] = deque()
        with ExitStack() as stack:
            for worker in team:
                if isinstance(worker, WorkerProcess):
                    stack.callback(worker.close)
            pool = stack.enter_context(ThreadPoolExecutor(threads))
            try:
                for group in chain(first, groups):
                    waiting.append(pool.submit(work, group))
                    if len(waiting) > 2 * threads:
                        yield from waiting.popleft().result()
                while waiting:
                    yield from waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _team(self, threads: int, many: bool) -> list[Worker]:
        """A worker for each thread: this process's own, and, where many images wait and the work
        can be given away, processes for all threads but one."""
        alone = self.predictor.for_one_thread()
        # a network that cannot be told to keep to one thread is called by one at a time
        turn = nullcontext() if alone.backend.threads == 1 else threading.Lock()
        own = ImageWorker(alone, self.settings, self.stopwatch, turn)
        order = WorkOrder.of(self.predictor, self.settings) if many else None
        if order is None:
            return [own] * threads
        return [own, *(WorkerProcess(order, own) for _ in range(threads - 1))]

    def _groups(self, inputs: Iterable[Input]) -> Iterator[Group]:
        """What is not finished yet, with the stems of its outputs; images that are to be drawn
        one by one, because all their pixels are held in memory."""
        most = 1 if self.settings.draw else MAX_IMAGES
        group: Group = []
        for item in inputs:
            stem = self.output.stem(item)  # also of finished ones: theirs are taken
            if self.journal.confirm(item.path):
                continue
            group.append((item, stem))
            if len(group) >= most:
                yield group
                group = []
        if group:
            yield group

    def _keep(self, image: Done) -> None:
        summary, stem = self.summary, image.stem
        if image.result is not None:
            free = [self.output.may_write(path) for path in pts_paths(stem, image.faces)]
            if all(free):
                write_pts_files(stem, image.result)
        if image.drawn is not None:
            suffix = Path(image.input.path).suffix.lower()
            suffix = suffix if suffix in WRITABLE else ".png"
            target = stem.with_name(f"{stem.name}-landmarks{suffix}")
            if self.output.may_write(target):
                write_image(target, image.drawn)
                if len(summary.written) < 10:
                    summary.written.append(target)
        self.journal.add(image.line, image.stamp)
        summary.images += 1
        summary.faces += image.faces
        summary.filtered += image.filtered
        summary.without_face += not image.faces
        summary.accepted += image.accepted
        summary.for_review += image.for_review
        if len(summary.examples) < 20:
            summary.examples.append(Result.from_fields(json.loads(image.line)))

    # -- videos ----------------------------------------------------------------------------

    def video(self, item: Input, watch: Watch = lambda items, _, __: items) -> None:
        """Do one video; its results get a file of their own. Failures are noted, not raised."""
        self._videos.video(item, watch)

    def camera(self, frames: Iterable[Frame], name: str, rate: float) -> None:
        """Do a live stream until it ends or is interrupted, which is its usual end."""
        self._videos.camera(frames, name, rate)

    # -- the end ---------------------------------------------------------------------------

    def finish(self) -> JobSummary:
        """Write the images' results from the journal, which then disappears."""
        settings = self.settings
        self.summary.resumed = self.journal.resumed
        self.output.finished.note()  # first, so that who is stopped here may write them again
        anything = any(not line.get("video") for line in self.journal.lines())
        if settings.format != "pts" and anything:
            path = self.output.results_file
            with self.stopwatch("write"):
                if settings.format == "json":
                    write_json_lines(path, self.journal.texts(), self.summary.failed)
                else:
                    lines = (line for line in self.journal.lines() if not line.get("video"))
                    results = (Result.from_fields(line) for line in lines)
                    write_results(path, results, settings.format, self.summary.failed_images)
            self.summary.written.insert(0, path)
        self._write_failed(settings.out / FAILED)
        self.output.finished.note()  # now with everything that was left as it is
        self.journal.remove()
        if self.output.finished.other:
            self.summary.left_over = _older_files(settings.out, self._began)
        return self.summary

    def _write_failed(self, path: Path) -> None:
        if self.summary.failed:
            if self.output.may_write(path):
                write_text(path, "\n".join(map(one_line, self.summary.failed)) + "\n")
        elif path.exists() and self.output.is_ours(path.name):
            path.unlink()  # of an earlier run


def _older_files(folder: Path, began: float) -> int:
    """How many files of a folder were there before, so that nobody takes them for new ones."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_mtime < began - 1 for path in files)  # some clocks count seconds


def free_folder(predictor: Predictor, settings: JobSettings) -> JobSettings:
    """The same settings with `out` moved to NAME-2, NAME-3, ... where another run's results are."""
    identity, first = job_identity(predictor, settings), settings.out
    number = 1
    while Finished(settings.out, identity).other and not settings.overwrite:
        number += 1
        settings = replace(settings, out=first.with_name(f"{first.name}-{number}"))
    return settings


def predict_paths(
    predictor: Predictor, inputs: Inputs, settings: JobSettings, watch: Watch = lambda i, _, __: i
) -> JobSummary:
    """The whole of it: every image and video of `inputs`, results in `settings.out`.

    Bad files are listed in the summary and do not stop the rest. When it is interrupted, or
    the disk is full, the journal stays and the same call goes on from there.
    """
    import cv2

    cv2.setNumThreads(1)  # workers have a core each; OpenCV's own threads get in their way
    keep_freed_memory()
    with folder_lock(settings.out):
        return _locked(predictor, inputs, settings, watch)


def _locked(
    predictor: Predictor, inputs: Inputs, settings: JobSettings, watch: Watch
) -> JobSummary:
    run = BatchJob(predictor, settings)
    run.summary.failed += inputs.problems
    run.summary.skipped = inputs.skipped
    try:
        for _ in watch(run.images(inputs), "images", inputs.images):
            pass
        for video in inputs.videos:
            run.video(video, watch)
        return run.finish()
    except BaseException:
        run.journal.close()
        raise
