"""Lines of `luvli` that the tests reached, for the summary of `make test`.

    python -m pytest -p tests.line_coverage ...

Slipcover notes each line once and then takes its probe away, which costs a few percent where a
tracer costs half as much again. Each worker of pytest-xdist tells what it reached when it ends.
Other processes (commands that tests start, a cluster's workers) are not counted, nor is what
numba compiles, which can read no probes. `make coverage` traces, and names the missing lines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import slipcover

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/luvli"
COMPILED = "*/luvli/synthetic/raster/*"
LEAST = 10
"""how many files the summary names"""

_probes = slipcover.Slipcover()
_lines: dict[str, tuple[set[int], set[int]]] = {}
"""file -> lines that were reached, lines that were not"""

# Now, because pytest imports `luvli` before it reads conftest.py, for its filters of warnings.
slipcover.ImportManager(_probes, slipcover.FileMatcher([SOURCE], [COMPILED])).__enter__()


def _reached() -> dict[str, tuple[list[int], list[int]]]:
    files = _probes.get_coverage()["files"]
    return {name: (told["executed_lines"], told["missing_lines"]) for name, told in files.items()}


def _add(reached: dict[str, Any]) -> None:
    for name, (executed, missing) in reached.items():
        path = Path(name).resolve().relative_to(SOURCE).as_posix()
        seen, unseen = _lines.setdefault(path, (set(), set()))
        seen.update(executed)
        unseen.update(missing)
        unseen -= seen


@pytest.hookimpl(tryfirst=True)  # xdist's worker sends its output when the session ends
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["reached_lines"] = json.dumps(_reached())
    else:
        _add(_reached())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker has ended; one that crashed has told nothing."""
    _add(json.loads(getattr(node, "workeroutput", {}).get("reached_lines", "{}")))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _lines:
        return
    shares = {path: share(len(seen), len(unseen)) for path, (seen, unseen) in _lines.items()}
    reached = sum(len(seen) for seen, _ in _lines.values())
    missing = sum(len(unseen) for _, unseen in _lines.values())
    terminalreporter.section("lines reached, in the processes of the tests themselves")
    for path in sorted(shares, key=lambda path: (shares[path], path))[:LEAST]:
        terminalreporter.write_line(f"{shares[path]:5.1f} %  {path}")
    total = f"{share(reached, missing):.1f} % of {reached + missing} lines in {len(shares)} files"
    terminalreporter.write_line(f"in all {total}")


def share(reached: int, missing: int) -> float:
    """Percent; a file without a line is reached."""
    return 100.0 * reached / (reached + missing) if reached + missing else 100.0
