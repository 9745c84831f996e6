"""A worker in a process of its own: an image that crashes its decoder costs one row.

Where the process dies or hangs, the part is done again image by image; an image that ends its
process twice by itself is recorded as failed. A process also uses a core better than a thread:
threads of one process take turns at Python's lock.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from typing import Any

from luvli.errors import InputError
from luvli.prediction.parts import Part, PartResult
from luvli.prediction.worker import JobSettings, PackedModel, PartWorker

ATTEMPTS = 2
"""so often an image, alone, may end its process before it is given up: a process may be killed for
another reason, by the system that lacks memory for instance"""
PATIENCE = 300.0
"""seconds that one image may take"""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
"""for glibc: detection takes and frees tens of megabytes for every image. Without these settings
each of their pages goes back to the system and is cleared when it is asked for again."""


class WorkerDied(Exception):
    """The process ended in the middle of its work; the message says how."""


class IsolatedWorker:
    """The parent's side: does parts like a `PartWorker`, for one thread at a time. The process is
    started when it is first needed, and again after its death."""

    def __init__(
        self,
        model: PackedModel,
        settings: JobSettings,
        threads: int = 1,
        patience: float = PATIENCE,
    ) -> None:
        self._order = (model, settings, threads)
        self._patience = patience
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    def __call__(self, part: Part) -> Any:
        """Do a part and write its file -> seconds by stage."""
        try:
            return self._ask("__call__", part, images=part.count)
        except WorkerDied:
            return self._ask("save", part, self._again(part))

    def _again(self, part: Part) -> PartResult:
        """A part whose process died, image by image; of a video, whose frames depend on each
        other, all or none."""
        if part.kind == "video":
            return self._attempt(part, 0, part.count)
        singly = [self._attempt(part, index, index + 1) for index in range(part.count)]
        notes = [note for result in singly for note in result.notes]
        return PartResult([row for result in singly for row in result.rows], notes)

    def _attempt(self, part: Part, start: int, stop: int) -> PartResult:
        how = ""
        for _ in range(ATTEMPTS):
            try:
                result: PartResult = self._ask("result", part, start, stop, images=stop - start)
                return result
            except WorkerDied as death:
                how = str(death)
        name = part.name_of(start)
        why = f"{name} ended the process that worked on it ({how}): look at it, or leave it out."
        return PartResult([self._ask("failed", name, why)] * (stop - start))

    def close(self) -> None:
        """End the process, whatever it is doing; there will be no other."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                with contextlib.suppress(OSError):
                    _pipe(stream).close()

    def start(self) -> subprocess.Popen[bytes]:
        """Let the process begin to load the model."""
        if self._closed:
            raise RuntimeError("the worker is closed")
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "luvli.prediction.isolated"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | MEMORY | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C is for the parent, which ends its children
            )
            with contextlib.suppress(OSError):  # it has died; whoever asks it will know
                pickle.dump(self._order, _pipe(self._child.stdin))
        return self._child

    def _ask(self, method: str, *arguments: Any, images: int = 1) -> Any:
        """The answer of a method of the child's `PartWorker`; errors it met are raised here."""
        child = self.start()
        watchdog = threading.Timer(self._patience + images, child.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            pickle.dump((method, *arguments), _pipe(child.stdin))
            _pipe(child.stdin).flush()
            answer = pickle.load(_pipe(child.stdout))
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            hung = watchdog.finished.is_set()
            cause = f"no answer in {self._patience:.0f} seconds" if hung else _cause(child)
            self._end()
            raise WorkerDied(cause) from error
        except BaseException:  # Ctrl-C: what the child still answers belongs to nobody
            self._end()
            raise
        finally:
            watchdog.cancel()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _pipe(stream: Any) -> Any:
    assert stream is not None
    return stream


def _cause(child: subprocess.Popen[bytes]) -> str:
    """The signal that ended a child, or its exit code."""
    try:
        code = child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "nonsense"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def main() -> None:
    """The child's side: model and settings, then requests, until nobody asks any more."""
    import cv2

    cv2.setNumThreads(1)  # each core has a process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    worker: PartWorker | None = None
    try:
        model, settings, threads = pickle.load(sys.stdin.buffer)
        while True:
            method, *arguments = pickle.load(sys.stdin.buffer)
            try:
                worker = worker or PartWorker(model.open(threads), settings)
                answer = getattr(worker, method)(*arguments)
            except InputError as error:
                answer = type(error)(str(error))
            except Exception as error:
                answer = RuntimeError(f"{type(error).__name__}: {error}")
            pickle.dump(answer, answers)
            answers.flush()
    except (OSError, EOFError):
        os._exit(0)


if __name__ == "__main__":
    main()
