"""The command as a program: quick, torch-free, honest about its version."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import luvli as package

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


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


def test_version(luvli: Callable[..., Result]) -> None:
    assert luvli("--version").output.strip() == f"luvli {package.__version__}"


def test_help_lists_the_verbs(luvli: Callable[..., Result]) -> None:
    output = luvli("--help").output
    assert all(verb in output for verb in ("demo", "predict", "data", "models"))


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "luvli-68", "--data", "folder", "faces"),
        ("data", "synthesize", "--faces", "1"),
        ("recipes", "run", RECIPES / "mini/ablation", "--data", "faces"),
        ("train", "quick"),
    ],
    ids=lambda words: str(words[0]),
)
def test_a_folder_that_another_run_writes_to_is_refused(
    luvli: Callable[..., Result], words: tuple[str, ...], tmp_path: Path
) -> None:
    from luvli.files import folder_lock

    with folder_lock(tmp_path / "out"):
        done = luvli(*words, "--out", tmp_path / "out")
        assert [path.name for path in (tmp_path / "out").iterdir()] == [".luvli-lock"]
    assert done.exit_code == 2
    assert "out is being written by another run" in done.output
