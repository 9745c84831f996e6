"""What is installed is what was tested: versions in constraints.txt, digests in locks/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)", re.MULTILINE)


def pinned(text: str) -> dict[str, str]:
    """Version by name, spelt as package indexes compare it."""
    return {re.sub(r"[-_.]+", "-", m["name"]).lower(): m["version"] for m in ENTRY.finditer(text)}


@pytest.mark.parametrize("extra", ["demo", "dev", "server"])
def test_locks_follow_the_constraints(extra: str) -> None:
    text = (ROOT / f"locks/{extra}.txt").read_text()
    wanted = pinned((ROOT / "constraints.txt").read_text())
    locked = pinned(text)
    assert {"numpy", "onnxruntime", "pillow"} <= locked.keys()
    differing = {n: v for n, v in locked.items() if n in wanted and wanted[n] != v}
    assert differing == {}, "run python tools/lock.py"
    assert not any(name.startswith(("torch", "nvidia", "cuda")) for name in locked)


@pytest.mark.parametrize("extra", ["demo", "dev", "server"])
def test_every_locked_package_has_digests(extra: str) -> None:
    text = (ROOT / f"locks/{extra}.txt").read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in text  # whoever installs says from where


@pytest.mark.parametrize("path", ["Dockerfile", "docs/serving/Dockerfile"])
def test_containers_take_what_is_named_by_its_digest(path: str) -> None:
    text = (ROOT / path).read_text().replace("\\\n", " ")
    named = r"python:3\.12-slim@sha256:[0-9a-f]{64}"
    bases = re.findall(r"^(?:FROM|ARG PYTHON=)\s*(\S+)", text, re.MULTILINE)
    assert bases and all(base == "$PYTHON" or re.fullmatch(named, base) for base in bases)
    for call in re.findall(r"pip (?:install|wheel) [^&\n]*", text):
        # what is no package of ours comes from the lock, and nothing else is looked for
        assert "--no-deps" in call
        assert "--require-hashes" in call or "luvli" in call or call.split()[-1] == "."
    assert "locks/server.txt" in text


def test_the_lock_of_the_containers_is_complete() -> None:
    """Every package that the extras need, at any depth, as far as it is installed here."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement

    locked = pinned((ROOT / "locks/server.txt").read_text())
    waiting, known = [Requirement("luvli[serve,video]")], set()
    while waiting:
        wanted = waiting.pop()
        for line in requires(wanted.name) or ():
            needed = Requirement(line)
            extras = [{"extra": extra} for extra in wanted.extras] or [{"extra": ""}]
            if needed.marker is not None and not any(map(needed.marker.evaluate, extras)):
                continue
            name = re.sub(r"[-_.]+", "-", needed.name).lower()
            assert name in locked, f"{wanted.name} needs {name}: run python tools/lock.py"
            if name not in known:
                known.add(name)
                waiting.append(needed)
