"""`luvli benchmark` with plug-ins, on faces whose landmarks are known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from luvli.data.formats import write_pts
from luvli.errors import InputError
from luvli.evaluation.benchmark import NamedMethod, labelled_faces, run_methods
from luvli.faces import FaceLandmarks
from luvli.markup import get_markup

SHAPE = get_markup("ibug68").schematic
PLUG_IN = '''
import numpy as np
from luvli.markup import get_markup

SHAPE = get_markup("ibug68").schematic

def stretch(image, box):
    """The drawn face, stretched over the box."""
    low, high = SHAPE.min(axis=0), SHAPE.max(axis=0)
    corner, size = np.array(box[:2]), np.array(box[2:]) - box[:2]
    return corner + (SHAPE - low) / (high - low) * size

def blind(image, box):
    return None

def confused(image, box):
    return np.zeros((5, 2))

def broken(image, box):
    raise RuntimeError("no model")
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for i in range(6):
        points = SHAPE * rng.uniform(40, 60) + 100
        write_pts(tmp_path / f"faces/f{i}.pts", points)
        Image.fromarray(np.full((200, 200, 3), 90, np.uint8)).save(tmp_path / f"faces/f{i}.png")
    (tmp_path / "ten_lines.py").write_text(PLUG_IN)
    return tmp_path / "faces"


def test_plug_ins_side_by_side(luvli, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = luvli(
        "benchmark", folder, "--method", "ten_lines:stretch", "--method", "ten_lines:blind",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    stretch, blind = json.loads((tmp_path / "out/benchmark.json").read_text())["methods"]
    error = stretch["metrics"]["nme_interocular"]["value"]
    assert 0 < error < 10  # the boxes have noise of 5 percent
    assert blind["metrics"]["fr10_interocular"]["value"] == 100
    assert (stretch["failed"], len(blind["failed"])) == ([], 6)
    assert stretch["milliseconds"] > 0
    made = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert made == ["benchmark.html", "benchmark.json", "benchmark.md"]
    text = (tmp_path / "out/benchmark.md").read_text()
    assert "| without prediction | 0 | 6 |" in text and "Difference from stretch" in text
    assert "| time of a face (ms) ↓ |" in text and "in turns on one machine" in text


def test_a_method_with_uncertainty_is_assessed_by_it_too(folder):
    def sure(image, box):
        return FaceLandmarks(
            points=SHAPE * 50 + 100, covariance=np.tile(np.eye(2), (68, 1, 1)),
            visibility=np.ones(68), box=box,
        )  # fmt: skip

    (result,) = run_methods([NamedMethod("sure", sure)], labelled_faces(folder), resamples=5)
    assert "nll" in result.metrics.metrics and result.metrics.missing == ()


def test_mistakes_are_one_sentence(luvli, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unloadable.py").write_text("open('no such weights')")
    for name, sentence in (
        ("ten_lines:nothing", "cannot be imported"),
        ("missing_module:predict", "missing_module:predict cannot be imported"),
        ("ten_lines:confused", "must return points of shape"),
        ("ten_lines:broken", "ten_lines:broken failed (RuntimeError: no model, ten_lines.py line"),
        ("unloadable:f", "cannot be imported (FileNotFoundError: "),
        ("no-such-model", "no-such-model"),
    ):
        done = luvli("benchmark", folder, "--method", name)
        assert done.exit_code == 2 and sentence in done.output, done.output
    with pytest.raises(InputError, match="no method"):
        run_methods([], labelled_faces(folder))
