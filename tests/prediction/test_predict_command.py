"""The command as people use and misuse it: nothing blocked, nothing mixed, everything traced."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from luvli.cli import app
from luvli.data.formats import read_csv, read_json
from luvli.errors import InputError
from luvli.files import folder_lock
from luvli.image.read import read_image
from luvli.image.write import write_image
from luvli.prediction.batch_job import predict_paths
from luvli.prediction.input_files import KINDS, Input, Inputs, run_note
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.journal import NAME
from luvli.prediction.output_names import OutputNames
from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result as ImageResult
from luvli.prediction.rotations import turn_affine

from .conftest import disc_image

Command = Callable[..., Result]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("--coverage", "95"), "95 % is 0.95"),
        (("--min-score", "7"), "--min-score must lie in 0..1"),
        (("--min-confidence", "0.5"), "tells no confidence"),
        (("--max-uncertainty", "-1"), "above 0"),
        (("--format", "xml"), "json, csv"),
        (("--camera", "0"), "--camera takes no files beside it"),
    ],
)
def test_a_mistyped_command_leaves_nothing_behind(
    luvli: Command, tiny: dict[str, Path], tmp_path: Path, wrong: tuple[str, str], sentence: str
) -> None:
    write_image(tmp_path / "a.png", disc_image([]))
    common = ("predict", tmp_path / "a.png", "-o", tmp_path / "o", "--model", tiny["onnx"])
    done = luvli(*common, *wrong)
    assert done.exit_code == 2 and sentence in done.output
    assert not (tmp_path / "o" / NAME).exists()
    assert luvli(*common, "--quiet").exit_code == 0  # the folder is not blocked


def test_results_of_another_run_are_not_replaced(discs: Predictor, tmp_path: Path) -> None:
    write_image(tmp_path / "a/x.png", disc_image([(100, 80, 30)]))
    write_image(tmp_path / "b/x.png", disc_image([(200, 80, 30)]))
    out = tmp_path / "out"

    def run(name: str, **more: object) -> None:
        settings = JobSettings(out, note=name, **more)  # type: ignore[arg-type]
        predict_paths(discs, Inputs([tmp_path / name]), settings)

    run("a")
    before = (out / "faces.json").read_bytes()
    run("a")  # the same again is no harm
    with pytest.raises(InputError, match="results of another run"):
        run("b")
    assert (out / "faces.json").read_bytes() == before
    run("b", overwrite=True)
    assert json.loads((out / "faces.json").read_text())["faces"][0]["image"].endswith("b/x.png")


def test_a_run_that_could_read_nothing_does_not_block_its_folder(
    discs: Predictor, tmp_path: Path
) -> None:
    write_image(tmp_path / "x.png", disc_image([(100, 80, 30)]))
    out = tmp_path / "out"
    wrong = JobSettings(out, note="mistyped")
    assert predict_paths(discs, Inputs([tmp_path / "y.png"]), wrong).failed
    assert (out / "failed.txt").is_file()
    done = predict_paths(discs, Inputs([tmp_path / "x.png"]), JobSettings(out, note="right"))
    assert done.faces == 1 and not done.failed
    assert not (out / "failed.txt").exists()  # of the run before, which is replaced
    with pytest.raises(InputError, match="results of another run"):
        predict_paths(discs, Inputs([tmp_path / "y.png"]), wrong)


def test_files_of_others_are_left_as_they_are(discs: Predictor, tmp_path: Path) -> None:
    """OUT is the user's own folder, with files called as ours would be."""
    write_image(tmp_path / "x.png", disc_image([(100, 80, 30)]))
    (tmp_path / "x-landmarks.png").write_text("mine")
    summary = predict_paths(discs, Inputs([tmp_path / "x.png"]), JobSettings(tmp_path, draw=True))
    assert (tmp_path / "x-landmarks.png").read_text() == "mine"
    assert "was there before" in summary.failed[0] and summary.faces == 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other/faces.json").write_text("mine")
    with pytest.raises(InputError, match=r"faces\.json was there before"):
        predict_paths(discs, Inputs([tmp_path / "x.png"]), JobSettings(tmp_path / "other"))
    assert (tmp_path / "other/faces.json").read_text() == "mine"


def test_two_runs_at_once_are_kept_apart(discs: Predictor, tmp_path: Path) -> None:
    write_image(tmp_path / "x.png", disc_image([(100, 80, 30)]))
    with folder_lock(tmp_path / "out"), pytest.raises(InputError, match="another run"):
        predict_paths(discs, Inputs([tmp_path / "x.png"]), JobSettings(tmp_path / "out"))


