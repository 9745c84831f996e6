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


@pytest.mark.parametrize("extra", ["demo", "dev"])
def test_locks_follow_the_constraints(extra: str) -> None:
    text = (ROOT / f"locks/{extra}.txt").read_text()
    wanted = pinned((ROOT / "constraints.txt").read_text())
    locked = pinned(text)
    assert {"numpy", "onnxruntime", "pillow"} <= locked.keys()
    differing = {n: v for n, v in locked.items() if n in wanted and wanted[n] != v}
    assert differing == {}, "run python tools/lock.py"
    assert not any(name.startswith(("torch", "nvidia", "cuda")) for name in locked)


@pytest.mark.parametrize("extra", ["demo", "dev"])
def test_every_locked_package_has_digests(extra: str) -> None:
    text = (ROOT / f"locks/{extra}.txt").read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in text  # whoever installs says from where
