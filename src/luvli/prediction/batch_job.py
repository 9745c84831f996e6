"""A whole run of `luvli predict`: many images and videos to one output folder."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.files import folder_lock, one_line, write_text
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.prediction.input_files import Input, Inputs
from luvli.prediction.job_output import JobOutput, job_identity
from luvli.prediction.job_settings import JobSettings, JobSummary
from luvli.prediction.journal import Finished, file_stamp
from luvli.prediction.predictor import BATCH, Predictor
from luvli.prediction.result import Result
from luvli.prediction.turns import find_turned
from luvli.prediction.video import Frame
from luvli.prediction.video_job import VideoJob, Watch
from luvli.prediction.write import pts_paths, write_json_lines, write_pts_files, write_results

MAX_IMAGES = 64
"""images that wait for the network together"""
MAX_PIXELS = 50_000_000
"""and the pixels of them that are held in memory for drawing"""
FAILED = "failed.txt"
"""one sentence for each file that could not be read"""
WRITABLE = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")


@dataclass
class _Ready:
    """An image that was read and searched for faces, or the reason why not."""

    input: Input
    stem: Path
    image: ImageArray | None = None
    boxes: list[Box] = field(default_factory=list)
    crops: list[Crop] = field(default_factory=list)
    pixels: list[ImageArray] = field(default_factory=list)
    error: str = ""
    stamp: bytes = b"-"
    """of the file, before it was read"""


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
        batch: list[_Ready] = []
        faces = pixels = 0
        for ready in self._read(inputs):
            batch.append(ready)
            faces += len(ready.crops)
            pixels += ready.image.size // 3 if ready.image is not None else 0
            if faces >= BATCH or len(batch) >= MAX_IMAGES or pixels >= MAX_PIXELS:
                yield from self._flush(batch)
                batch, faces, pixels = [], 0, 0
        yield from self._flush(batch)

    def _read(self, inputs: Iterable[Input]) -> Iterator[_Ready]:
        """Images in order, read and searched ahead by other threads."""
        workers = self.predictor.backend.threads
        waiting: deque[Future[_Ready]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            try:
                for item in inputs:
                    stem = self.output.stem(item)  # also of finished ones: theirs are taken
                    if self.journal.confirm(item.path):
                        continue
                    waiting.append(pool.submit(self._prepare, item, stem))
                    if len(waiting) > 2 * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _prepare(self, item: Input, stem: Path) -> _Ready:
        stamp = file_stamp(item.path)
        return replace(self._seen(item, stem), stamp=stamp)

    def _seen(self, item: Input, stem: Path) -> _Ready:
        try:
            photograph = Photograph(item.path)
            with self.stopwatch("read"):
                self.predictor.look_at(photograph)
            if self.settings.try_rotations:
                return self._prepare_turned(item, stem, photograph)
            with self.stopwatch("detect"):
                boxes = self.predictor.find(photograph, item.path, self.settings.min_score)
            with self.stopwatch("crop"):
                found = self.predictor.prepare(photograph, boxes)
                image = photograph.whole() if self.settings.draw and boxes else None
        except InputError as error:
            return _Ready(item, stem, error=str(error))
        except Exception as error:  # one bad image among a million must not stop the rest
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            return _Ready(item, stem, error=f"{item.path} could not be processed ({why}).")
        return _Ready(item, stem, image, found.boxes, found.crops, found.pixels)

    def _prepare_turned(self, item: Input, stem: Path, photograph: Photograph) -> _Ready:
        image = photograph.whole()
        with self.stopwatch("detect"):
            boxes, crops = find_turned(self.predictor, image, item.path, self.settings.min_score)
        with self.stopwatch("crop"):
            pixels = [crop.warp(image) for crop in crops]
        kept = image if self.settings.draw and boxes else None
        return _Ready(item, stem, kept, boxes, crops, pixels)

    def _flush(self, batch: list[_Ready]) -> Iterator[Input]:
        good = [ready for ready in batch if not ready.error]
        with self.stopwatch("network"):
            try:
                faces = iter(self._run(good))
            except InputError:  # because of one of them: which?
                for ready in good:
                    try:
                        self._run([ready])
                    except InputError as error:
                        ready.error = f"{ready.input.path}: {error}"
                faces = iter(self._run([ready for ready in good if not ready.error]))
        for ready in batch:
            if ready.error:
                self.summary.failed.append(ready.error)
                self.summary.failed_images.append((ready.input.path, ready.error))
            else:
                found = self.output.wanted([next(faces) for _ in ready.boxes])
                with self.stopwatch("write"):
                    self._keep(ready, Result(ready.input.path, found))
            yield ready.input

    def _run(self, images: Sequence[_Ready]) -> list[FaceLandmarks]:
        return self.predictor.run(
            [pixels for ready in images for pixels in ready.pixels],
            [crop for ready in images for crop in ready.crops],
            [box for ready in images for box in ready.boxes],
        )

    def _keep(self, ready: _Ready, result: Result) -> None:
        summary = self.summary
        stem = ready.stem
        if self.settings.format == "pts":
            free = [self.output.may_write(path) for path in pts_paths(stem, len(result.faces))]
            if all(free):
                write_pts_files(stem, result)
        if ready.image is not None and result.faces:
            suffix = Path(ready.input.path).suffix.lower()
            suffix = suffix if suffix in WRITABLE else ".png"
            target = stem.with_name(f"{stem.name}-landmarks{suffix}")
            if self.output.may_write(target):
                write_image(target, self.output.drawn(ready.image, result.faces, enlarge=True))
                if len(summary.written) < 10:
                    summary.written.append(target)
        self.journal.add(result.to_line(), ready.stamp)
        summary.images += 1
        summary.faces += len(result.faces)
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
