"""One bad file among many: it is named and counted, the rest is done, now and at every repeat."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from patience import SECONDS
from prediction.conftest import DiscBackend, DiscDetector, disc_image, write_video
from typer.testing import Result as CliResult

from luvli.data.formats import read_csv
from luvli.errors import InputError
from luvli.image.write import write_image
from luvli.prediction.executors import InProcess
from luvli.prediction.inputs import Inputs
from luvli.prediction.job import PredictJob, Summary
from luvli.prediction.predictor import Predictor
from luvli.prediction.settings import WORK, JobSettings

Command = Callable[..., CliResult]

NAMES = [
    b"plain.png",
    b"cr\rreturn.png",
    b"line\nbreak.png",
    b"latin-\xe9\xff.png",
    b"=HYPERLINK(1).png",
    b"@sum.png",
    b" blank.png",
    b"[red]brackets[bold].png",
    b"escape\x1b[31m.png",
    "strich\u2028.png".encode(),
    b"x" * 236 + b".png",
    b"y" * 251 + b".png",
    b"y" * 250 + b"z.png",
]


@pytest.fixture
def discs() -> Predictor:
    return Predictor(DiscBackend(), DiscDetector())


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """One image under every legal name that ever did harm, a broken one and a pipe."""
    folder = tmp_path / "in"
    write_image(folder / "plain.png", disc_image([(100, 90, 30)]))
    content = (folder / "plain.png").read_bytes()
    for name in NAMES:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(content)
    Path(os.fsdecode(os.fsencode(folder) + b"/broken\xff.png")).write_bytes(content[:60])
    os.mkfifo(folder / "pipe.jpg")
    return folder


def run(predictor: Predictor, source: Any, out: Path, **settings: Any) -> Summary:
    paths = source if isinstance(source, list) else [source]
    job = PredictJob(Inputs(paths, out), JobSettings(str(out), **settings))
    return job.run(InProcess(predictor))


def in_time(work: Callable[[], Any]) -> Any:
    """The answer of something that might wait for ever."""
    answer: list[Any] = []
    thread = threading.Thread(target=lambda: answer.append(work()), daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert answer, f"no answer after {SECONDS} seconds"
    return answer[0]


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "coco", "pts"])
def test_every_legal_name_is_done(
    discs: Predictor, named: Path, tmp_path: Path, format: str
) -> None:
    out = tmp_path / "out"
    summary = in_time(lambda: run(discs, named, out, format=format, draw=True))
    assert summary.counts["images"] == summary.counts["faces"] == len(NAMES)
    assert sorted("damaged" in s or "pipe or a device" in s for s in summary.failed) == [True, True]
    assert len(list(out.glob("*-landmarks.png"))) == len(NAMES)
    told = (out / "failed.txt").read_text(encoding="utf-8").splitlines()
    assert len(told) == 2 and any("broken\\udcff.png" in line for line in told)
    paths = {os.fsdecode(os.fsencode(named) + b"/" + name) for name in NAMES}
    if format == "json":
        assert {
            face["image"] for face in json.loads((out / "faces.json").read_text())["faces"]
        } == paths
    if format == "csv":
        plain = {path for path in paths if path.isascii() or "\u2028" in path}
        assert plain <= {str(record.image) for record in read_csv(out / "faces.csv")}
    if format == "pts":
        assert len(list(out.glob("*.pts"))) == len(NAMES)


def test_cells_of_a_table_are_no_formulas(
    discs: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # names then stand alone in their cells
    names = ["=1+1.png", "+1.png", "-1.png", "@a.png", "'=b.png", "plain.png", "=none.png"]
    for name in names:
        write_image(name, disc_image([] if "none" in name else [(100, 90, 30)]))
    run(discs, names, Path("out"), format="csv")
    with Path("out/faces.csv").open(newline="") as stream:
        cells = [row["image"] for row in csv.DictReader(stream)]
    assert len(cells) == len(names) and not any(cell[0] in "=+-@'" for cell in cells)
    assert {str(r.image) for r in read_csv("out/faces.csv")} == set(names) - {"=none.png"}


def test_the_command_prints_every_name(named: Path, tiny: dict[str, Path], tmp_path: Path) -> None:
    """A real terminal's streams refuse lone surrogates; control characters must not reach it."""
    (named / "plain.png").unlink()  # few enough for a table with a line for each
    boxes = tmp_path / "boxes.json"
    boxes.write_text(json.dumps({os.fsdecode(name): [[60, 60, 140, 140]] for name in NAMES}))
    command = [sys.executable, "-m", "luvli", "predict", str(named), "--boxes", str(boxes)]
    command += ["--model", str(tiny["onnx"]), "--out", str(tmp_path / "out")]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 1 and b"Traceback" not in done.stderr
    assert b"\x1b[31m" not in done.stdout + done.stderr and b"[red]brackets[bold]" in done.stdout


