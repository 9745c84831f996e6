"""Runs over many files: what is written, resumed, refused, interrupted."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result as CliResult

from luvli.data.formats import read_labels, read_pts
from luvli.errors import InputError
from luvli.files import LOCK_NAME
from luvli.image.read import read_image
from luvli.image.write import write_image
from luvli.prediction.batch_job import BatchJob, predict_paths
from luvli.prediction.input_files import Inputs
from luvli.prediction.job_settings import JobSettings, JobSummary
from luvli.prediction.journal import FINISHED, NAME
from luvli.prediction.predictor import Predictor

from .conftest import SHAPE, DiscDetector, disc_image

Command = Callable[..., CliResult]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven images: six with 0, 1, 2 faces, one of them in a subfolder; one is cut off."""
    pictures = tmp_path / "images"
    for i in range(6):
        discs = [(80.0 + i, 90.0, 30.0), (220.0, 130.0, 40.0)][: i % 3]
        place = pictures / "more" if i == 5 else pictures
        write_image(place / f"p{i}.png", disc_image(discs))
    whole = (pictures / "p4.png").read_bytes()
    (pictures / "broken.png").write_bytes(whole[: len(whole) // 2])
    (pictures / "notes.txt").write_text("not an image")
    (pictures / ".hidden.png").write_bytes(whole)
    return pictures


def names(folder: Path) -> list[str]:
    """What a user sees, and the journal; not the note and the lock that runs keep."""
    return sorted(path.name for path in folder.iterdir() if path.name not in (FINISHED, LOCK_NAME))


def faces_in(path: Path) -> list[dict]:
    return json.loads(path.read_text())["faces"]


def run(predictor: Predictor, source: Path, out: Path, **settings: object) -> JobSummary:
    return predict_paths(predictor, Inputs([source]), JobSettings(out, **settings))  # type: ignore[arg-type]


def test_folder_in_json(discs: Predictor, folder: Path, tmp_path: Path) -> None:
    summary = run(discs, folder, tmp_path / "out")
    assert (summary.images, summary.faces, summary.without_face) == (6, 6, 2)
    (sentence,) = summary.failed
    assert "broken.png is damaged or truncated" in sentence
    rows = faces_in(tmp_path / "out/faces.json")
    assert [Path(row["image"]).name for row in rows] == [
        "p1.png",
        "p2.png",
        "p2.png",
        "p4.png",
        "p5.png",
        "p5.png",
    ]
    np.testing.assert_allclose(rows[0]["points"], [81, 90] + 30 * SHAPE, atol=0.8)
    assert names(tmp_path / "out") == ["faces.json", "failed.txt"]
    assert "broken.png" in (tmp_path / "out/failed.txt").read_text()


@pytest.mark.parametrize("format", ["json", "csv", "coco"])
def test_label_formats_read_back(
    format: str, discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    run(discs, folder, tmp_path / "out", format=format)
    suffix = "csv" if format == "csv" else "json"
    records = read_labels(tmp_path / f"out/faces.{suffix}", format)
    assert len(records) == 6
    np.testing.assert_allclose(records[0].points, [81, 90] + 30 * SHAPE, atol=0.8)
    assert [r.image.name for r in records if r.image] == [
        "p1.png", "p2.png", "p2.png", "p4.png", "p5.png", "p5.png"
    ]  # fmt: skip
    if format != "coco":
        assert records[0].covariance is not None
        assert records[0].visibility_probability == pytest.approx(0.95, abs=1e-6)


def test_parquet_accounts_for_every_image(discs: Predictor, folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    run(discs, folder, tmp_path / "out", format="parquet")
    rows = parquet.read_table(tmp_path / "out/faces.parquet").to_pylist()
    kinds = [row["status"] for row in rows]
    assert [kinds.count(kind) for kind in ("face", "no face", "failed")] == [6, 2, 1]
    (failed,) = [row for row in rows if row["status"] == "failed"]
    assert failed["image"].endswith("broken.png") and "broken.png is damaged" in failed["error"]
    rows = [row for row in rows if row["status"] == "face"]
    points = np.reshape(rows[0]["points"], (68, 2))
    np.testing.assert_allclose(points, [81, 90] + 30 * SHAPE, atol=0.8)
    assert np.shape(rows[0]["covariance"]) == (272,) and rows[0]["frame"] is None


def test_pts_and_drawings_keep_the_folders(discs: Predictor, folder: Path, tmp_path: Path) -> None:
    run(discs, folder, tmp_path / "out", format="pts", draw=True)
    made = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("[!.]*.*"))
    assert made == [
        "failed.txt", "more/p5-landmarks.png", "more/p5.pts", "more/p5~2.pts", "p1-landmarks.png",
        "p1.pts",
        "p2-landmarks.png", "p2.pts", "p2~2.pts", "p4-landmarks.png", "p4.pts",
    ]  # fmt: skip
    labelled = read_pts(tmp_path / "out/p1.pts", points=68)
    np.testing.assert_allclose(labelled.points, [81, 90] + 30 * SHAPE, atol=0.8)
    drawn, plain = read_image(tmp_path / "out/p1-landmarks.png"), read_image(folder / "p1.png")
    assert drawn.shape[0] % plain.shape[0] == 0  # a small face: enlarged, to be looked at


def test_same_stems_do_not_overwrite_each_other(discs: Predictor, tmp_path: Path) -> None:
    for name, x in (("a.png", 100), ("a.bmp", 200)):
        write_image(tmp_path / "in" / name, disc_image([(x, 100, 30)]))
    run(discs, tmp_path / "in", tmp_path / "out", format="pts")
    found = {p.name: read_pts(p).points[:, 0].mean() for p in (tmp_path / "out").glob("*.pts")}
    assert sorted(found) == ["a.png.pts", "a.pts"]
    assert {round(x / 100) for x in found.values()} == {1, 2}


def test_interrupted_run_goes_on(
    discs: Predictor, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle, with half a line at the end of the journal as after a crash."""
    monkeypatch.setattr("luvli.prediction.batch_job.MAX_IMAGES", 1)
    out = tmp_path / "out"
    first = BatchJob(discs, JobSettings(out))
    done = list(islice(first.images(Inputs([folder])), 3))
    first.journal.close()
    assert names(out) == [NAME]  # nothing that looks finished
    with (out / NAME).open("a") as stream:
        stream.write('{"image":"half a li')
    detector = DiscDetector()
    discs.detector = detector
    summary = run(discs, folder, out)
    assert summary.resumed == 2  # broken.png is tried again
    assert detector.calls == 4
    rows = faces_in(out / "faces.json")
    assert [Path(r["image"]).name for r in rows] == [
        "p1.png", "p2.png", "p2.png", "p4.png", "p5.png", "p5.png"
    ]  # fmt: skip
    assert len(done) == 3 and names(out) == ["faces.json", "failed.txt"]


def test_other_settings_do_not_mix_with_an_unfinished_run(
    discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    BatchJob(discs, JobSettings(out)).journal.close()
    with pytest.raises(InputError, match="unfinished run with other settings"):
        BatchJob(discs, JobSettings(out, min_score=0.9))
    (out / NAME).write_text("rubbish\nrubbish\n")
    with pytest.raises(InputError, match="is damaged: delete it"):
        BatchJob(discs, JobSettings(out))


def test_full_disk_loses_nothing(tiny: dict[str, Path], folder: Path, tmp_path: Path) -> None:
    """A limit on file size stands for a full disk: the journal hits it in the middle."""
    boxes = tmp_path / "boxes.csv"
    rows = "".join(f"p{i}.png,40,40,140,140\n" for i in range(6))
    boxes.write_text(f"image,x0,y0,x1,y1\n{rows}")
    command = [sys.executable, "-m", "luvli", "predict", str(folder), "--boxes", str(boxes)]
    script = "import sys; from luvli.cli import main; sys.argv[0] = 'luvli'; main()"
    command = [sys.executable, "-c", script, *command[3:], "--model", str(tiny["onnx"])]
    command += ["--out", str(tmp_path / "out")]

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

    own = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # modules would be cut off, too
    done = subprocess.run(
        command, preexec_fn=limit, capture_output=True, text=True, check=False, env=own
    )
    assert done.returncode == 2
    assert "could not be written" in done.stderr and "Traceback" not in done.stderr
    assert "run the same command again" in done.stderr
    assert names(tmp_path / "out") == [NAME]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr  # broken.png
    assert "done by an earlier run" in done.stdout
    found = {Path(row["image"]).name for row in faces_in(tmp_path / "out/faces.json")}
    assert found == {f"p{i}.png" for i in range(6)}


def test_ctrl_c_and_again(tiny: dict[str, Path], tmp_path: Path) -> None:
    count = 80  # large ones, so that there is time to stop in the middle
    write_image(tmp_path / "in/one.png", disc_image([], (1600, 1600)))
    for i in range(count - 1):
        os.link(tmp_path / "in/one.png", tmp_path / f"in/{i:04d}.png")
    (tmp_path / "boxes.json").write_text("{}")  # nothing to look for: quick
    script = "from luvli.cli import main; main()"
    arguments = ["predict", str(tmp_path / "in"), "--model", str(tiny["onnx"])]
    arguments += ["--out", str(tmp_path / "out"), "--boxes", str(tmp_path / "boxes.json")]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        # jobs in the background of a shell ignore Ctrl-C, and so would their children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    journal = tmp_path / "out" / NAME
    for _ in range(600):
        if journal.is_file() and journal.read_bytes().count(b"\n") > 20:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "give the same command again" in errors and "Traceback" not in errors
    assert names(tmp_path / "out") == [NAME]
    lines = journal.read_text().splitlines()
    assert all(json.loads(line.split(" ", 2)[2]) for line in lines)
    finished = len(lines) - 1
    assert 20 <= finished < count
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert names(tmp_path / "out") == ["faces.json"]


def test_a_large_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(3000):
        (tmp_path / f"{i:05d}.jpg").touch()
    listed = 0
    scandir = os.scandir

    def counting(path: str) -> object:
        nonlocal listed
        listed += 1
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counting)
    inputs = Inputs([tmp_path])
    assert inputs.images == 3000
    found = [item.name for item in inputs]
    assert found == sorted(found) and len(found) == 3000
    assert listed == 1


LISTING = """
import sys, tracemalloc
from luvli.prediction import input_files
input_files.SORTED_AT_A_TIME, input_files.SPOOL_BYTES = 100, 1 << 14
tracemalloc.start()
print(input_files.Inputs([sys.argv[1]]).images, tracemalloc.get_traced_memory()[1])
"""
PREDICTING = """
import gc, sys
from itertools import islice
from pathlib import Path
from prediction.conftest import DiscBackend, DiscDetector
from luvli.prediction.batch_job import BatchJob
from luvli.prediction.input_files import Inputs
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.predictor import Predictor
job = BatchJob(Predictor(DiscBackend(), DiscDetector()), JobSettings(Path(sys.argv[2]), "csv"))
done = job.images(Inputs([sys.argv[1]]))
while len(list(islice(done, 250))) == 250:
    gc.collect()
    print(sys.getallocatedblocks())
"""


@pytest.mark.slow
def test_a_large_folder_streams(tmp_path: Path) -> None:
    """Memory grows neither with the folder nor with what is done."""
    write_image(tmp_path / "one.png", disc_image([(30, 30, 12)], (64, 64)))
    peak = {}
    for names in (500, 5000):
        folder = tmp_path / f"{names:04d}"
        folder.mkdir()
        for i in range(names):
            (folder / f"{i:06d}.png").symlink_to("../one.png")
        images, peak[names] = numbers_of(LISTING, folder)
        assert images == names
    assert peak[5000] < 1.2 * peak[500], peak
    for i in range(500, 1250):
        (tmp_path / f"0500/{i:06d}.png").symlink_to("../one.png")
    blocks = numbers_of(PREDICTING, tmp_path / "0500", tmp_path / "out")
    assert len(blocks) == 5
    # Python's memory blocks; an image's result takes more than ten
    assert blocks[-1] - blocks[0] < 1000


def numbers_of(script: str, *arguments: object) -> list[int]:
    """What a script prints. A process of its own: what other threads allocate meanwhile does not
    count."""
    root = Path(__file__).parents[1]
    places = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True, text=True, check=True, cwd=root,
        env=os.environ | {"PYTHONPATH": places},
    )  # fmt: skip
    return [int(word) for word in done.stdout.split()]


def test_patterns_files_and_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.jpg", "a/y.png", "b/x.jpg", "line\nbreak.png", "film.MP4", "odd[1].jpg"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    assert [i.name for i in Inputs(["*/x.jpg"])] in (["a/x.jpg", "b/x.jpg"], ["b/x.jpg", "a/x.jpg"])
    assert [i.path for i in Inputs(["odd[1].jpg"])] == ["odd[1].jpg"]  # a name, not a pattern
    inputs = Inputs(["."])
    assert sorted(i.name for i in inputs) == [
        "a/x.jpg", "a/y.png", "b/x.jpg", "line\nbreak.png", "odd[1].jpg"
    ]  # fmt: skip
    assert [v.path for v in inputs.videos] == ["./film.MP4"]
    (tmp_path / "empty").mkdir()
    for wrong in ("empty", "*.tiff"):
        with pytest.raises(InputError, match="holds no image or video"):
            Inputs([wrong])


# -- the command -----------------------------------------------------------------------------


def test_command_exit_codes(
    luvli: Command, tiny: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_image("plain.png", disc_image([]))
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8 not really")
    model = ("--model", tiny["onnx"])
    done = luvli("predict", "plain.png", *model)  # no face is no failure
    assert done.exit_code == 0, done.output
    assert (
        "predictions/faces.json" in done.output and faces_in(Path("predictions/faces.json")) == []
    )
    done = luvli("predict", "plain.png", "bad.jpg", "gone.jpg", *model)
    assert done.exit_code == 1
    assert "bad.jpg" in done.output and "gone.jpg does not exist" in done.output
    for arguments, message in (
        (("predict",), "nothing to look at"),
        (("predict", "plain.png", "--format", "xml", *model), "one of json, csv, parquet"),
        (("predict", "plain.png", "--model", "luvli-86"), "no model|unknown model"),
        (("predict", "plain.png", "--boxes", "none.csv", *model), "none.csv does not exist"),
        (("predict", "--camera", "77", *model), "camera 77 cannot be opened"),
    ):
        done = luvli(*arguments)
        assert done.exit_code == 2, done.output
        assert any(part in " ".join(done.output.split()) for part in message.split("|"))


def test_command_with_known_boxes_and_drawing(
    luvli: Command, tiny: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_image("a.png", disc_image([(100, 100, 40)]))
    Path("boxes.json").write_text('{"a.png": [[60, 60, 140, 140]]}')
    done = luvli(
        "predict", "a.png", "--model", tiny["onnx"], "--boxes", "boxes.json", "--draw",
        "--out", "o", "--coverage", "0.8",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (face,) = faces_in(Path("o/faces.json"))
    assert face["box"] == [60, 60, 140, 140] and face["score"] == 1.0
    assert names(Path("o")) == ["a-landmarks.png", "faces.json"]
