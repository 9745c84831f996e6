"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

ROOT = Path(__file__).resolve().parent.parent

# The golden numbers were computed with AVX2. Wider kernels round differently, which networks with
# random weights amplify beyond the golden tests' tolerance, so all tests use AVX2's kernels.
# Must be set before PyTorch is imported; programs that tests start inherit it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")

# A deadline for one example, in wall time, would test how busy the machine is.
settings.register_profile("luvli", deadline=None)
settings.load_profile("luvli")


def pytest_configure(config: pytest.Config) -> None:
    """Tests side by side: one thread in each worker, or they only take turns on the cores."""
    if config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by the workers


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: some tests wait for servers, kills and a cluster."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers take a file at a time, whose tests share fixtures; its slow tests apart from the
    others, and the longest work first, so that no worker is left alone with it at the end."""
    seconds: Counter[str] = Counter()
    for item in items:
        slow = item.get_closest_marker("slow")
        given = item.get_closest_marker("xdist_group")
        file = item.nodeid.partition("::")[0]
        group = given.args[0] if given else f"{file} {'slow' if slow else 'fast'}"
        if not given:
            item.add_marker(pytest.mark.xdist_group(group))
        item.stash[_GROUP] = group
        seconds[group] += slow.kwargs.get("seconds", 5) if slow else 0.05
    items.sort(key=lambda item: -seconds[item.stash[_GROUP]])


_GROUP = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of research data and golden vectors, which most machines do not have."""
    folder = Path(os.environ.get("LUVLI_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("needs the folder of research data (LUVLI_SHARED), which is not here")
    return folder


@pytest.fixture(scope="session")
def lfpw(shared: Path) -> Path:
    """Real photographs with 68 points labelled by people."""
    folder = shared / "data/300w/lfpw/trainset"
    if not folder.is_dir():
        pytest.skip("needs the LFPW training faces, which are not here")
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
