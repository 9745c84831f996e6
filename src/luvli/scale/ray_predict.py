"""`luvli predict --engine ray`: the parts of a job on a Ray cluster.

A part is one row of a Ray Data pipeline; an actor for each core does parts with a child process
that cannot crash it (`luvli.prediction.executors`) and writes their files. Ray schedules, retries
and replaces actors; whatever is killed, parts that were written stay.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from luvli.errors import InputError
from luvli.prediction.executors import IsolatedWorker
from luvli.prediction.parts import Part
from luvli.prediction.settings import JobSettings
from luvli.prediction.worker import PackedModel
from luvli.scale.cluster import connected, cores, knock

ACTOR_CPUS = 0.4
"""share of a core that Ray sets aside for an actor: after the loss of half of the nodes all actors
still fit, and the operating system shares out the cores"""


class PartActor:
    """Does parts on the cluster, with a child process that does the work."""

    def __init__(self, order: Any) -> None:
        """`order`: reference to model and settings in the object store."""
        import ray

        model, self.settings = ray.get(order)
        self.worker = IsolatedWorker(model)
        self.worker.start()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """An `InputError`, which ends the job, is an answer: of an exception Ray keeps the text."""
        part: Part = pickle.loads(row["part"])
        answer: Any = part.count
        try:
            self.worker.do(part, self.settings)
        except InputError as error:
            answer = type(error)(str(error))
        return {"answer": pickle.dumps(answer)}


class RayExecutor:
    """Runs a job's parts on a cluster: the one at `address`, or one of this machine's cores."""

    def __init__(
        self, model: PackedModel, address: str | None = None, cpus: int | None = None
    ) -> None:
        """`cpus`: cores of a cluster that is started for the job; all by default. An address where
        nobody listens is refused now, before anything is written."""
        self.model, self.address, self.cpus = model, address, cpus
        if address is not None:
            knock(address)

    def run(self, parts: Iterable[Part], settings: JobSettings) -> Iterator[int]:
        """Do the parts; yields how many images each had."""
        items = [{"part": pickle.dumps(part)} for part in parts]
        with connected(self.address, self.cpus) as ray:
            order = ray.put((self.model, settings))
            for row in self._pipeline(ray, items, order).iter_rows():
                answer = pickle.loads(row["answer"])
                if isinstance(answer, InputError):
                    raise answer
                yield answer

    def _pipeline(self, ray: Any, items: list[dict[str, bytes]], order: Any) -> Any:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        # One part, one block, one task. Not by repartition(): that asks for a whole core, which a
        # node of one core, where an actor sits, never has free.
        context.target_max_block_size = 1
        pool = min(cores(ray), len(items))
        gpus = float(ray.cluster_resources().get("GPU", 0))
        share = min(1.0, gpus / pool) if self.model.provider == "cuda" else 0
        with warnings.catch_warnings():  # Ray's, that the last parts do not keep everybody busy
            warnings.filterwarnings("ignore", message="The maximum number of concurrent tasks")
            return ray.data.from_items(items, override_num_blocks=len(items)).map(
                PartActor,
                fn_constructor_args=(order,),
                num_cpus=ACTOR_CPUS,
                num_gpus=share,
                compute=ray.data.ActorPoolStrategy(size=pool),
            )
