"""Fixtures for all tests."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

ROOT = Path(__file__).resolve().parent.parent
CLUSTER = ("tests/scale/test_cluster.py", "tests/scale/test_ray_serve.py")
"""tests on one Ray cluster"""

# The golden numbers were computed with AVX2. Wider kernels round differently, which networks with
# random weights amplify beyond the golden tests' tolerance, so all tests use AVX2's kernels.
# Must be set before PyTorch is imported; programs that tests start inherit it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")

# Tests start many interpreters, which would all compile the same modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A deadline for one example, in wall time, would test how busy the machine is.
settings.register_profile("luvli", deadline=None)
settings.load_profile("luvli")


def pytest_configure(config: pytest.Config) -> None:
    """Tests side by side: one thread in each worker, or they only take turns on the cores."""
    if config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by the workers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: some tests wait for servers, kills and a cluster."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker takes a file at a time, whose tests share fixtures; both of a cluster's files."""
    from xdist.scheduler import LoadFileScheduling

    class FileScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return CLUSTER[0] if file in CLUSTER else file

    return FileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with the most work come first, so that no worker is left alone with one at the end."""
    seconds: Counter[Path] = Counter()
    for item in items:
        slow, given = item.get_closest_marker("slow"), item.get_closest_marker("seconds")
        seconds[item.path] += given.args[0] if given else 2.0 if slow else 0.1
    items.sort(key=lambda item: -seconds[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The reason of a skip names the command that enables it; packages come by `make test`."""
    _name_command(report)


@pytest.hookimpl(tryfirst=True)
def pytest_collectreport(report: pytest.CollectReport) -> None:
    _name_command(report)


def _name_command(report: Any) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        if re.match(r"Skipped: (could not import|needs [^:]*$)", reason):
            report.longrepr = path, line, f"{reason}: make test"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of research data and golden vectors, which most machines do not have."""
    folder = Path(os.environ.get("LUVLI_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("needs research data: LUVLI_SHARED=FOLDER make test")
    return folder


@pytest.fixture(scope="session")
def lfpw(shared: Path) -> Path:
    """Real photographs with 68 points labelled by people."""
    folder = shared / "data/300w/lfpw/trainset"
    if not folder.is_dir():
        pytest.skip("needs 300-W in research data: LUVLI_SHARED=FOLDER make test")
    return folder


@pytest.fixture(scope="session")
def astronaut() -> NDArray[np.uint8]:
    """A real photograph of one face, in the public domain, inside scikit-image."""
    data = pytest.importorskip("skimage.data")
    photograph: NDArray[np.uint8] = data.astronaut()
    return photograph


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20200614)


@pytest.fixture
def luvli() -> Callable[..., Result]:
    """Run the command line in this process: `luvli("markup", "ibug68").exit_code`."""
    from luvli.cli import app

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run
