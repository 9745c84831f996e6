"""The videos of a run of `luvli predict`: followed, smoothed, drawn, each to files of its own."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from luvli.errors import InputError, OutputError
from luvli.files import whole_file
from luvli.image.read import ImageArray
from luvli.prediction.input_files import Input
from luvli.prediction.job_output import JobOutput
from luvli.prediction.journal import file_stamp
from luvli.prediction.result import Result
from luvli.prediction.spool import Spool
from luvli.prediction.tracking import TrackedFrame, Tracker, smooth_tracks, track_frames
from luvli.prediction.video import Frame, VideoReader, VideoWriter, output_suffix
from luvli.prediction.write import SUFFIXES, write_json_lines, write_pts_files, write_results
from luvli.prefetch import prefetch
from luvli.progress import Watch

NO_IMAGE: ImageArray = np.empty((0, 0, 3), np.uint8)
"""stands for the image of a frame whose pixels are not needed any more"""


class VideoJob:
    """The videos of a run, whose output folder and summary it shares."""

    def __init__(self, output: JobOutput) -> None:
        self.output = output

    def video(self, item: Input, watch: Watch = lambda items, _, __: items) -> None:
        """Do one video; its results get a file of their own. Failures are noted, not raised."""
        if self.output.journal.confirm(item.path):
            return
        stamp = file_stamp(item.path)
        try:
            reader = VideoReader(item.path)
            frames = watch(prefetch(reader), Path(item.path).name, reader.frames)
            again = self.output.settings.smooth and self.output.settings.draw
            self._stream(item, frames, reader.rate, item.path, online=not again, offline=True)
            if reader.ended_early:
                self.output.summary.failed.append(
                    f"{item.path} {reader.ended_early}: results are for what could be read."
                )
        except OutputError:
            raise  # the next one could not be written either
        except InputError as error:
            sentence = str(error)  # that a package is missing does not name the file
            named = sentence if item.path in sentence else f"{item.path}: {sentence}"
            self.output.summary.failed.append(named)
            return
        self.output.journal.add(json.dumps({"image": item.path, "video": True}), stamp)
        self.output.summary.videos += 1

    def camera(self, frames: Iterable[Frame], name: str, rate: float) -> None:
        """Do a live stream until it ends or is interrupted, which is its usual end."""
        self._stream(Input(name, name), frames, rate, None, online=True, offline=False)
        self.output.summary.videos += 1

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
        settings, stem = self.output.settings, self.output.stem(item)
        followed = track_frames(frames, Tracker(self.output.predictor, settings.min_score))
        if offline:  # faces of the next frames are found while these are drawn and written
            followed = prefetch(followed, ahead=2)
        target = stem.with_name(f"{stem.name}-landmarks{output_suffix(item.path)}")
        draws = settings.draw and self.output.may_write(target)
        count = faces = 0
        with Spool(settings.out) as spool, ExitStack() as stack:
            writer = None
            if draws:
                temporary = stack.enter_context(whole_file(target))
                writer = stack.enter_context(VideoWriter(temporary, rate, sound))
            for whole in self._results(item.path, followed, writer if online else None, offline):
                result = self.output.only_wanted(whole)
                spool.add(result)
                count, faces = count + 1, faces + len(result.faces)
                self.output.count(result)
            if writer is not None and not online:
                again = zip(prefetch(VideoReader(item.path)), spool.results(), strict=False)
                drawn = ((self.output.drawn(f.image, result.faces), f.time) for f, result in again)
                for image, time in prefetch(drawn, ahead=2):  # encoded while others are drawn
                    writer.write(image, time)
            self._write_video_results(stem, spool)
        if writer is not None:
            self.output.summary.written.append(target)
            if writer.sound_lost:
                self.output.summary.failed.append(f"{item.path} {writer.sound_lost}.")
        self.output.summary.frames += count
        self.output.summary.faces += faces

    def _results(
        self,
        name: str,
        followed: Iterable[TrackedFrame],
        writer: VideoWriter | None,
        offline: bool,
    ) -> Iterator[Result]:
        """Results in order, smoothed if wanted; drawn on the way if there is a writer."""
        images: deque[ImageArray] = deque()  # at most one: with a writer nothing is held back

        def passed() -> Iterator[TrackedFrame]:
            for item in followed:
                if writer is not None:
                    images.append(item.frame.image)
                yield item._replace(frame=item.frame._replace(image=NO_IMAGE))

        items = smooth_tracks(passed(), offline) if self.output.settings.smooth else passed()
        for result in (Result.of_frame(name, item) for item in items):
            if writer is not None:
                writer.write(self.output.drawn(images.popleft(), result.faces), result.time or 0.0)
            yield result

    def _write_video_results(self, stem: Path, spool: Spool) -> None:
        format = self.output.settings.format
        path = stem if format == "pts" else stem.with_name(f"{stem.name}{SUFFIXES[format]}")
        if not self.output.may_write(path):
            return
        if format == "pts":
            for result in spool.results():
                write_pts_files(stem / f"{result.frame:06d}", result)
        elif format == "json":
            write_json_lines(path, (line.encode() for line in spool.texts()))
        else:
            write_results(path, spool.results(), format)
        self.output.summary.written.append(path)
