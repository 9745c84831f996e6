"""The long attack's other half: runs that are killed and resumed, and what they leave.

    python tests/hostile/kills.py --kills 200 [--seed 0] [--only train]

`luvli predict`, `train`, `data synthesize` and `export` are killed at random moments (SIGKILL),
again and again until they end by themselves. What they leave must be what a run leaves that
nobody touched, bit for bit, and nothing else.

The commands run in forks of this process, which has loaded what they need: the start of Python is
no interesting moment, and takes ten times as long as the rest.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.fork import fork
from hostile.killed_commands import Command, all_commands, load_everything, prepare

AT_ONCE = 6
"""kills of one run at most, before it may end"""


class Ended(NamedTuple):
    """How a run came to its end: its exit code, or minus the signal, and processor seconds."""

    code: int
    errors: str
    seconds: float


def run(arguments: list[str], kill_after: float | None = None, delay: float = 0.0) -> Ended:
    """A command of ours in a fork, killed when it has had so many seconds of the processor."""

    def command() -> None:
        from luvli.cli import main

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["luvli", *arguments]
        main()

    with tempfile.TemporaryFile() as errors:
        pid = fork(command, errors.fileno())
        ended = 0
        while kill_after is not None and not ended:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") >= kill_after:
                time.sleep(delay)  # ticks of the processor's clock are coarse
                os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.001)
            ended, status, used = os.wait4(pid, os.WNOHANG)
        if not ended:
            _, status, used = os.wait4(pid, 0)
        errors.seek(0)
        code, text = os.waitstatus_to_exitcode(status), errors.read().decode(errors="replace")
        return Ended(code, text, used.ru_utime + used.ru_stime)


def contents(out: Path, ignored: Callable[[str], bool]) -> dict[str, str]:
    """Digest of every file that a run left, hidden ones too."""
    paths = [path for path in sorted(out.rglob("*")) if path.is_file()]
    named = {str(path.relative_to(out)): path for path in paths}
    return {name: digest(path) for name, path in named.items() if not ignored(name)}


def digest(path: Path) -> str:
    """Of a file's bytes; of models and checkpoints, which are packed in another order each time,
    of everything in them."""
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, "pt") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return _digest([file.metadata(), found])
    if path.suffix == ".ckpt":
        from luvli.training.checkpoint import load_checkpoint

        return _digest(load_checkpoint(path))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(value: object) -> str:
    """The same for equal values, bit for bit."""
    import torch

    if isinstance(value, dict):
        text = "".join(sorted(f"{key!r}: {_digest(inner)}, " for key, inner in value.items()))
    elif isinstance(value, (list, tuple)):
        text = "".join(f"{_digest(inner)}, " for inner in value)
    elif isinstance(value, torch.Tensor):
        text = f"{value.dtype} {tuple(value.shape)} {value.contiguous().numpy().tobytes().hex()}"
    else:
        text = repr(value)
    return hashlib.sha256(f"{type(value).__name__} {text}".encode()).hexdigest()


class Attack:
    """All runs of one command."""

    def __init__(self, command: Command, folder: Path, rng: random.Random) -> None:
        self.command, self.out, self.rng = command, folder / command.name, rng
        self.kills = self.runs = self.wrong = 0
        for _ in range(2):  # the first compiles what is compiled once
            shutil.rmtree(self.out, ignore_errors=True)
            untouched = run(command.arguments(self.out))
            if untouched.code != command.code:
                raise RuntimeError(f"{command.name} fails by itself: {untouched.errors[-2000:]}")
        self.seconds = untouched.seconds
        self.expected = contents(self.out, command.ignored)
        assert self.expected, "the untouched run wrote nothing"

    def run_once(self) -> None:
        """Kill and resume until the run ends, and look at what it left."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.runs += 1
        for kill in itertools.count():
            moment = self.rng.random() * self.seconds if kill < AT_ONCE else None
            ended = run(self.command.arguments(self.out), moment, self.rng.random() * 0.01)
            if ended.code != -signal.SIGKILL:
                break
            self.kills += 1
        found = contents(self.out, self.command.ignored)
        if ended.code != self.command.code or "Traceback" in ended.errors:
            print(f"{self.command.name} ended with {ended.code}: {ended.errors[-800:]}", flush=True)
        elif found == self.expected:
            return
        self.wrong += 1
        names = found.keys() | self.expected.keys()
        other = sorted(name for name in names if found.get(name) != self.expected.get(name))
        print(f"{self.command.name}: differs in {', '.join(other[:5])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="commands whose name begins so")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rng = random.Random(given.seed)
    kills = wrong = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        # what computes starts threads, which no fork survives
        if os.waitpid(fork(lambda: prepare(folder)), 0)[1]:
            sys.exit("the files for the attack could not be made")
        load_everything()
        commands = [c for c in all_commands(folder) if c.name.startswith(given.only)]
        wanted = -(-given.kills // len(commands))
        for command in commands:
            attack = Attack(command, folder, rng)
            while attack.kills < wanted and attack.runs < 20 * wanted + 20:
                attack.run_once()
            print(
                f"{command.name:22}{attack.kills:6} kills, {attack.wrong} runs with other results"
            )
            kills, wrong = kills + attack.kills, wrong + attack.wrong
    print(f"{kills} kills, {wrong} runs with other results")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
