"""The long attack: thousands of damaged files, each with bounded time and memory.

    python tests/hostile/fuzz.py --inputs 10000 [--only "score npz"] [--seed 0]

Every reader runs in a process of its own. An input fails when something other than `InputError`
is raised, when it takes more than `SECONDS` of the processor, or more than `MEMORY` above what
the reader needs for a good file, or when the process dies. The table at the end counts them;
`--only NAME --seed N --inputs 1` runs one of them again.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.fork import fork
from hostile.mutate import mutated
from hostile.readers import Reader, all_readers

SECONDS = 20
"""of the processor, for one input"""
SILENCE = 300
"""seconds on the clock, for one input"""
MEMORY = 2 << 30
"""bytes of address space above what a good file needs"""


class TooLong(BaseException):
    """Raised where the time is up; no reader catches it."""


class Outcome(NamedTuple):
    """What came of one damaged file."""

    seed: int
    kind: str
    """read, refused or failed"""
    about: str = ""


def attack(reader: Reader, good: bytes, folder: Path, seed: int) -> Outcome:
    """Damage the good file and read it."""
    from luvli.errors import InputError

    path = folder / f"bad{reader.suffix}"
    path.write_bytes(mutated(good, reader.mutators, seed))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(path)
    except InputError as error:
        if "\n" in str(error) or len(str(error)) > 900:
            return Outcome(seed, "failed", f"not one sentence: {str(error)[:200]!r}")
        return Outcome(seed, "refused")
    except (Exception, TooLong) as error:
        place = traceback.extract_tb(error.__traceback__)
        last = ([frame for frame in place if "/luvli/" in frame.filename] or place)[-1]
        where = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
        return Outcome(seed, "failed", f"{where}: {str(error)[:150]!r}")
    return Outcome(seed, "read")


def good_file(reader: Reader, folder: Path) -> bytes:
    """The content of a good file, which must be read without complaint."""
    path = folder / f"good{reader.suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader.make(path)
        reader.read(path)
    return path.read_bytes()


def attack_all(reader: Reader, results: Path, seeds: range) -> None:
    """Attack one reader; two lines for each input: that it begins, and what came of it."""

    def expired(*_: object) -> None:
        raise TooLong(f"more than {SECONDS} seconds")

    logging.disable()  # what parses forms has much to say
    signal.signal(signal.SIGPROF, expired)
    with tempfile.TemporaryDirectory() as place, results.open("a") as report:
        good = good_file(reader, Path(place))
        status = Path("/proc/self/statm")
        if status.exists():
            used = int(status.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for seed in seeds:
            report.write(f"{seed}\tfailed\tthe process died\n")
            report.flush()
            signal.alarm(SILENCE)  # ends a process that waits
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                outcome = attack(reader, good, Path(place), seed)
            except TooLong as error:
                outcome = Outcome(seed, "failed", f"TooLong: {error}")
            signal.setitimer(signal.ITIMER_PROF, 0)
            report.write(f"{seed}\t{outcome.kind}\t{outcome.about!r}\n")
            report.flush()
            if seed % 50 == 0:
                gc.collect()


def attack_reader(reader: Reader, seeds: range) -> list[Outcome]:
    """Attack in a fork, and when that dies in another from the next input on."""
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        while len(outcomes) < len(seeds):
            before = len(outcomes)
            os.waitpid(fork(partial(attack_all, reader, results, seeds[before:])), 0)
            for line in results.read_text().splitlines():
                seed, kind, about = line.split("\t", 2)
                outcomes[seed] = Outcome(int(seed), kind, about)  # the later line counts
            if len(outcomes) == before:
                raise RuntimeError(f"{reader.name} did not begin")
    return list(outcomes.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a reader's name")
    given = parser.parse_args()
    readers = [reader for name, reader in all_readers().items() if given.only in name]
    each = -(-given.inputs // len(readers))
    print(f"{'reader':22}{'read':>7}{'refused':>9}{'failed':>8}", flush=True)
    failed = 0
    for reader in readers:
        outcomes = attack_reader(reader, range(given.seed, given.seed + each))
        counts = Counter(outcome.kind for outcome in outcomes)
        failed += counts["failed"]
        numbers = f"{counts['read']:7,}{counts['refused']:9,}{counts['failed']:8,}"
        print(f"{reader.name:22}{numbers}", flush=True)
        for outcome in [one for one in outcomes if one.kind == "failed"][:12]:
            print(f"    seed {outcome.seed}: {outcome.about}", flush=True)
    print(f"{each * len(readers):,} inputs, {failed:,} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
