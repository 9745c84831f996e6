"""The command as people use and misuse it: nothing blocked, nothing mixed, everything traced."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from luvli.cli import app
from luvli.data.formats import read_csv, read_json
from luvli.image.write import write_image
from luvli.prediction.predictor import Predictor

from .conftest import disc_image
from .jobs import faces_in, names, run

Command = Callable[..., Result]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("--min-score", "7"), "--min-score"),
        (("--min-confidence", "0.5"), "gives no confidence"),
        (("--format", "xml"), "json, csv"),
        (("--device", "abacus"), "cpu"),
        (("--boxes", "tiny.json"), "a box needs x0 < x1"),
    ],
)
def test_a_mistyped_command_leaves_nothing_behind(
    luvli: Command,
    tiny: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: tuple[str, str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.json").write_text('{"a.png": [[1e-300, 0, 2e-300, 1e-300]]}')
    write_image(tmp_path / "a.png", disc_image([]))
    common = ("predict", tmp_path / "a.png", "-o", tmp_path / "o", "--model", tiny["onnx"])
    done = luvli(*common, *wrong)
    assert done.exit_code == 2 and sentence in " ".join(done.output.split())
    assert not (tmp_path / "o").exists()
    assert luvli(*common).exit_code == 0  # the folder is not blocked


@pytest.mark.parametrize("format", ["json", "csv"])
def test_every_input_leaves_a_trace(discs: Predictor, tmp_path: Path, format: str) -> None:
    folder = tmp_path / "in"
    write_image(folder / "face.png", disc_image([(100, 80, 30)]))
    write_image(folder / "empty [1].png", disc_image([]))
    (folder / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic")
    (folder / "notes.txt").write_text("no image")
    (folder / "locked").mkdir()
    (folder / "locked").chmod(0)
    summary = run(discs, folder, tmp_path / "out", format=format)
    (folder / "locked").chmod(0o755)
    text = (tmp_path / f"out/faces.{format}").read_text()
    assert "empty [1].png" in text
    assert any("pillow-heif" in sentence for sentence in summary.failed)
    assert summary.skipped == {".txt": 1}
    if os.getuid():  # root may list everything
        assert any("cannot be listed" in sentence for sentence in summary.failed)
    read = read_json if format == "json" else read_csv
    (face,) = read(tmp_path / f"out/faces.{format}")
    assert face.image is not None and face.image.name == "face.png"


def test_json_goes_to_standard_output(tiny: dict[str, Path], tmp_path: Path) -> None:
    write_image(tmp_path / "a [x].png", disc_image([]))
    (tmp_path / "bad.jpg").write_bytes(b"nothing")
    arguments = ["predict", str(tmp_path / "a [x].png"), str(tmp_path / "bad.jpg"), "--json"]
    before = sorted(tmp_path.iterdir())
    done = CliRunner().invoke(app, [*arguments, "--model", str(tiny["onnx"])])
    assert done.exit_code == 1
    first, second = json.loads(done.stdout)
    assert first == {"image": str(tmp_path / "a [x].png"), "faces": []}
    assert "error" in second and sorted(tmp_path.iterdir()) == before
    done = CliRunner().invoke(
        app,
        ["predict", "-", "--model", str(tiny["onnx"])],
        input=(tmp_path / "a [x].png").read_bytes(),
    )
    assert json.loads(done.stdout) == [{"image": "-", "faces": []}], done.output


@pytest.mark.parametrize("printing", [["a.png", "--json"], ["-"]])
@pytest.mark.parametrize("option", [["--out", "x"], ["--draw"], ["--format", "csv"]])
def test_options_for_files_are_refused_where_results_are_printed(
    printing: list[str], option: list[str]
) -> None:
    done = CliRunner().invoke(app, ["predict", *printing, *option])
    assert done.exit_code == 2 and not done.stdout
    assert f"{option[0]} cannot be used here" in done.stderr


def test_a_video_that_needs_a_package_is_named(
    discs: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "av", None)
    summary = run(discs, tmp_path / "clip.mp4", tmp_path / "out")
    (sentence,) = summary.failed
    assert sentence.startswith(str(tmp_path / "clip.mp4")) and "luvli[video]" in sentence


def test_command_exit_codes(
    luvli: Command, tiny: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_image("plain.png", disc_image([]))
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8 not really")
    model = ("--model", tiny["onnx"])
    done = luvli("predict", "plain.png", *model)  # no face is no failure
    assert done.exit_code == 0, done.output
    assert "predictions/faces.json" in done.output
    assert faces_in(Path("predictions/faces.json")) == []
    done = luvli("predict", "plain.png", "bad.jpg", "gone.jpg", *model)
    assert done.exit_code == 1
    assert "bad.jpg" in done.output and "gone.jpg does not exist" in done.output
    assert Path("predictions-2/faces.json").is_file()
    for arguments, message in (
        (("predict",), "Missing argument"),
        (("predict", "plain.png", "--format", "xml", *model), "one of json, csv, parquet"),
        (("predict", "plain.png", "--model", "luvli-86"), "no model|unknown model"),
        (("predict", "plain.png", "--boxes", "none.csv", *model), "none.csv does not exist"),
        (("predict", "camera:77", *model), "camera 77 cannot be opened"),
        (("predict", "camera:0", "plain.png", *model), "a camera is recorded alone"),
        (("predict", "plain.png", "--engine", "spark", *model), "'spark' is not one of"),
    ):
        done = luvli(*arguments)
        assert done.exit_code == 2, done.output
        assert any(part in " ".join(done.output.split()) for part in message.split("|"))


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ((), ["a-landmarks.png", "faces.json"]),
        (("--no-draw",), ["faces.json"]),
        (("--draw", "--format", "csv"), ["a-landmarks.png", "faces.csv"]),
    ],
)
def test_one_photograph_gives_a_table_a_drawing_and_a_file(
    luvli: Command,
    tiny: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    files: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_image("a.png", disc_image([(100, 100, 40)]))
    Path("boxes.json").write_text('{"a.png": [[60, 60, 140, 140]]}')
    done = luvli(
        "predict", "a.png", "--model", tiny["onnx"], "--boxes", "boxes.json", "--out", "o", *options
    )
    assert done.exit_code == 0, done.output
    assert "confidence" in done.output and "a.png" in done.output
    assert names(Path("o")) == files
    if "faces.json" in files:
        (face,) = faces_in(Path("o/faces.json"))
        assert face["box"] == [60, 60, 140, 140] and face["score"] == 1.0


def test_recipes_are_found_by_name(luvli: Command) -> None:
    done = luvli("recipes", "list")
    assert done.exit_code == 0 and "quick" in done.output and "own-faces" in done.output
    assert "name: quick" in luvli("recipes", "show", "quick").output
    assert "did you mean 'quick'" in luvli("recipes", "show", "quik").output
