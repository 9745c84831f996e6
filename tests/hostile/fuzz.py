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
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

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


def child(name: str, results: Path, first: int, last: int) -> None:
    """Attack one reader; a line for each input: that it begins, and what came of it."""

    def expired(*_: object) -> None:
        raise TooLong(f"more than {SECONDS} seconds")

    reader = all_readers()[name]
    signal.signal(signal.SIGPROF, expired)
    with tempfile.TemporaryDirectory() as place, results.open("a") as report:
        good = good_file(reader, Path(place))
        status = Path("/proc/self/statm")
        if status.exists():
            used = int(status.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for seed in range(first, last):
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


def attack_reader(name: str, first: int, count: int) -> dict[int, Outcome]:
    """Run the child, and another from the next input when it dies -> outcomes by seed."""
    outcomes: dict[int, Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        while len(outcomes) < count:
            place = [str(results), str(first + len(outcomes)), str(first + count)]
            done = subprocess.run(
                [sys.executable, __file__, "--child", name, *place], capture_output=True, text=True
            )
            before = len(outcomes)
            for line in results.read_text().splitlines() if results.exists() else ():
                seed, kind, about = line.split("\t", 2)
                outcomes[int(seed)] = Outcome(int(seed), kind, about)  # the later line counts
            if len(outcomes) == before:
                raise RuntimeError(f"{name} did not begin:\n{done.stderr[-2000:]}")
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a reader's name")
    parser.add_argument("--child", nargs=4, metavar=("NAME", "RESULTS", "FIRST", "LAST"))
    given = parser.parse_args()
    if given.child:
        name, results, first, last = given.child
        child(name, Path(results), int(first), int(last))
        return
    names = [name for name in all_readers() if given.only in name]
    each = -(-given.inputs // len(names))
    print(f"{'reader':22}{'read':>7}{'refused':>9}{'failed':>8}")
    failed = 0
    for name in names:
        outcomes = attack_reader(name, given.seed, each).values()
        kinds = [outcome.kind for outcome in outcomes]
        counts = {kind: kinds.count(kind) for kind in ("read", "refused", "failed")}
        failed += counts["failed"]
        print(
            f"{name:22}{counts['read']:7,}{counts['refused']:9,}{counts['failed']:8,}", flush=True
        )
        for outcome in [each for each in outcomes if each.kind == "failed"][:12]:
            print(f"    seed {outcome.seed}: {outcome.about}", flush=True)
    print(f"{each * len(names):,} inputs, {failed:,} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
