"""`luvli predict --engine ray`: a job over a whole source, on a Ray cluster.

The way of a part, which is one row of a Ray Data pipeline with back-pressure:

    plan file -> undone parts -> Network (an actor for each core), which reads and writes, too
    plan file -> undone parts -> Read (CPU tasks) -> Network (an actor for each graphics card)

Whatever is killed, parts that were written stay, and the others are done again: by Ray, while
the driver lives, or by the same command later.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from luvli import __version__
from luvli.errors import InputError
from luvli.progress import Watch
from luvli.scale.cluster import connected, cores, own_error
from luvli.scale.join_tracks import join_tracks
from luvli.scale.output import PartCounts, read_counts
from luvli.scale.places import join, write_whole
from luvli.scale.plan import Plan, open_plan, read_chunk
from luvli.scale.settings import WorkerSettings
from luvli.scale.sources import SourceOptions, plan_parts
from luvli.scale.stages import Network, Read, find_undone, written

READ_CPUS, NETWORK_CPUS, FIND_CPUS = 0.45, 0.4, 0.05
"""shares of a core that Ray sets aside. They differ, or Ray would make one task of two steps. After
the loss of half of the nodes everything still fits, and their cores are shared out by the operating
system."""
FAILED = "_failed.txt"
SHOWN = 1000
"""sentences about failures that are kept in memory; the file has all"""


@dataclass(frozen=True)
class ScaleJob:
    """What `predict_on_ray` is asked for."""

    sources: Sequence[str]
    target: str
    worker: WorkerSettings
    identity: dict[str, Any]
    """everything that the results depend on"""
    options: SourceOptions = field(default_factory=SourceOptions)
    address: str | None = None
    cpus: int | None = None
    """cores of a cluster that is started for the job; all by default"""
    overwrite: bool = False


@dataclass
class ScaleSummary:
    """What came of a job, counted in what was written."""

    plan: Plan
    counts: PartCounts = field(default_factory=PartCounts)
    done_before: int = 0
    """parts that an earlier run had finished"""
    seconds: dict[str, float] = field(default_factory=dict)
    """of this run, by stage, summed over all workers"""
    failures: list[str] = field(default_factory=list)
    """the first sentences about failures"""


def predict_on_ray(job: ScaleJob, watch: Watch = lambda items, _, __: items) -> ScaleSummary:
    """Do a job, or what is left of it, and check that every row is accounted for."""
    with ExitStack() as stack:
        if job.address is None:  # starting a cluster takes seconds: mistakes are found before
            plan = _plan(job)
        ray = stack.enter_context(connected(job.address, job.cpus))
        if job.address is not None:  # where there is no cluster, nothing is left behind
            plan = _plan(job)
        summary = ScaleSummary(plan)
        try:
            written = 0
            for counts in watch(_stream(ray, job, plan), "parts", plan.parts):
                written += 1
                for stage, spent in counts.seconds.items():
                    summary.seconds[stage] = summary.seconds.get(stage, 0.0) + spent
            summary.done_before = plan.parts - written
            if plan.cut_videos:
                join_tracks(job.target, plan)
            _check(ray, job.target, summary)
        except Exception as error:
            known = own_error(error)
            if known is None:
                raise
            raise known from error
    return summary


def _plan(job: ScaleJob) -> Plan:
    identity = {"luvli": __version__, "sources": list(job.sources), **job.identity}
    parts = plan_parts(job.sources, job.options)
    return open_plan(job.target, identity, parts, overwrite=job.overwrite)


def _stream(ray: Any, job: ScaleJob, plan: Plan) -> Iterator[PartCounts]:
    """The counts of each part that is done now, as it is written."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    # One part, one block, one task. Not by repartition(): that asks for a whole core, which a node
    # of one core, where the network's actor sits, never has free.
    context.target_max_block_size = 1
    settings = ray.put(job.worker)
    gpus = 1 if job.worker.provider == "cuda" else 0
    pool = int(ray.cluster_resources().get("GPU", 1)) if gpus else cores(ray)
    rows = ray.data.from_items(list(range(plan.chunks)), override_num_blocks=plan.chunks)
    rows = rows.flat_map(
        partial(find_undone, target=job.target),
        num_cpus=FIND_CPUS,
        compute=ray.data.TaskPoolStrategy(size=1),
    )
    if gpus:
        # one more than cores: while Ray hands a reader its next part, another has work. No more
        # than that: each is a process that takes seconds to start.
        rows = rows.map(
            Read(ray.put(job.worker.read)),
            num_cpus=READ_CPUS,
            compute=ray.data.TaskPoolStrategy(size=min(cores(ray) + 1, plan.parts)),
        )
    rows = rows.map(
        Network,
        fn_constructor_args=(settings,),
        num_cpus=NETWORK_CPUS,
        num_gpus=gpus,
        compute=ray.data.ActorPoolStrategy(size=min(pool, plan.parts)),
    )
    with warnings.catch_warnings():  # Ray's, that the last parts do not keep everybody busy
        warnings.filterwarnings("ignore", message="The maximum number of concurrent tasks")
        for row in rows.iter_rows():
            yield written(row)


def _check(ray: Any, target: str, summary: ScaleSummary) -> None:
    """Count what was written, chunk by chunk on the cluster: rows in = rows out + failures."""

    @ray.remote(num_cpus=READ_CPUS, max_retries=5)  # type: ignore[untyped-decorator]
    def count(chunk: int) -> PartCounts:
        return count_chunk(target, chunk)

    text: list[str] = []
    waiting: list[Any] = []
    for chunk in range(summary.plan.chunks):
        waiting.append(count.remote(chunk))
        if len(waiting) >= 64 or chunk + 1 == summary.plan.chunks:
            for counts in ray.get(waiting):
                summary.counts.add(counts)
                text += counts.errors
            waiting = []
    summary.failures = text[:SHOWN]
    write_whole(join(target, FAILED), "".join(f"{line}\n" for line in text).encode())
    if summary.counts.images != summary.plan.rows:
        raise InputError(
            f"{target} holds {summary.counts.images:,} of {summary.plan.rows:,} rows: give the "
            "same command again."
        )


def count_chunk(target: str, chunk: int) -> PartCounts:
    """What the parts of one plan file hold; a part that lacks rows, or its file, is an error."""
    total = PartCounts()
    for part in read_chunk(target, chunk):
        counts = read_counts(target, part)
        if counts.images != part.count:
            raise InputError(
                f"{part.output} accounts for {counts.images:,} of {part.count:,} rows: delete it "
                "and give the same command."
            )
        total.add(counts)
        total.errors += counts.errors
    return total
