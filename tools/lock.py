"""Write the lock files: every package of `make demo`, `make test` and of the containers with the
digests of its files.

    python tools/lock.py        (needs uv)

The versions are those of constraints.txt. PyTorch and what it brings for graphics cards are left
out, because each kind of machine has builds of its own; these are installed under
constraints.txt alone, after all that is locked.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = {"demo": ("demo",), "dev": ("dev",), "server": ("serve", "video")}
"""the file's name and the extras in it; server is for the Dockerfiles"""
BUILDS = re.compile(r"(torch|triton|cuda-|nvidia-)")
"""packages that differ from machine to machine"""
HEAD = """# Written by tools/lock.py from pyproject.toml and constraints.txt. `make` and the
# Dockerfiles install these packages with --require-hashes: any other file is refused.
"""


def without_builds(text: str) -> str:
    """The lock without `BUILDS`; an entry is a line and the indented ones after it.

    >>> without_builds("a==1 \\\\\\n    --hash=x\\ntorch==2 \\\\\\n    --hash=y\\nb==3\\n")
    'a==1 \\\\\\n    --hash=x\\nb==3\\n'
    """
    entries = re.findall(r"^\S.*\n(?:\s+.*\n)*", text, re.MULTILINE)
    return "".join(entry for entry in entries if not BUILDS.match(entry))


def main() -> None:
    (ROOT / "locks").mkdir(exist_ok=True)
    for name, extras in EXTRAS.items():
        made = subprocess.run(
            [
                "uv", "pip", "compile", "pyproject.toml", "--quiet",
                *(word for extra in extras for word in ("--extra", extra)),
                "--constraint", "constraints.txt", "--universal", "--python-version", "3.11.5",
                "--generate-hashes", "--no-annotate", "--no-header", "--no-emit-index-url",
            ],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            sys.exit(made.stderr)
        (ROOT / f"locks/{name}.txt").write_text(HEAD + without_builds(made.stdout))


if __name__ == "__main__":
    main()
