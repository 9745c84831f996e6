"""What a job is and which parts it has, kept in the target: the job can go on from anywhere.

TARGET/_luvli/job.json          what the results depend on, and how many parts and rows
TARGET/_luvli/plan-00000.jsonl  the first thousand parts, one on each line
TARGET/part-00000/0000017-NAME.parquet   the results of part 17
TARGET/_failed.txt              one sentence for each failure, when all is done
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from luvli.errors import InputError
from luvli.scale.parts import CHUNK, Part
from luvli.scale.places import exists, join, list_names, read_bytes, remove_folder, write_whole

FOLDER = "_luvli"
JOB = "job.json"


class Plan(NamedTuple):
    """The size of a job."""

    parts: int
    rows: int
    """images and frames"""
    cut_videos: bool = False
    """whether a video has several parts, whose tracks are to be joined"""
    resumed: bool = False
    """whether an earlier run made the plan"""

    @property
    def chunks(self) -> int:
        return -(-self.parts // CHUNK)


def open_plan(
    target: str, identity: Mapping[str, Any], parts: Iterable[Part], overwrite: bool = False
) -> Plan:
    """The plan of this job: that of an earlier run, or a new one, made of `parts`.

    `parts` is not touched where there is a plan. Another job's target is refused.
    """
    wanted = json.loads(json.dumps(identity))
    place = join(target, FOLDER, JOB)
    if exists(place):
        try:
            job = json.loads(read_bytes(place))
            before = job["identity"]
            plan = Plan(job["parts"], job["rows"], job["cut_videos"], True)
        except (ValueError, KeyError) as error:
            raise InputError(f"{place} is damaged: give --overwrite, or another --out.") from error
        if before == wanted:
            return plan
        if not overwrite:
            raise InputError(
                f"{target} holds another job ({_difference(before, wanted)}): choose another "
                "--out, or give --overwrite to replace it."
            )
        remove_results(target)
    elif not overwrite and any(name.endswith(".parquet") for name in list_names(target)):
        raise InputError(f"{target} holds Parquet files of somebody else: choose another --out.")
    return _write_plan(target, wanted, parts)


def remove_results(target: str) -> None:
    """Drop another job's plan and parts, the plan first: a half-removed job is no job."""
    remove_folder(join(target, FOLDER))
    number = 0
    while list_names(join(target, f"part-{number:05d}")):
        remove_folder(join(target, f"part-{number:05d}"))
        number += 1


def _write_plan(target: str, identity: Mapping[str, Any], parts: Iterable[Part]) -> Plan:
    count = rows = 0
    cut = False
    waiting = iter(parts)
    while some := list(islice(waiting, CHUNK)):
        text = "".join(part.to_json() + "\n" for part in some)
        write_whole(_chunk_place(target, some[0].chunk), text.encode("utf-8", "surrogateescape"))
        count, rows = count + len(some), rows + sum(part.count for part in some)
        cut = cut or any(part.about.get("segments", 1) > 1 for part in some)
    job = {"identity": identity, "parts": count, "rows": rows, "cut_videos": cut}
    write_whole(join(target, FOLDER, JOB), json.dumps(job, indent=1).encode())
    return Plan(count, rows, cut)


def read_chunk(target: str, chunk: int) -> list[Part]:
    """The parts of one plan file."""
    text = read_bytes(_chunk_place(target, chunk)).decode("utf-8", "surrogateescape")
    return [Part.from_json(line) for line in text.splitlines()]


def undone(target: str, chunk: int) -> Iterator[Part]:
    """The parts of one plan file that have no result yet."""
    done = list_names(join(target, f"part-{chunk:05d}"))
    for part in read_chunk(target, chunk):
        if part.output.rpartition("/")[2] not in done:
            yield part


def _chunk_place(target: str, chunk: int) -> str:
    return join(target, FOLDER, f"plan-{chunk:05d}.jsonl")


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = [key for key in dict.fromkeys([*before, *now]) if before.get(key) != now.get(key)]
    shown = (f"{name}: {_short(before.get(name))}, now {_short(now.get(name))}" for name in names)
    return "; ".join(islice(shown, 3))


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