def test_output_names_never_collide(tmp_path: Path) -> None:
    names = OutputNames(tmp_path)
    inputs = [
        Input(f"/{i}/{name}", name)
        for i, name in enumerate(
            ["x.jpg", "x.jpg", "x.jpg", "x.png", "x~2.jpg", "v/000003.jpg", "v.mp4", "faces.mp4"]
        )
    ]
    made = []
    for item in inputs:
        stem = names.stem(item)
        made += [f"{stem}.pts", f"{stem}~2.pts", f"{stem}-landmarks", f"{stem}.json"]
        if item.is_video:
            made += [f"{stem}/000003.pts"]
    assert len(set(made)) == len(made) and str(tmp_path / "faces.json") not in made


def test_identity_holds_the_inputs_and_contents(tmp_path: Path, tiny: dict[str, Path]) -> None:
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("image,x0,y0,x1,y1\n")
    model = str(tiny["onnx"])
    first = run_note(["a"], model, None, boxes, False, None)
    assert first == run_note(["a"], model, None, boxes, False, None)
    assert first != run_note(["b"], model, None, boxes, False, None)
    boxes.write_text("image,x0,y0,x1,y1\na,1,2,3,4\n")
    assert first != run_note(["a"], model, None, boxes, False, None)


@pytest.mark.parametrize("format", ["json", "csv"])
def test_every_input_leaves_a_trace(discs: Predictor, tmp_path: Path, format: str) -> None:
    folder = tmp_path / "in"
    write_image(folder / "face.png", disc_image([(100, 80, 30)]))
    write_image(folder / "empty [1].png", disc_image([]))
    (folder / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic")
    (folder / "notes.txt").write_text("no image")
    (folder / "locked").mkdir()
    (folder / "locked").chmod(0)
    summary = predict_paths(discs, Inputs([folder]), JobSettings(tmp_path / "out", format=format))
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


def test_overwriting_tells_what_is_left_of_the_earlier_run(
    discs: Predictor, tmp_path: Path
) -> None:
    for name in "ab":
        write_image(tmp_path / f"{name}.png", disc_image([(100, 80, 30)]))
    out = tmp_path / "out"
    first = predict_paths(discs, Inputs([tmp_path / "a.png"]), JobSettings(out, draw=True))
    (drawn,) = (path for path in out.iterdir() if path.name.startswith("a-"))
    os.utime(drawn, (1e9, 1e9))
    settings = JobSettings(out, draw=True, overwrite=True, note="other")
    second = predict_paths(discs, Inputs([tmp_path / "b.png"]), settings)
    assert (first.left_over, second.left_over) == (0, 1)


def test_unsure_faces_are_left_out(discs: Predictor, tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", disc_image([(100, 80, 30)]))
    (face,) = discs.predict(tmp_path / "a.png")
    share = 100 * face.uncertainty.mean() / np.sqrt(np.prod(face.box[2:] - face.box[:2]))
    for limit, kept in ((share * 1.01, 1), (share * 0.99, 0)):
        settings = JobSettings(tmp_path / f"out{kept}", max_uncertainty=float(limit))
        summary = predict_paths(discs, Inputs([tmp_path / "a.png"]), settings)
        assert (summary.faces, summary.filtered) == (kept, 1 - kept)


def test_video_results_give_back_frame_time_and_track(discs: Predictor, tmp_path: Path) -> None:
    (face,) = discs.predict(disc_image([(100, 80, 30)]))
    result = ImageResult("clip.mp4", (face,), 7, 0.28, (3,))
    from luvli.prediction.write import write_results

    write_results(tmp_path / "clip.json", [result], "json")
    (record,) = read_json(tmp_path / "clip.json")
    assert record.attributes == {"frame": 7, "time": 0.28, "track": 3}
    assert (tmp_path / "clip.json").stat().st_size < 6000  # digits that mean something


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_turned_images_are_found_and_mapped_back(discs: Predictor, turn: int) -> None:
    class Upright:
        """Finds the disc only where a bright mark stands above it."""

        def __call__(self, image: np.ndarray, name: str = "") -> list:
            rows = np.argwhere(image[:, :, 2] == 255)
            boxes = inner(image, name)
            return [box for box in boxes if rows[:, 0].max() < box.y0]

    inner = discs.detector
    assert inner is not None
    image = disc_image([(100, 120, 30)])
    image[20:24, 98:102] = (0, 0, 255)
    expected = np.array([[100.0, 120.0]])
    discs.detector = Upright()
    turned = np.ascontiguousarray(np.rot90(image, turn))
    (face,) = discs.predict(turned, try_rotations=True)
    way = turn_affine(turn, 320, 240)
    place = expected @ way[:, :2].T + way[:, 2]
    np.testing.assert_allclose(np.mean([face.box[:2], face.box[2:]], axis=0), place[0], atol=0.6)
    # the crop was upright, so the first jaw point lies to the left of the face's own upright
    upright = face.transform(np.linalg.inv(np.vstack([way, [0, 0, 1]])))
    assert upright.points[0, 0] < upright.points[16, 0]
    assert upright.points[8, 1] > upright.points[27, 1]


def test_patterns_come_sorted_and_other_files_are_counted_by_kind(tmp_path: Path) -> None:
    for name in ("c.png", "a.png", "b.png", "x.CR2", "y.cr2", "notes.txt", "LICENSE"):
        (tmp_path / name).write_bytes(b"")
    assert [Path(one.path).name for one in Inputs([tmp_path / "*.png"])] == [
        "a.png", "b.png", "c.png",
    ]  # fmt: skip
    assert Inputs([tmp_path]).skipped == {".cr2": 2, ".txt": 1, "": 1}
    for number in range(200):  # no memory for each of a million endings
        (tmp_path / f"frame.{number}").write_bytes(b"")
    skipped = Inputs([tmp_path]).skipped
    assert len(skipped) <= KINDS + 1 and skipped.total() == 204


def test_a_video_that_needs_a_package_is_named(
    discs: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "av", None)
    summary = predict_paths(discs, Inputs([tmp_path / "clip.mp4"]), JobSettings(tmp_path / "out"))
    (sentence,) = summary.failed
    assert sentence.startswith(str(tmp_path / "clip.mp4")) and "luvli[video]" in sentence


def test_names_with_brackets_print_whole(capsys: pytest.CaptureFixture[str]) -> None:
    from luvli.cli.tables import print_table

    print_table(["image", "n"], [["odd [bold]name[/] [1].jpg", "1"]])
    assert "odd [bold]name[/] [1].jpg" in capsys.readouterr().out


def test_recipes_are_found_by_name(luvli: Command) -> None:
    done = luvli("recipes", "list")
    assert done.exit_code == 0 and "quick" in done.output and "own-faces" in done.output
    assert "name: quick" in luvli("recipes", "show", "quick").output
    assert "did you mean 'quick'" in luvli("recipes", "show", "quik").output
    names = [line.split()[0] for line in done.output.splitlines() if line]
    assert names[:2] == ["own-faces", "quick"]  # what newcomers look for


def test_train_knows_the_option_that_messages_name(
    luvli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    seen = []
    monkeypatch.setattr("luvli.training.loop.train", lambda recipe, *_: seen.append(recipe))
    done = luvli("train", "own-faces", "--skip-bad", "--set", "data.root=faces")
    assert done.exit_code == 0, done.output
    assert all(source.skip_bad for source in seen[0].data.sources.values())


def test_train_says_where_the_faces_should_be(
    luvli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    for words in ((), ("--set", "data.root=nowhere")):
        done = luvli("train", "own-faces", *words)
        assert done.exit_code == 2 and "--set data.root=FOLDER" in done.output, done.output


@pytest.mark.parametrize("change", ["stages.heat.epochs=3", "stages.heat=null"])
def test_unknown_stages_list_the_known(luvli: Command, change: str) -> None:
    """And the stages of the recipes for newcomers have the names of the paper's."""
    done = luvli("train", "own-faces", "--set", change)
    assert done.exit_code == 2 and "unknown stage 'heat'" in done.output
    assert "heatmap, luvli" in done.output.replace("\n", " ")


def test_read_image_says_what_heic_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as if it were not installed
    (tmp_path / "a.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    with pytest.raises(InputError, match="pillow-heif"):
        read_image(tmp_path / "a.HEIC")


def test_heic_is_read_where_the_package_is(tmp_path: Path) -> None:
    """Written by pillow-heif, the pixels come back within JPEG's accuracy."""
    heif = pytest.importorskip("pillow_heif", reason="needs pillow-heif")
    from PIL import Image

    ramp = np.add.outer(np.arange(96), np.arange(64)).astype(np.uint8)
    image = np.stack([ramp, 200 - ramp, np.full_like(ramp, 90)], axis=2)
    heif.from_pillow(Image.fromarray(image)).save(tmp_path / "a.HEIC", quality=90)
    for source in (tmp_path / "a.HEIC", (tmp_path / "a.HEIC").read_bytes()):
        read = read_image(source)
        assert read.shape == image.shape
        assert np.abs(read.astype(int) - image).mean() < 3
