"""Where the parts of a job are done: in this process, or in processes of this machine. The Ray
cluster is `luvli.scale.ray_predict`.

Where a process dies or hangs, its part is done again image by image; an image that ends its process
twice by itself is recorded as failed. A process also uses a core better than a thread: threads of
one process take turns at Python's lock.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from queue import SimpleQueue
from typing import Any, Protocol

from luvli.errors import InputError
from luvli.network.model_info import ModelInfo
from luvli.prediction.parts import Part, VideoPart
from luvli.prediction.predictor import Predictor
from luvli.prediction.rows import Row
from luvli.prediction.settings import JobSettings
from luvli.prediction.worker import PackedModel, do_part, part_rows, save_rows, worker_info

ATTEMPTS = 2
"""so often an image, alone, may end its process before it is given up: a process may be killed for
another reason, by the system that lacks memory for instance"""
PATIENCE = 300.0
"""seconds that one image may take"""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
"""for glibc: detection takes and frees tens of megabytes for every image. Without these settings
each of their pages goes back to the system and is cleared when it is asked for again."""


class Executor(Protocol):
    """Does parts and yields how many images each had."""

    def run(self, parts: Iterable[Part], settings: JobSettings) -> Iterator[int]: ...


@dataclass
class InProcess:
    """This process, part after part: for a predictor of one's own, which no other can load. A crash
    of a decoder ends it."""

    predictor: Predictor

    def run(self, parts: Iterable[Part], settings: JobSettings) -> Iterator[int]:
        for part in parts:
            do_part(self.predictor, settings, part)
            yield part.count


class Processes:
    """A process for each of `threads` cores; one that has them all where the model wants it so. The
    model is loaded there and not here."""

    def __init__(self, model: PackedModel, threads: int) -> None:
        self.model = model
        count, each = (threads, 1) if model.keeps_to_one_core else (1, threads)
        self.team = [IsolatedWorker(model, each) for _ in range(count)]

    def info(self) -> ModelInfo:
        """The model's, as the first process loads it."""
        try:
            info: ModelInfo = self.team[0].ask(worker_info)
        except WorkerDied as death:
            raise InputError(
                f"{self.model.file} ended the process that loaded it ({death}): fetch it again."
            ) from death
        return info

    def run(self, parts: Iterable[Part], settings: JobSettings) -> Iterator[int]:
        idle: SimpleQueue[IsolatedWorker] = SimpleQueue()
        for worker in self.team:
            idle.put(worker)

        def work(part: Part) -> int:
            worker = idle.get()
            try:
                worker.do(part, settings)
            finally:
                idle.put(worker)
            return part.count

        pool = ThreadPoolExecutor(len(self.team))
        try:
            yield from pool.map(work, parts)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self.close()

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for worker in self.team:
            worker.close()


class WorkerDied(Exception):
    """The process ended in the middle of its work; the message says how."""


class IsolatedWorker:
    """A process that has the model open, for one thread at a time. It is started when it is first
    needed, and again after its death."""

    def __init__(self, model: PackedModel, threads: int = 1, patience: float = PATIENCE) -> None:
        self._order = (model, threads)
        self._patience = patience
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    def do(self, part: Part, settings: JobSettings) -> None:
        """Do a part and write its file."""
        try:
            self.ask(do_part, settings, part, images=part.count)
        except WorkerDied:
            # of a video, whose frames depend on each other, all or none
            step = part.count if isinstance(part, VideoPart) else 1
            pieces = (self._attempt(settings, part, i, step) for i in range(0, part.count, step))
            save_rows(settings, part, list(chain.from_iterable(pieces)))

    def _attempt(self, settings: JobSettings, part: Part, start: int, count: int) -> list[Row]:
        how = ""
        for _ in range(ATTEMPTS):
            try:
                arguments = (settings, part, start, start + count)
                rows: list[Row] = self.ask(part_rows, *arguments, images=count)
                return rows
            except WorkerDied as death:
                how = str(death)
        name = part.name_of(start)
        why = f"{name} ended the process that worked on it ({how}): look at it, or leave it out."
        return [Row(name, error=why)] * count

    def ask(self, function: Callable[..., Any], *arguments: Any, images: int = 1) -> Any:
        """What the function gives in the process, with its predictor as the first argument. Errors
        of the function are raised here."""
        child = self.start()
        requests: Any = child.stdin
        answers: Any = child.stdout
        watchdog = threading.Timer(self._patience + images, child.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            pickle.dump((function, arguments), requests)
            requests.flush()
            answer = pickle.load(answers)
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

    def start(self) -> subprocess.Popen[bytes]:
        """Let the process begin to load the model."""
        if self._closed:
            raise RuntimeError("the worker is closed")
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "luvli.prediction.executors"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | MEMORY | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C is for the parent, which ends its children
            )
            with contextlib.suppress(OSError):  # it has died; whoever asks it will know
                pickle.dump(self._order, self._child.stdin)  # type: ignore[arg-type]
        return self._child

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
                with contextlib.suppress(OSError):  # what it was not given any more
                    stream.close()  # type: ignore[union-attr]


def _cause(child: subprocess.Popen[bytes]) -> str:
    """The signal that ended a child, or its exit code."""
    try:
        code = child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "nonsense"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def main() -> None:
    """The child's side: the model, then requests, until nobody asks any more."""
    import cv2

    cv2.setNumThreads(1)  # each core has a process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    predictor: Predictor | None = None
    try:
        model, threads = pickle.load(sys.stdin.buffer)
        while True:
            function, arguments = pickle.load(sys.stdin.buffer)
            try:
                predictor = predictor or model.open(threads)
                answer = function(predictor, *arguments)
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