@pytest.mark.parametrize("row", ["60,60,140,140,inf", "60,60,1e200,1e200,0.9", "5,5,5,9,1"])
def test_a_box_that_is_none_is_refused_before_the_work_begins(
    row: str, luvli: Command, tiny: dict[str, Path], tmp_path: Path
) -> None:
    write_image(tmp_path / "in/a.png", disc_image([(100, 90, 30)]))
    boxes = tmp_path / "boxes.csv"
    boxes.write_text(f"image,x0,y0,x1,y1,score\nb.png,60,60,140,140,0.9\na.png,{row}\n")
    model = ("--model", tiny["onnx"], "--boxes", boxes)
    done = luvli("predict", tmp_path / "in", "--out", tmp_path / "out", *model)
    assert done.exit_code == 2 and "the box of a.png" in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


def test_a_folder_that_may_not_be_entered(
    discs: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_image(tmp_path / "in/a.png", disc_image([(100, 90, 30)]))
    write_image(tmp_path / "in/locked/b.png", disc_image([(100, 90, 30)]))
    scandir = os.scandir

    def refusing(path: str) -> Any:  # file modes do not keep out who runs as root
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    for _ in range(2):
        summary = run(discs, tmp_path / "in", tmp_path / "out")
        assert summary.counts["images"] == 1
        (sentence,) = summary.failed
        assert "locked cannot be listed (Permission denied)" in sentence


def test_devices_that_a_table_names_are_not_opened(discs: Predictor, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs PyArrow")
    arrow = pytest.importorskip("pyarrow")
    write_image(tmp_path / "a.png", disc_image([(100, 90, 30)]))
    os.mkfifo(tmp_path / "pipe")
    paths = ["/dev/zero", str(tmp_path / "pipe"), str(tmp_path / "a.png")]
    parquet.write_table(arrow.table({"image": paths}), tmp_path / "t.parquet")
    summary = in_time(lambda: run(discs, tmp_path / "t.parquet", tmp_path / "out"))
    assert summary.counts["images"] == 1
    assert ["pipe or a device" in sentence for sentence in summary.failed] == [True, True]


# -- videos ------------------------------------------------------------------------------------


def clip(count: int = 12) -> Any:
    return ((i / 30, disc_image([(80.0 + i, 90, 30)])) for i in range(count))


def test_colons_in_names_are_no_protocols(
    discs: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FFmpeg takes what stands before one for the kind of a URL. Equal runs draw equal bytes: no
    Matroska file gets a random number."""
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "v.mkv", clip()).rename("10:30.mkv")
    drawn = []
    for out in (Path("a:b"), Path("c:d")):
        summary = run(discs, "10:30.mkv", out, draw=True)
        assert not summary.failed and summary.counts["frames"] == 12
        drawn.append((out / "10:30-landmarks.mkv").read_bytes())
    assert drawn[0] == drawn[1]


def test_a_script_in_place_of_a_video_reads_no_neighbour(discs: Predictor, tmp_path: Path) -> None:
    write_video(tmp_path / "secret.mp4", clip())
    (tmp_path / "v.mkv").write_text("ffconcat version 1.0\nfile secret.mp4\n")
    summary = run(discs, tmp_path / "v.mkv", tmp_path / "out")
    (sentence,) = summary.failed
    assert "v.mkv is not a readable video" in sentence and not summary.counts["frames"]


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi"])
def test_titles_that_are_not_utf8(discs: Predictor, tmp_path: Path, suffix: str) -> None:
    av = pytest.importorskip("av", reason="needs PyAV")
    path = tmp_path / f"film{suffix}"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        out.metadata["title"] = stream.metadata["title"] = "cafXQe"
        for _, image in clip():
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        out.mux(stream.encode(None))
    content = path.read_bytes()
    assert b"cafXQe" in content
    path.write_bytes(content.replace(b"cafXQe", b"caf\xe9\xffe"))
    summary = run(discs, path, tmp_path / "out", draw=True)
    assert not summary.failed and summary.counts["frames"] == 12


def test_damaged_sound_does_not_cost_the_frames(discs: Predictor, tmp_path: Path) -> None:
    """The description of the sound track is overwritten: seeds that once stopped the run."""
    source = write_video(tmp_path / "whole.mp4", clip(30), sound=True).read_bytes()
    track = source.rindex(b"trak")
    lost = 0
    for seed in range(14):
        rng, content = random.Random(seed), bytearray(source)
        for _ in range(3):
            content[track + rng.randrange(len(content) - track)] = rng.randrange(256)
        path = tmp_path / f"{seed}.mp4"
        path.write_bytes(content)
        summary = run(discs, path, tmp_path / f"out-{seed}", draw=True)
        sound = [s for s in summary.failed if "has sound that could not be copied" in s]
        lost += len(sound)
        if sound:
            assert (
                summary.counts["frames"] == 30
                and len(list((tmp_path / f"out-{seed}").glob("*.mp4"))) == 1
            )
    assert lost


@pytest.mark.parametrize("name", ["v.csv", "v-landmarks.mp4"])
def test_videos_do_not_replace_files_of_others(name: str, discs: Predictor, tmp_path: Path) -> None:
    source = write_video(tmp_path / "v.mp4", clip())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(InputError, match="was there before"):
        run(discs, source, tmp_path / "out", format="csv", draw=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]
    assert (tmp_path / "out" / name).read_text() == "mine"


# -- interruptions -------------------------------------------------------------------------


def test_an_output_folder_that_is_removed_meanwhile(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_image(tmp_path / f"in/{name}.png", disc_image([(100, 90, 30)]))

    def removing(image: Any, name: str = "") -> Any:
        shutil.rmtree(tmp_path / "out")
        return DiscDetector()(image, name)

    with pytest.raises(InputError, match="removed, or may it not be written to"):
        run(Predictor(DiscBackend(), removing), tmp_path / "in", tmp_path / "out", part_size=1)


@pytest.mark.parametrize(("draw", "limits"), [(False, [3000]), (True, [100, 20_000])])
def test_a_video_on_a_full_disk(tmp_path: Path, draw: bool, limits: list[int]) -> None:
    """A limit on file size stands for a full disk; the same command then goes on."""
    write_video(tmp_path / "v.mp4", clip(40))
    script = f"""
import signal, resource, sys
from pathlib import Path
from prediction.conftest import DiscBackend, DiscDetector
from luvli.errors import OutputError
from luvli.prediction.inputs import Inputs
from luvli.prediction.executors import InProcess
from luvli.prediction.job import PredictJob
from luvli.prediction.predictor import Predictor
from luvli.prediction.settings import JobSettings
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
try:
    job = PredictJob(Inputs([{str(tmp_path / "v.mp4")!r}]),
                     JobSettings({str(tmp_path / "out")!r}, draw={draw}))
    job.run(InProcess(Predictor(DiscBackend(), DiscDetector())))
except OutputError as error:
    sys.exit(str(error))
"""
    root = Path(__file__).parents[1]
    places = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    for limit in limits:
        done = subprocess.run(
            [sys.executable, "-c", script, str(limit)],
            capture_output=True, text=True, check=False, cwd=root,
            # Python would cut its compiled modules off, too
            env=os.environ | {"PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        assert done.returncode == 1 and "could not be written" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
        assert {p.name for p in (tmp_path / "out").glob("*")} <= {WORK}
    summary = run(
        Predictor(DiscBackend(), DiscDetector()), tmp_path / "v.mp4", tmp_path / "out", draw=draw
    )
    assert not summary.failed and summary.counts["frames"] == 40
