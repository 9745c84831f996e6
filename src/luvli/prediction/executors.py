"""Where the parts of a job are done: in this process, or in processes of this machine. The Ray
cluster is `luvli.scale.ray_predict`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from luvli.prediction.isolated import IsolatedWorker
from luvli.prediction.parts import Part
from luvli.prediction.predictor import Predictor
from luvli.prediction.worker import JobSettings, PackedModel, PartWorker

Done = tuple[int, dict[str, float]]
"""how many images a part had, and seconds by stage"""


class Executor(Protocol):
    """Does parts, in any order."""

    def run(self, parts: Iterator[Part], settings: JobSettings) -> Iterator[Done]: ...


@dataclass
class InProcess:
    """This process, part after part: for a predictor of one's own, which no other can load. A crash
    of a decoder ends it."""

    predictor: Predictor

    def run(self, parts: Iterator[Part], settings: JobSettings) -> Iterator[Done]:
        worker = PartWorker(self.predictor, settings)
        return ((part.count, worker(part)) for part in parts)


@dataclass
class Processes:
    """A process for each of `threads` cores; one that has them all where the model wants it so."""

    model: PackedModel
    threads: int

    def run(self, parts: Iterator[Part], settings: JobSettings) -> Iterator[Done]:
        alone = self.model.keeps_to_one_core
        count, threads = (self.threads, 1) if alone else (1, self.threads)
        idle: SimpleQueue[IsolatedWorker] = SimpleQueue()
        team = [IsolatedWorker(self.model, settings, threads) for _ in range(count)]
        for worker in team:
            idle.put(worker)

        def work(part: Part) -> Done:
            worker = idle.get()
            try:
                return part.count, worker(part)
            finally:
                idle.put(worker)

        waiting: deque[Future[Done]] = deque()
        pool = ThreadPoolExecutor(count)
        try:
            for part in parts:
                waiting.append(pool.submit(work, part))
                if len(waiting) > 2 * count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in team:
                worker.close()
