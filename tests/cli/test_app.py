"""The command as a program: quick, torch-free, honest about its version."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from typer.testing import Result

import luvli as package


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    "code",
    [
        "import luvli",
        "from luvli.cli import app; from typer.testing import CliRunner; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0",
    ],
)
def test_torch_and_other_heavy_packages_are_not_imported(code: str) -> None:
    heavy = ["torch", "scipy", "matplotlib", "numba", "onnxruntime", "pyarrow", "cv2", "skimage"]
    check = f"import sys; print([m for m in {heavy} if m in sys.modules])"
    assert run_python(f"{code}\n{check}").stdout.strip() == "[]"


def test_import_takes_well_under_a_second() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        run_python("import luvli")
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 0.8


def test_version(luvli: Callable[..., Result]) -> None:
    assert luvli("--version").output.strip() == f"luvli {package.__version__}"


def test_help_lists_the_verbs(luvli: Callable[..., Result]) -> None:
    output = luvli("--help").output
    assert all(verb in output for verb in ("demo", "detect", "convert", "markup"))
