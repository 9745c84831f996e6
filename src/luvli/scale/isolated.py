"""Reading in a process of its own: an image that crashes its decoder costs one row.

The reader is a child that is asked for a part and answers image by image. Where it dies or
hangs, a new one goes on; only an image that does so every time is given up.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from luvli.memory import keep_freed_memory
from luvli.pipes import cause_of_death, end_child, parent_streams, receive, send, start_child
from luvli.prediction.video import Frame
from luvli.scale.landmarks import TOGETHER, PartWorker, Predicted
from luvli.scale.parts import Part
from luvli.scale.prepare import PictureReader, ReadSettings, Ready
from luvli.scale.settings import WorkerSettings
from luvli.scale.video_source import read_video_part

ATTEMPTS = 3
"""so often an image may end its reader before it is given up: a reader may be killed for
another reason, with a node for instance"""
PATIENCE = 300.0
"""seconds that one image may take"""


class ReaderDied(Exception):
    """The child ended, or was ended because it hung, in the middle of an answer."""


class IsolatedReader:
    """The parent's side: looks like a `PictureReader` that cannot crash, and, with the settings
    for it, like a `PartWorker`."""

    def __init__(self, settings: ReadSettings | WorkerSettings, patience: float = PATIENCE) -> None:
        self.settings, self.patience = settings, patience
        self._child: subprocess.Popen[bytes] | None = None

    def images(self, part: Part, start: int = 0) -> Iterator[Ready]:
        """The images of a part from the one numbered `start` on, all of them."""
        index, attempts = start, 0
        while index < part.count:
            try:
                for ready in self._ask("images", part, index, 1):
                    yield ready
                    index, attempts = index + 1, 0
                return
            except ReaderDied as death:
                attempts += 1
                if attempts == ATTEMPTS:
                    name = part.name_of(index)
                    yield Ready(name, f"{name} {death}: look at it, or leave it out.")
                    index, attempts = index + 1, 0

    def results(self, part: Part) -> Iterator[Predicted]:
        """What came of each image of a part, with the network in the child, too. Once it has died,
        the rest of the part is done one by one: then it is known which image does it."""
        index, attempts, together = 0, 0, TOGETHER
        while index < part.count:
            try:
                for some in self._ask("results", part, index, together):
                    yield from some or ()
                    if some:
                        index, attempts = index + len(some), 0
                return
            except ReaderDied as death:
                attempts += together == 1
                together = 1
                if attempts == ATTEMPTS:
                    name = part.name_of(index)
                    yield Predicted(name, f"{name} {death}: look at it, or leave it out.")
                    index, attempts = index + 1, 0

    def frames(self, part: Part) -> Iterator[Frame]:
        """The frames of a part of a video; `ReaderDied` where its decoder crashes."""
        yield from self._ask("frames", part, 0, 1)

    def start(self) -> None:
        """Let the child begin to load what it needs. Should it die meanwhile, the first who asks
        starts another."""
        with suppress(OSError):
            self._running()

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            end_child(child)

    def _ask(self, what: str, part: Part, start: int, together: int) -> Iterator[Any]:
        """Answers of the child; errors that it met are raised here."""
        finished = False
        try:
            child = self._running()
            send(child.stdin, (what, part, start, together))
            while True:
                kind, answer = self._receive(child)
                if kind == "end":
                    finished = True
                    return
                if kind == "error":
                    finished = True
                    raise answer
                yield answer
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise ReaderDied(self._cause()) from error
        finally:
            if not finished:  # what it would still write belongs to nobody
                self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._child = start_child("luvli.scale.isolated")
            send(self._child.stdin, self.settings)
        return self._child

    def _receive(self, child: subprocess.Popen[bytes]) -> Any:
        stream: Any = child.stdout
        if not select.select([stream], [], [], self.patience)[0]:
            child.kill()
            raise ReaderDied(f"took longer than {self.patience:.0f} seconds")
        return receive(stream)

    def _cause(self) -> str:
        """How the child ended, in words."""
        child = self._child
        if child is None:
            return "ended its reader"
        cause = cause_of_death(child)
        if not cause:
            return "made its reader answer nonsense"
        return (
            f"ended its reader with {cause}" if " " in cause else f"crashed its decoder ({cause})"
        )


def main() -> None:
    """The child's side: settings, then requests, until nobody asks any more."""
    import cv2

    cv2.setNumThreads(1)  # each core has its own reader or network
    keep_freed_memory()
    requests, answers = parent_streams()
    try:
        settings = receive(requests)
        whole = isinstance(settings, WorkerSettings)
        reader = PartWorker(settings) if whole else PictureReader(settings)
        while True:
            what, part, start, together = receive(requests)
            try:
                given: Iterator[Any]
                if what == "frames":
                    given = read_video_part(part)
                elif isinstance(reader, PartWorker):
                    given = reader.results(part, start, together)
                else:
                    given = reader.images(part, start)
                for item in given:
                    send(answers, ("item", item))
                send(answers, ("end", None))
            except (BrokenPipeError, EOFError):
                raise
            except Exception as error:
                send(answers, ("error", error))
    except (BrokenPipeError, EOFError, KeyboardInterrupt):
        os._exit(0)


if __name__ == "__main__":
    main()
