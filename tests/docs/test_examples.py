"""The example programs and the notebook run on a newcomer's folder."""

from __future__ import annotations

import ast
import csv
import json
import runpy
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from typer.testing import Result

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.slow


@pytest.fixture
def run(newcomer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run an example in a copy of the folder; gives the folder back."""
    folder = tmp_path / "work"
    shutil.copytree(newcomer_folder, folder)
    monkeypatch.chdir(folder)

    def example(name: str, *arguments: str) -> Path:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return folder

    return example


def test_driver_monitoring(run, capsys: pytest.CaptureFixture[str]) -> None:
    run("driver_monitoring.py", "clip.mp4")
    assert capsys.readouterr().out.endswith("0 of 8 frames not trusted and left out\n")
    assert Path("clip-eyes.png").stat().st_size > 5000


def test_driver_monitoring_does_not_guess(run, capsys: pytest.CaptureFixture[str]) -> None:
    """A face blurred beyond recognition, in the place where one was followed."""
    av = pytest.importorskip("av")
    import cv2

    with av.open("clip.mp4") as clip, av.open("lost.mp4", "w") as lost:
        frames = [frame.to_ndarray(format="rgb24") for frame in clip.decode(video=0)]
        stream = lost.add_stream("mpeg4", rate=25)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for image in [*frames, cv2.blur(frames[-1], (91, 91))]:
            lost.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        lost.mux(stream.encode(None))
    run("driver_monitoring.py", "lost.mp4")
    assert "1 of 9 frames not trusted" in capsys.readouterr().out


def test_curate_dataset(run) -> None:
    import cv2

    cv2.imwrite("photos/c.jpg", cv2.blur(cv2.imread("photos/a.jpg"), (25, 25)))
    folder = run("curate_dataset.py", "photos", "kept.csv")
    with (folder / "kept.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["kept"] for row in rows[:2]] == ["True", "True"]
    (blurred,) = rows[2:]
    assert blurred["kept"] == "False" and "alignment probably failed" in blurred["reason"]


def test_face_alignment(run) -> None:
    from PIL import Image

    folder = run("face_alignment.py", "photo.jpg", "chips")
    assert Image.open(folder / "chips/photo-0.png").size == (112, 112)


def test_rppg_region(run) -> None:
    folder = run("rppg_region.py", "clip.mp4", "signal.csv")
    with (folder / "signal.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    # skin: more red than blue, in every frame
    assert len(rows) == 8 and all(float(row["red"]) > float(row["blue"]) for row in rows)


@pytest.fixture
def run_notebook(luvli: Callable[..., Result]) -> Callable[..., list[Any]]:
    """Runs a notebook cell by cell and gives what the cells show, as a kernel does: the value of
    their last expressions. `!luvli` commands run in this process, with {name} replaced by that
    variable. `changes`: texts that are replaced, so that a training takes seconds."""

    def run(name: str, changes: Mapping[str, str] = MappingProxyType({})) -> list[Any]:
        notebook = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
        names: dict[str, Any] = {}
        shown = []
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            assert not cell["outputs"], "outputs are not kept in the file"
            code = "".join(cell["source"])
            for text, other in changes.items():
                code = code.replace(text, other)
            if code.startswith("!"):
                for command in code.replace("\\\n", " ").splitlines():
                    verb, *arguments = shlex.split(command.format_map(names))
                    assert verb == "!luvli"
                    done = luvli(*arguments)
                    assert done.exit_code == 0, f"{command}: {done.output[-2000:]}"
                continue
            body = ast.parse(code)
            last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
            exec(compile(body, "notebook", "exec"), names)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), "notebook", "eval"), names))
        return shown

    return run


def test_the_first_look_runs(
    run_notebook: Callable[..., list[Any]], newcomer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    monkeypatch.chdir(newcomer_folder)
    shown = run_notebook("first_look.ipynb")
    assert sum(isinstance(value, Image.Image) for value in shown) == 2
    assert len(shown[-2]) == 6  # the table of the left eye


def test_the_training_notebook_runs(
    run_notebook: Callable[..., list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    changes = {"400, 60, 12": "30, 8, 1", "--size 192": "--size 96 --workers 1"}
    shown = run_notebook("train_your_own.ipynb", changes)
    assert sum(isinstance(value, Image.Image) for value in shown) == 4
    assert (tmp_path / "mine.onnx").stat().st_size > 10_000
