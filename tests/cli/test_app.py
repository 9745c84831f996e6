"""The command as a program: quick, torch-free, honest about its version."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import Result

import luvli as package
from luvli.cli import app

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
MAX_OPTIONS = 130


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


def commands(
    command: Any = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands below one, with the words that call them."""
    command = get_command(app) if command is None else command
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def test_ctrl_c_while_it_starts_prints_no_traceback() -> None:
    """Python's own start aside: whatever takes time is imported where Ctrl-C is expected."""
    script = """
import sys
class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "typer"):
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
from luvli.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_verbs_and_options_stay_few() -> None:
    """A new option is worth leaving another one out."""
    assert len([path for path, _ in commands() if len(path) == 1]) == 16
    options = [
        (path, param.opts)
        for path, command in commands()
        if path and not hasattr(command, "commands")
        for param in command.params
        if param.param_type_name == "option"
    ]
    assert len(options) <= MAX_OPTIONS


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("models", "list"), [0, "headline", "nme_300w"]),
        (("models", "show", "luvli-68"), ["tables", 0, "rows"]),
        (("recipes", "list"), ["quick"]),
        (("data", "list"), [0, "rows", 0, "name"]),
        (("paper", "table"), ["split2"]),
        (("paper", "table", "split2"), ["rows", 0, "quoted"]),
    ],
    ids=lambda words: str(words[-1]),
)
def test_results_are_printed_as_json(
    luvli: Callable[..., Result], words: tuple[str, ...], part: list[Any]
) -> None:
    """And nothing else, wherever --json stands."""
    behind, before = luvli(*words, "--json"), luvli("--json", *words)
    assert behind.exit_code == 0 and behind.output == before.output
    value = json.loads(behind.output)
    for key in part:
        value = value[key]
    assert value
    assert luvli(*words).output != behind.output


@pytest.mark.parametrize("words", [path for path, _ in commands()], ids=" ".join)
def test_every_command_explains_itself(
    luvli: Callable[..., Result], words: tuple[str, ...]
) -> None:
    done = luvli(*words, "--help")
    assert done.exit_code == 0 and "Usage" in done.output
    command = dict(commands())[words]
    if not hasattr(command, "commands"):
        assert re.search(rf"Examples?: `luvli {' '.join(words)}", command.help or "")
    assert "<bool>" not in done.output  # flags take no value


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "luvli-68", "--data", "folder", "faces"),
        ("data", "synthesize", "--faces", "1"),
        ("recipes", "run", RECIPES / "mini/ablation", "--data", "faces"),
        ("train", "quick"),
        ("calibrate", "luvli-68", "--data", "folder", "faces"),
    ],
    ids=lambda words: str(words[0]),
)
def test_what_another_run_writes_to_is_refused(
    luvli: Callable[..., Result], words: tuple[str, ...], tmp_path: Path
) -> None:
    from luvli.files import folder_lock

    with folder_lock(tmp_path / "out"), folder_lock(tmp_path / "out.lock"):
        done = luvli(*words, "--out", tmp_path / "out")
        assert [path.name for path in (tmp_path / "out").iterdir()] == [".luvli-lock"]
    assert done.exit_code == 2
    assert re.search(r"out(\.lock)? is being written by another run", done.output)


@pytest.mark.parametrize("name", ["gone.yaml", "quik", "models/luvli"])
def test_a_recipe_that_is_not_there_is_one_sentence(
    luvli: Callable[..., Result], name: str
) -> None:
    done = luvli("recipes", "show", name)
    assert done.exit_code == 2 and len(done.output.splitlines()) == 1 and name in done.output
