"""A whole run of `luvli predict`: many images and videos to one output folder."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from luvli.errors import InputError
from luvli.files import folder_lock, one_line, write_text
from luvli.image.write import write_image
from luvli.prediction.image_worker import Done, ImageWorker
from luvli.prediction.input_files import Input, Inputs
from luvli.prediction.job_output import JobOutput, job_identity
from luvli.prediction.job_settings import JobSettings, JobSummary
from luvli.prediction.journal import FAILED, Finished
from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result
from luvli.prediction.video import Frame
from luvli.prediction.video_job import VideoJob, Watch
from luvli.prediction.write import pts_paths, write_json_lines, write_pts_files, write_results

MAX_IMAGES = 4
"""images that one thread takes at a time, whose faces go through the network together"""
WRITABLE = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")


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
        """Images in order, done by as many threads as the model may use, each of which takes some
        at a time the whole way; some wait ahead for whoever is free."""
        threads = self.predictor.backend.threads
        alone = self.predictor.for_one_thread()
        # a network that cannot be told to keep to one thread is called by one at a time
        turn = nullcontext() if alone.backend.threads == 1 else threading.Lock()
        work = ImageWorker(alone, self.settings, self.stopwatch, turn)
        waiting: deque[Future[list[Done]]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            try:
                for group in self._groups(inputs):
                    waiting.append(pool.submit(work, group))
                    if len(waiting) > 2 * threads:
                        yield from waiting.popleft().result()
                while waiting:
                    yield from waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _groups(self, inputs: Iterable[Input]) -> Iterator[list[tuple[Input, Path]]]:
        """What is not finished yet, with the stems of its outputs; images that are to be drawn
        one by one, because all their pixels are held in memory."""
        most = 1 if self.settings.draw else MAX_IMAGES
        group: list[tuple[Input, Path]] = []
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
        summary, stem, result = self.summary, image.stem, image.result
        if self.settings.format == "pts":
            free = [self.output.may_write(path) for path in pts_paths(stem, len(result.faces))]
            if all(free):
                write_pts_files(stem, result)
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
        summary.faces += len(result.faces)
        summary.filtered += image.filtered
        summary.without_face += not result.faces
        self.output.count(result)
        if len(summary.examples) < 20:
            summary.examples.append(result)

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
