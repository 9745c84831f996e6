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
from luvli.prediction.worker import PartWorker, WorkOrder

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
    """The parent's side: does parts like a `PartWorker`, for one thread at a time."""

    def __init__(self, order: WorkOrder, patience: float = PATIENCE) -> None:
        self.order, self.patience = order, patience
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    def __call__(self, part: Part) -> Any:
        """Do a part and write its file -> seconds by stage."""
        try:
            return self._ask("part", part)
        except WorkerDied as death:
            result = self._video_again(part, death) if part.kind == "video" else self._singly(part)
        return self._ask("save", part, result)

    def _singly(self, part: Part) -> PartResult:
        """A part whose process died, image by image."""
        whole = PartResult([])
        for index in range(part.count):
            why = "ended the process that worked on it"
            for _ in range(ATTEMPTS):
                try:
                    result: PartResult = self._ask("result", part, index, index + 1)
                    break
                except WorkerDied as death:
                    why = f"ended the process that worked on it ({death})"
            else:
                name = part.name_of(index)
                row = self._ask("failed", name, f"{name} {why}: look at it, or leave it out.")
                result = PartResult([row])
            whole.rows += result.rows
            whole.notes += result.notes
        return whole

    def _video_again(self, part: Part, death: WorkerDied) -> PartResult:
        """A segment whose process died: its frames depend on each other, so all or none."""
        try:
            again: PartResult = self._ask("result", part)
            return again
        except WorkerDied:
            why = f"{part.place} ended the process that worked on it ({death}): leave it out."
            return PartResult([self._ask("failed", part.place, why)] * part.count, [why])

    def start(self) -> None:
        """Let the process begin to load the model."""
        if self._child is None:
            child = subprocess.Popen(
                [sys.executable, "-m", "luvli.prediction.isolated"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | MEMORY | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C is for the parent, which ends its children
            )
            self._child = child
            with contextlib.suppress(OSError):
                pickle.dump(self.order, _pipe(child.stdin))

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

    def _ask(self, what: str, *arguments: Any) -> Any:
        """The child's answer; errors that it met are raised here."""
        if self._closed:
            raise RuntimeError("the worker is closed")
        self.start()
        child = self._child
        assert child is not None
        images = arguments[0].count if what == "part" else 1
        watchdog = threading.Timer(self.patience + images, child.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            pickle.dump((what, *arguments), _pipe(child.stdin))
            _pipe(child.stdin).flush()
            answer = pickle.load(_pipe(child.stdout))
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            hung = watchdog.finished.is_set()
            cause = f"no answer in {self.patience:.0f} seconds" if hung else _cause(child)
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
    """The child's side: an order, then requests, until nobody asks any more."""
    import cv2

    cv2.setNumThreads(1)  # each core has a process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    try:
        order: WorkOrder = pickle.load(sys.stdin.buffer)
        worker: PartWorker | None = None
        while True:
            what, *arguments = pickle.load(sys.stdin.buffer)
            try:
                worker = worker or order.worker()
                work = worker if what == "part" else getattr(worker, what)
                answer = work(*arguments)
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
