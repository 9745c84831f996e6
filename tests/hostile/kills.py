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
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.killed_commands import Command, all_commands, load_everything, prepare

AT_ONCE = 6
"""kills of one run at most, before it may end"""
SHARE = {"predict": 0.4, "train": 0.2, "synthesize": 0.2, "export": 0.2}
"""of the kills"""


class Ended(NamedTuple):
    """How a run came to its end."""

    code: int
    """exit code, or minus the signal"""
    errors: str
    seconds: float
    """of the processor"""


class Run:
    """A command of ours in a fork."""

    def __init__(self, arguments: list[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.ended: Ended | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._be(arguments)

    def _be(self, arguments: list[str]) -> None:
        code = 70
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(self._errors.fileno(), 2)
            from luvli.cli import main

            sys.argv = ["luvli", *arguments]
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def seconds(self) -> float:
        """Of the processor, until now."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def has_ended(self) -> bool:
        return self._wait(os.WNOHANG)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Ended:
        self._wait(0)
        assert self.ended is not None
        return self.ended

    def _wait(self, options: int) -> bool:
        if self.ended is None:
            pid, status, used = os.wait4(self.pid, options)
            if pid:
                self._errors.seek(0)
                errors = self._errors.read().decode(errors="replace")
                self._errors.close()
                code = os.waitstatus_to_exitcode(status)
                self.ended = Ended(code, errors, used.ru_utime + used.ru_stime)
        return self.ended is not None


def contents(out: Path, ignored: Callable[[str], bool]) -> dict[str, str]:
    """Digest of every file that a run left, hidden ones too."""
    return {
        str(path.relative_to(out)): digest(path)
        for path in sorted(out.rglob("*"))
        if path.is_file() and not ignored(str(path.relative_to(out)))
    }


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


def killed_run(command: Command, out: Path, whole: float, rng: random.Random, most: int) -> int:
    """Kill and resume until the run ends; -> how often it was killed.

    `whole`: seconds of the processor that an untouched run takes.
    """
    shutil.rmtree(out, ignore_errors=True)
    kills = 0
    while True:
        run = Run(command.arguments(out))
        if kills < most:
            wanted = rng.random() * whole
            while not run.has_ended() and run.seconds() < wanted:
                time.sleep(0.001)
            time.sleep(rng.random() * 0.01)  # ticks of the processor's clock are coarse
            if not run.has_ended():
                run.kill()
        ended = run.wait()
        if ended.code == -signal.SIGKILL:
            kills += 1
            continue
        if ended.code != command.code or "Traceback" in ended.errors:
            raise AssertionError(f"ended with {ended.code}: {ended.errors[-800:]}")
        return kills


class Attack:
    """All runs of one command."""

    def __init__(self, command: Command, folder: Path, rng: random.Random) -> None:
        self.command, self.folder, self.rng = command, folder, rng
        self.kills = self.runs = self.wrong = 0
        out = folder / "untouched"
        shutil.rmtree(out, ignore_errors=True)
        Run(command.arguments(folder / "first")).wait()  # compiles what is compiled once
        untouched = Run(command.arguments(out)).wait()
        assert contents(folder / "first", command.ignored) == contents(out, command.ignored)
        if untouched.code != command.code:
            raise RuntimeError(f"{command.name} fails by itself: {untouched.errors[-2000:]}")
        self.whole = untouched.seconds
        self.expected = contents(out, command.ignored)
        assert self.expected, "the untouched run wrote nothing"
        shutil.rmtree(folder / "first")

    def run_once(self, left: int) -> None:
        out = self.folder / "killed"
        self.runs += 1
        try:
            self.kills += killed_run(self.command, out, self.whole, self.rng, min(left, AT_ONCE))
        except AssertionError as error:
            self.wrong += 1
            print(f"{self.command.name}: {error}", flush=True)
            return
        found = contents(out, self.command.ignored)
        if found != self.expected:
            self.wrong += 1
            names = found.keys() | self.expected.keys()
            other = sorted(name for name in names if found.get(name) != self.expected.get(name))
            print(f"{self.command.name}: differs in {', '.join(other[:5])}", flush=True)


def attack(verb: str, commands: list[Command], kills: int, rng: random.Random) -> tuple[int, int]:
    """Kill the commands of one verb in turn -> kills and wrong runs."""
    with tempfile.TemporaryDirectory() as place:
        attacks: list[Attack] = []
        done = number = 0
        while done < kills:
            if len(attacks) < len(commands):
                folder = Path(place) / str(len(attacks))
                folder.mkdir()
                attacks.append(Attack(commands[len(attacks)], folder, rng))
            chosen = attacks[number % len(attacks)]
            chosen.run_once(kills - done)
            done, number = sum(a.kills for a in attacks), number + 1
            if number > 20 * kills + 20:
                raise RuntimeError(f"{verb} ends before it can be killed")
    wrong = sum(a.wrong for a in attacks)
    print(
        f"{verb:12}{done:6} kills in {number:4} runs{wrong:6} runs with other results", flush=True
    )
    return done, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(SHARE), help="one verb alone")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rng = random.Random(given.seed)
    verbs = [given.only] if given.only else list(SHARE)
    kills = wrong = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        in_a_fork(lambda: prepare(folder))  # what computes starts threads, which no fork survives
        load_everything()
        commands = all_commands(folder)
        for verb in verbs:
            share = given.kills if given.only else round(SHARE[verb] * given.kills)
            done, bad = attack(verb, commands[verb], share, rng)
            kills, wrong = kills + done, wrong + bad
    print(f"{'all':12}{kills:6} kills{'':13}{wrong:6} runs with other results")
    sys.exit(1 if wrong else 0)


def in_a_fork(work: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        sys.exit("the files for the attack could not be made")


if __name__ == "__main__":
    main()
