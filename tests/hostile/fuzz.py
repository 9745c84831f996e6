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
import json
import queue
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.mutate import mutated
from hostile.readers import Reader, all_readers

SECONDS = 20
"""of the processor, for one input"""
MEMORY = 2 << 30
"""bytes of address space above what a good file needs"""
MARK = "@"
"""begins the lines that a child writes for its parent"""
SILENCE = 300
"""seconds on the clock after which a process that says nothing has failed"""


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
        ours = [frame for frame in place if "/luvli/" in frame.filename] or place
        last = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
        return Outcome(seed, "failed", f"{type(error).__name__} at {last}: {str(error)[:150]!r}")
    return Outcome(seed, "read")


def good_file(reader: Reader, folder: Path) -> bytes:
    """The content of a good file, which must be read without complaint."""
    path = folder / f"good{reader.suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader.make(path)
        reader.read(path)
    return path.read_bytes()


# -- a process for each reader -----------------------------------------------------------------


def _expired(*_: object) -> None:
    raise TooLong(f"more than {SECONDS} seconds")


def child(name: str, first: int, count: int) -> None:
    """Attack one reader; a line of JSON for each input."""
    reader = all_readers()[name]
    signal.signal(signal.SIGPROF, _expired)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        good = good_file(reader, folder)
        status = Path("/proc/self/statm")
        if status.exists():
            used = int(status.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for seed in range(first, first + count):
            print(MARK + json.dumps({"begins": seed}), flush=True)
            began = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                outcome = attack(reader, good, folder, seed)
            except TooLong:
                outcome = Outcome(seed, "failed", f"TooLong: more than {SECONDS} seconds")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            taken = time.process_time() - began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            line = {**outcome._asdict(), "seconds": taken, "peak": peak}
            print(MARK + json.dumps(line), flush=True)
            if seed % 50 == 0:
                gc.collect()


class Tally:
    """What came of all inputs of one reader."""

    def __init__(self) -> None:
        self.counts = {"read": 0, "refused": 0, "failed": 0}
        self.failures: list[Outcome] = []
        self.slowest = self.peak = 0.0

    def add(self, line: dict[str, Any]) -> None:
        self.counts[line["kind"]] += 1
        self.slowest = max(self.slowest, line["seconds"])
        self.peak = max(self.peak, line["peak"])
        if line["kind"] == "failed":
            self.failures.append(Outcome(line["seed"], line["kind"], line["about"]))


def attack_reader(name: str, first: int, count: int) -> Tally:
    """Run the child, and another from the next input when it dies."""
    tally, end = Tally(), first + count
    while first < end:
        command = [sys.executable, __file__, "--child", name, str(first), str(end - first)]
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
            said: queue.Queue[bytes] = queue.Queue()
            stream = process.stdout
            assert stream is not None
            threading.Thread(target=_listen, args=(stream, said), daemon=True).start()
            current = None
            while True:
                try:
                    text = said.get(timeout=SILENCE)
                except queue.Empty:
                    process.kill()
                    break
                if not text:
                    break
                if not text.startswith(MARK.encode()):
                    continue  # something that the reader prints
                line = json.loads(text.removeprefix(MARK.encode()))
                if "begins" in line:
                    current = line["begins"]
                else:
                    tally.add(line)
                    first, current = line["seed"] + 1, None
            process.wait()
            if current is None:
                if first < end:
                    errors.seek(0)
                    why = errors.read().decode()[-2000:]
                    raise RuntimeError(f"{name} did not begin:\n{why}")
                continue
            about = f"the process ended with {process.returncode}"
            tally.add({"seed": current, "kind": "failed", "about": about, "seconds": 0, "peak": 0})
            first = current + 1
    return tally


def _listen(stream: Any, said: queue.Queue[bytes]) -> None:
    for line in stream:
        said.put(line)
    said.put(b"")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a reader's name")
    parser.add_argument("--child", nargs=3, metavar=("NAME", "FIRST", "COUNT"))
    given = parser.parse_args()
    if given.child:
        child(given.child[0], int(given.child[1]), int(given.child[2]))
        return
    names = [name for name in all_readers() if given.only in name]
    each = -(-given.inputs // len(names))
    print(
        f"{'reader':22}{'tries':>7}{'read':>7}{'refused':>9}{'failed':>8}{'slowest':>10}{'peak':>9}"
    )
    total, failed = 0, 0
    for name in names:
        try:
            tally = attack_reader(name, given.seed, each)
        except RuntimeError as error:
            print(error, flush=True)
            failed += 1
            continue
        tries = sum(tally.counts.values())
        total, failed = total + tries, failed + tally.counts["failed"]
        print(
            f"{name:22}{tries:7,}{tally.counts['read']:7,}{tally.counts['refused']:9,}"
            f"{tally.counts['failed']:8,}{tally.slowest:8.2f} s{tally.peak:6.0f} MB",
            flush=True,
        )
        for outcome in tally.failures[:12]:
            print(f"    seed {outcome.seed}: {outcome.about}", flush=True)
    print(f"{'all':22}{total:7,}{'':16}{failed:8,}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
