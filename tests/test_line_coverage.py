"""The coverage in the summary of `make test`: what runs is counted, by workers too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("slipcover")
ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("how", [[], ["-n", "2"]], ids=["one process", "workers"])
def test_lines_that_run_are_counted(how: list[str], tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "from luvli.errors import InputError, unknown_choice\n\n\n"
        "def test_one():\n    assert 'one' in str(unknown_choice('x', 'two', ['one']))\n"
    )
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.line_coverage", *how]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-c", str(settings), str(test)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.split("lines reached")[1]
    total = re.search(r"in all (\d+\.\d) % of (\d+) lines in (\d+) files", summary)
    assert total and 0 < float(total[1]) < 100 and int(total[2]) > 100
    files = re.findall(r"^ *\d+\.\d %  (\S+\.py)$", summary, re.MULTILINE)
    assert len(files) == min(10, int(total[3]))
