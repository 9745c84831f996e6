"""An `ImageWorker` in a process of its own.

Threads of one process take turns at Python's lock, and what one of them has touched is in the
other core's caches: two of them do some 1.7 times the work of one, two processes 1.9 times. A
process takes as long to start as fifty images take, so only large jobs have them.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from luvli.errors import InputError
from luvli.image.detect import Detector
from luvli.memory import keep_freed_memory
from luvli.pipes import cause_of_death, end_child, parent_streams, receive, send, start_child
from luvli.prediction.image_worker import Done, ImageWorker
from luvli.prediction.input_files import Input
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.stopwatch import Stopwatch


@dataclass(frozen=True)
class WorkOrder:
    """What a process needs to do the work of this one."""

    model: Path
    detector: Detector | None
    small_faces: bool
    accept_from: float | None
    settings: JobSettings

    @classmethod
    def of(cls, predictor: Predictor, settings: JobSettings) -> WorkOrder | None:
        """None where the work cannot be given away: the model is no file of ONNX Runtime's that
        runs on the processor, the detector cannot be sent, or all pixels would have to be."""
        model: Path | None = getattr(predictor.backend, "processor_model", None)
        if model is None or settings.draw:
            return None
        order = cls(
            model, predictor.detector, predictor.small_faces, predictor.accept_threshold, settings
        )
        try:
            pickle.dumps(order)
        except (pickle.PicklingError, AttributeError, TypeError):
            return None
        return order

    def worker(self) -> ImageWorker:
        """One that computes in the thread that calls it."""
        predictor = load(self.model, threads=1, small_faces=self.small_faces)
        predictor = Predictor(predictor.backend, self.detector, self.small_faces, self.accept_from)
        return ImageWorker(predictor, self.settings, Stopwatch(), nullcontext())


class WorkerDied(Exception):
    """The process ended in the middle of its work; the message says how."""


class WorkerProcess:
    """The parent's side: looks like an `ImageWorker`, for one thread at a time.

    Where no process can begin (no memory, the model's file is gone), `own` does the work.
    """

    def __init__(self, order: WorkOrder, own: ImageWorker) -> None:
        self.order, self.own = order, own
        self._child: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._start()

    def __call__(self, items: Sequence[tuple[Input, Path]]) -> list[Done]:
        """Images with the stems of their outputs; in the same order. One that ends the process
        twice, among others and by itself, is given up."""
        try:
            return self._ask(items)
        except WorkerDied:
            self._start()
        images: list[Done] = []
        for input, stem in items:
            try:
                images += self._ask([(input, stem)])
            except WorkerDied as death:
                self._start()
                why = f"{input.path} ended the process that worked on it ({death})"
                images.append(Done(input, stem, b"-", error=f"{why}: look at it, or leave it out."))
        return images

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            end_child(self._child)

    def _start(self) -> None:
        self.close()
        self._child, self._ready = None, False
        with suppress(OSError):
            self._child = start_child("luvli.prediction.worker_process")

    def _ask(self, items: Sequence[tuple[Input, Path]]) -> list[Done]:
        if not self._ready:
            self._prepare()
        if self._child is None:
            return self.own(items)
        images, seconds = self._exchange(items)
        self.own.stopwatch.add(seconds)
        return list(images)

    def _prepare(self) -> None:
        try:
            if self._child is not None:
                self._exchange(self.order)
        except (WorkerDied, InputError):  # no fault of an image
            self.close()
            self._child = None
        self._ready = True

    def _exchange(self, message: object) -> Any:
        child = self._child
        assert child is not None
        try:
            send(child.stdin, message)
            answer = receive(child.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise WorkerDied(cause_of_death(child) or "nonsense") from error
        if isinstance(answer, Exception):
            raise answer
        return answer


def main() -> None:
    """The child's side: an order, then images, until nobody asks any more."""
    import cv2

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    cv2.setNumThreads(1)  # each core has a process
    keep_freed_memory()
    requests, answers = parent_streams()
    try:
        worker = _worker(receive(requests))
        send(answers, worker if isinstance(worker, Exception) else None)
        while not isinstance(worker, Exception):
            items = receive(requests)
            clock = Stopwatch()
            images = replace(worker, stopwatch=clock)(items)
            send(answers, (images, clock.seconds))
    except (BrokenPipeError, EOFError):
        pass
    os._exit(0)


def _worker(order: WorkOrder) -> ImageWorker | Exception:
    try:
        return order.worker()
    except InputError as error:
        return error


if __name__ == "__main__":
    main()
