"""A whole run of `luvli predict`: many images and videos to one output folder."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from luvli.drawing.faces import draw_faces, readable_enlargement
from luvli.errors import InputError, OutputError
from luvli.faces import FaceLandmarks
from luvli.files import folder_lock, one_line, whole_file, write_text
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.prediction.input_files import Input, Inputs
from luvli.prediction.job_settings import JobSettings, JobSummary
from luvli.prediction.journal import Finished, Journal, file_stamp
from luvli.prediction.output_names import OutputNames
from luvli.prediction.predictor import BATCH, Predictor
from luvli.prediction.result import Result
from luvli.prediction.spool import Spool
from luvli.prediction.track import Follower, follow, smoothed
from luvli.prediction.turns import find_turned
from luvli.prediction.video import Frame, VideoReader, VideoWriter, output_suffix
from luvli.prediction.write import (
    SUFFIXES,
    pts_paths,
    write_json_lines,
    write_pts_files,
    write_results,
)
from luvli.prefetch import prefetch

MAX_IMAGES = 64
"""images that wait for the network together"""
MAX_PIXELS = 50_000_000
"""and the pixels of them that are held in memory for drawing"""
FAILED = "failed.txt"
"""one sentence for each file that could not be read"""
WRITABLE = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")

Watch = Callable[[Iterable[Any], str, int | None], Iterable[Any]]
"""shows progress while it hands the items through: items, description, total"""


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
        self.summary = JobSummary()
        self._began = time.time()
        identity = _identity(predictor, settings)
        self._finished = Finished(settings.out, identity)
        self._results_file = settings.out / f"faces{SUFFIXES.get(settings.format, '')}"
        if not settings.overwrite:
            self._finished.check(self._results_file if self._results_file.suffix else None)
        self.journal = Journal(settings.out, identity, fresh=settings.overwrite)
        self._names = OutputNames(settings.out)
        self._told: set[str] = set()
        for name in sorted(self.journal.left):
            self._tell_left(name)
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
                    stem = self._stem(item)  # also of finished ones: theirs are taken
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
                found = self._wanted([next(faces) for _ in ready.boxes])
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
            free = [self._may_write(path) for path in pts_paths(stem, len(result.faces))]
            if all(free):
                write_pts_files(stem, result)
        if ready.image is not None and result.faces:
            suffix = Path(ready.input.path).suffix.lower()
            suffix = suffix if suffix in WRITABLE else ".png"
            target = stem.with_name(f"{stem.name}-landmarks{suffix}")
            if self._may_write(target):
                write_image(target, self._drawn(ready.image, result.faces, enlarge=True))
                if len(summary.written) < 10:
                    summary.written.append(target)
        self.journal.add(result.to_line(), ready.stamp)
        summary.images += 1
        summary.faces += len(result.faces)
        summary.without_face += not result.faces
        self._count(result)
        if len(summary.examples) < 20:
            summary.examples.append(result)

    def _wanted(self, faces: Sequence[FaceLandmarks]) -> tuple[FaceLandmarks, ...]:
        kept = tuple(face for face in faces if self.settings.wants(face))
        self.summary.filtered += len(faces) - len(kept)
        return kept

    def _only_wanted(self, result: Result) -> Result:
        kept = self.settings.kept(result)
        self.summary.filtered += len(result.faces) - len(kept.faces)
        return kept

    def _may_write(self, target: Path) -> bool:
        """False, and named, where a file stands that is not of this command: what an earlier run
        of it wrote may be replaced, files of others never."""
        name = str(target.relative_to(self.settings.out))
        if self.journal.has_begun(name):
            return True
        if self._is_ours(name) or not target.exists():
            self.journal.begins(name)
            self._finished.left.discard(name)
            return True
        if name not in self._told:
            self.journal.leaves(name)
            self._tell_left(name)
        return False

    def _tell_left(self, name: str) -> None:
        self._told.add(name)
        self._finished.left.add(name)
        self.summary.failed.append(
            f"{self.settings.out / name} was there before and was left as it is: choose another "
            "--out, or give --overwrite."
        )

    def _is_ours(self, name: str) -> bool:
        """Whether a file of this name, if there is one, may be replaced."""
        same = self._finished.same and name not in self._finished.left
        return same or self.settings.overwrite or self.journal.has_begun(name)

    def _count(self, result: Result) -> None:
        """What the triage decided, where it was asked."""
        verdicts = [face.accepted for face in result.faces]
        self.summary.accepted += verdicts.count(True)
        self.summary.for_review += verdicts.count(False)

    def _stem(self, item: Input) -> Path:
        """Where outputs of one input go, without a suffix; no two inputs share it."""
        if self.settings.draw or self.settings.format == "pts" or item.is_video:
            return self._names.stem(item)
        return self.settings.out / Path(item.name).with_suffix("")

    def _drawn(
        self, image: ImageArray, faces: tuple[FaceLandmarks, ...], enlarge: bool = False
    ) -> ImageArray:
        return draw_faces(
            image,
            faces,
            coverage=self.settings.coverage,
            likelihood=self.predictor.info.config.likelihood,
            enlarge=readable_enlargement(image, faces) if enlarge else 1.0,
        )

    # -- videos ----------------------------------------------------------------------------

    def video(self, item: Input, watch: Watch = lambda items, _, __: items) -> None:
        """Do one video; its results get a file of their own. Failures are noted, not raised."""
        if self.journal.confirm(item.path):
            return
        stamp = file_stamp(item.path)
        try:
            reader = VideoReader(item.path)
            frames = watch(prefetch(reader), Path(item.path).name, reader.frames)
            again = self.settings.smooth and self.settings.draw
            self._stream(item, frames, reader.rate, item.path, online=not again, offline=True)
            if reader.ended_early:
                self.summary.failed.append(
                    f"{item.path} {reader.ended_early}: results are for what could be read."
                )
        except OutputError:
            raise  # the next one could not be written either
        except InputError as error:
            self.summary.failed.append(str(error))
            return
        self.journal.add(json.dumps({"image": item.path, "video": True}), stamp)
        self.summary.videos += 1

    def camera(self, frames: Iterable[Frame], name: str, rate: float) -> None:
        """Do a live stream until it ends or is interrupted, which is its usual end."""
        self._stream(Input(name, name), frames, rate, None, online=True, offline=False)
        self.summary.videos += 1

    def _stream(
        self,
        item: Input,
        frames: Iterable[Frame],
        rate: float,
        sound: str | None,
        online: bool,
        offline: bool,
    ) -> None:
        """Follow, smooth, draw and write. With `online`, frames are drawn as they pass;
        otherwise the video is decoded a second time, when the smoothed faces are known."""
        settings, stem = self.settings, self._stem(item)
        followed = follow(frames, item.path, Follower(self.predictor, settings.min_score))
        if offline:  # faces of the next frames are found while these are drawn and written
            followed = prefetch(followed, ahead=2)
        target = stem.with_name(f"{stem.name}-landmarks{output_suffix(item.path)}")
        draws = settings.draw and self._may_write(target)
        count = faces = 0
        with Spool(settings.out) as spool, ExitStack() as stack:
            writer = None
            if draws:
                temporary = stack.enter_context(whole_file(target))
                writer = stack.enter_context(VideoWriter(temporary, rate, sound))
            for whole in self._results(followed, writer if online else None, offline):
                result = self._only_wanted(whole)
                spool.add(result)
                count, faces = count + 1, faces + len(result.faces)
                self._count(result)
            if writer is not None and not online:
                again = zip(prefetch(VideoReader(item.path)), spool.results(), strict=False)
                drawn = ((self._drawn(f.image, result.faces), f.time) for f, result in again)
                for image, time in prefetch(drawn, ahead=2):  # encoded while others are drawn
                    writer.write(image, time)
            self._write_video_results(stem, spool)
        if writer is not None:
            self.summary.written.append(target)
            if writer.sound_lost:
                self.summary.failed.append(f"{item.path} {writer.sound_lost}.")
        self.summary.frames += count
        self.summary.faces += faces

    def _results(
        self,
        followed: Iterable[tuple[Result, ImageArray]],
        writer: VideoWriter | None,
        offline: bool,
    ) -> Iterator[Result]:
        """Results in order, smoothed if wanted; drawn on the way if there is a writer."""
        images: deque[ImageArray] = deque()  # at most one: with a writer nothing is held back

        def passed() -> Iterator[Result]:
            for result, image in followed:
                if writer is not None:
                    images.append(image)
                yield result

        results = smoothed(passed(), offline) if self.settings.smooth else passed()
        for result in results:
            if writer is not None:
                writer.write(self._drawn(images.popleft(), result.faces), result.time or 0.0)
            yield result

    def _write_video_results(self, stem: Path, spool: Spool) -> None:
        format = self.settings.format
        path = stem if format == "pts" else stem.with_name(f"{stem.name}{SUFFIXES[format]}")
        if not self._may_write(path):
            return
        if format == "pts":
            for result in spool.results():
                write_pts_files(stem / f"{result.frame:06d}", result)
        elif format == "json":
            write_json_lines(path, (line.encode() for line in spool.texts()))
        else:
            write_results(path, spool.results(), format)
        self.summary.written.append(path)

    # -- the end ---------------------------------------------------------------------------

    def finish(self) -> JobSummary:
        """Write the images' results from the journal, which then disappears."""
        settings = self.settings
        self.summary.resumed = self.journal.resumed
        self._finished.note()  # first, so that who is stopped here may write them again
        anything = any(not line.get("video") for line in self.journal.lines())
        if settings.format != "pts" and anything:
            path = self._results_file
            with self.stopwatch("write"):
                if settings.format == "json":
                    write_json_lines(path, self.journal.texts(), self.summary.failed)
                else:
                    lines = (line for line in self.journal.lines() if not line.get("video"))
                    results = (Result.from_fields(line) for line in lines)
                    write_results(path, results, settings.format, self.summary.failed_images)
            self.summary.written.insert(0, path)
        self._write_failed(settings.out / FAILED)
        self._finished.note()  # now with everything that was left as it is
        self.journal.remove()
        if self._finished.other:
            self.summary.left_over = _older_files(settings.out, self._began)
        return self.summary

    def _write_failed(self, path: Path) -> None:
        if self.summary.failed:
            if self._may_write(path):
                write_text(path, "\n".join(map(one_line, self.summary.failed)) + "\n")
        elif path.exists() and self._is_ours(path.name):
            path.unlink()  # of an earlier run


def _older_files(folder: Path, began: float) -> int:
    """How many files of a folder were there before, so that nobody takes them for new ones."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_mtime < began - 1 for path in files)  # some clocks count seconds


def _identity(predictor: Predictor, settings: JobSettings) -> dict[str, Any]:
    about = {"model": predictor.info.name, "version": predictor.info.version}
    return about | settings.identity()


def free_folder(predictor: Predictor, settings: JobSettings) -> JobSettings:
    """The same settings with `out` moved to NAME-2, NAME-3, ... where another run's results are."""
    identity, first = _identity(predictor, settings), settings.out
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
