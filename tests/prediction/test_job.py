"""Jobs over many files: what is written, resumed, refused, interrupted, isolated."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import wait_until
from typer.testing import Result as CliResult

from luvli.data.formats import read_labels, read_pts
from luvli.errors import InputError
from luvli.files import LOCK_NAME, folder_lock
from luvli.image.box import Box
from luvli.image.known_boxes import WholeImage
from luvli.image.read import read_image
from luvli.image.write import write_image
from luvli.prediction.inputs import Input, Inputs
from luvli.prediction.job import PredictJob, Summary
from luvli.prediction.parts import WORK, JobSettings, Part, pack_rows, unpack_rows
from luvli.prediction.plan import FINISHED, OutputStems
from luvli.prediction.predictor import Predictor
from luvli.prediction.processes import InProcess, IsolatedWorker, Processes
from luvli.prediction.worker import PackedModel, part_rows

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
    """What a user sees, and the work folder; not the note and the lock that runs keep."""
    return sorted(path.name for path in folder.iterdir() if path.name not in (FINISHED, LOCK_NAME))


def faces_in(path: Path) -> list[dict[str, Any]]:
    faces: list[dict[str, Any]] = json.loads(path.read_text())["faces"]
    return faces


def run(
    predictor: Predictor, source: Any, out: Path, overwrite: bool = False, **settings: Any
) -> Summary:
    paths = source if isinstance(source, list) else [source]
    job = PredictJob(Inputs(paths, out), JobSettings(str(out), **settings), overwrite)
    return job.run(InProcess(predictor))


def contents(out: Path) -> dict[str, bytes]:
    """All files of a folder but the note."""
    files = (path for path in out.rglob("*") if path.is_file() and path.name != FINISHED)
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


# -- formats -----------------------------------------------------------------------------------


def test_folder_in_json(discs: Predictor, folder: Path, tmp_path: Path) -> None:
    summary = run(discs, folder, tmp_path / "out")
    counts = summary.counts
    assert (counts["images"], counts["faces"], counts["without_face"], counts["failed"]) == (
        6,
        6,
        2,
        1,
    )
    (sentence,) = summary.failed
    assert "broken.png is damaged or truncated" in sentence
    rows = faces_in(tmp_path / "out/faces.json")
    images = [Path(row["image"]).name for row in rows]
    assert images == ["p1.png", "p2.png", "p2.png", "p4.png", "p5.png", "p5.png"]
    np.testing.assert_allclose(rows[0]["points"], [81, 90] + 30 * SHAPE, atol=0.8)
    assert rows[0]["image_size"] == [320, 240]
    assert names(tmp_path / "out") == ["faces.json", "failed.txt"]
    assert "broken.png" in (tmp_path / "out/failed.txt").read_text()
    summary = run(discs, folder, tmp_path / "sure", min_confidence=0.01)
    assert (summary.counts["faces"], summary.counts["filtered"]) == (0, 6)  # it has no confidence


@pytest.mark.parametrize("format", ["json", "csv", "coco"])
def test_label_formats_read_back(
    format: str, discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    run(discs, folder, tmp_path / "out", format=format)
    suffix = "csv" if format == "csv" else "json"
    records = read_labels(tmp_path / f"out/faces.{suffix}", format)
    assert len(records) == 6
    np.testing.assert_allclose(records[0].points, [81, 90] + 30 * SHAPE, atol=0.8)
    images = [r.image.name for r in records if r.image]
    assert images == ["p1.png", "p2.png", "p2.png", "p4.png", "p5.png", "p5.png"]
    if format != "coco":
        assert records[0].covariance is not None
        assert records[0].visibility_probability == pytest.approx(0.95, abs=1e-6)
    else:
        listed = json.loads((tmp_path / "out/faces.json").read_text())["images"]
        assert len(listed) == 6 and (listed[0]["width"], listed[0]["height"]) == (320, 240)


@pytest.mark.parametrize("format", ["parquet", "parts"])
def test_parquet_accounts_for_every_image(
    format: str, discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.dataset

    run(discs, folder, tmp_path / "out", format=format, part_size=2)
    place = tmp_path / "out" / ("faces.parquet" if format == "parquet" else "")
    rows = pyarrow.dataset.dataset(
        place if format == "parquet" else sorted(map(str, place.glob("*.parquet")))
    ).to_table().to_pylist()  # fmt: skip
    kinds = [row["status"] for row in rows]
    assert [kinds.count(kind) for kind in ("face", "no face", "failed")] == [6, 2, 1]
    (failed,) = [row for row in rows if row["status"] == "failed"]
    assert failed["image"].endswith("broken.png") and "broken.png is damaged" in failed["error"]
    rows = [row for row in rows if row["status"] == "face"]
    points = np.reshape(rows[0]["points"], (68, 2))
    np.testing.assert_allclose(points, [81, 90] + 30 * SHAPE, atol=0.8)
    assert np.shape(rows[0]["covariance"]) == (272,) and rows[0]["frame"] is None
    assert (rows[0]["width"], rows[0]["height"]) == (320, 240)


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


def test_a_part_comes_back_from_its_file(discs: Predictor, folder: Path) -> None:
    items = [[str(folder / name), "", ""] for name in ("p2.png", "broken.png", "p0.png")]
    rows = part_rows(discs, JobSettings("out"), Part(0, "files", "", 3, items))
    assert unpack_rows(pack_rows(rows), "x") == rows
    with pytest.raises(InputError, match="x is damaged"):
        unpack_rows(pack_rows(rows)[:-9], "x")


@pytest.mark.parametrize(("tried", "faces"), [(True, 1), ("auto", 1), (False, 0)])
def test_images_on_their_head_are_found_where_that_is_asked_for(
    tried: Any, faces: int, discs: Predictor, tmp_path: Path
) -> None:
    class Upright(DiscDetector):
        """Finds the disc only where a blue mark stands above it."""

        def __call__(self, image: Any, name: str = "") -> list[Box]:
            mark = np.argwhere(image[:, :, 2] == 255)[:, 0].max()
            return [box for box in super().__call__(image, name) if mark < box.y0]

    image = disc_image([(100, 120, 30)])
    image[20:24, 98:102] = (0, 0, 255)
    write_image(tmp_path / "turned.png", np.ascontiguousarray(image[::-1, ::-1]))
    discs.detector = Upright()
    run(discs, tmp_path / "turned.png", tmp_path / "out", try_rotations=tried)
    found = faces_in(tmp_path / "out/faces.json")
    assert len(found) == faces
    for face in found:  # and in pixels of the image as it is: its chin is above its brows
        assert face["points"][8][1] < face["points"][19][1]
        np.testing.assert_allclose(np.mean(face["box"][::2]), 219, atol=1)


# -- what OUT holds ----------------------------------------------------------------------------


def test_output_names_never_collide() -> None:
    made = []
    stems = OutputStems()
    for i, name in enumerate(
        ["x.jpg", "x.jpg", "x.jpg", "x.png", "x~2.jpg", "v/000003.jpg", "v.mp4", "faces.mp4"]
    ):
        item = Input(f"/{i}/{name}", name)
        stem = stems.stem(item)
        made += [f"{stem}.pts", f"{stem}~2.pts", f"{stem}-landmarks", f"{stem}.json"]
        made += [f"{stem}-frames/000003.pts"] if item.kind == "video" else []
    assert len(set(made)) == len(made) and "faces.json" not in made


def test_results_of_another_run_are_not_replaced(discs: Predictor, tmp_path: Path) -> None:
    write_image(tmp_path / "a/x.png", disc_image([(100, 80, 30)]))
    write_image(tmp_path / "b/x.png", disc_image([(200, 80, 30)]))
    out = tmp_path / "out"
    run(discs, tmp_path / "a", out, draw=True)
    before = contents(out)
    run(discs, tmp_path / "a", out, draw=True)  # the same again is no harm
    assert contents(out) == before
    with pytest.raises(InputError, match="results of another run"):
        run(discs, tmp_path / "b", out)
    assert contents(out) == before
    run(discs, tmp_path / "b", out, overwrite=True)
    assert faces_in(out / "faces.json")[0]["image"].endswith("b/x.png")


def test_a_run_that_could_read_nothing_does_not_block_its_folder(
    discs: Predictor, tmp_path: Path
) -> None:
    write_image(tmp_path / "x.png", disc_image([(100, 80, 30)]))
    out = tmp_path / "out"
    assert run(discs, tmp_path / "y.png", out).failed
    assert names(out) == ["failed.txt"]
    done = run(discs, tmp_path / "x.png", out)
    assert done.counts["faces"] == 1 and not done.failed
    assert not (out / "failed.txt").exists()  # of the run before, which is replaced
    with pytest.raises(InputError, match="results of another run"):
        run(discs, tmp_path / "y.png", out)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("x-landmarks.png", {"draw": True}),
        ("x.pts", {"format": "pts"}),
        ("faces.json", {}),
        ("failed.txt", {}),
        ("part-7.parquet", {"format": "parts"}),
    ],
)
def test_files_of_others_are_not_replaced(
    name: str, settings: dict[str, Any], discs: Predictor, tmp_path: Path
) -> None:
    """OUT is the user's own folder, with a file called as one of ours would be."""
    write_image(tmp_path / "x.png", disc_image([(100, 80, 30), (220, 120, 40)]))
    (tmp_path / name).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"was there before|of somebody else"):
        run(discs, tmp_path / "x.png", tmp_path, **settings)
    assert contents(tmp_path) == before
    done = run(discs, tmp_path / "x.png", tmp_path, overwrite=True, **settings)
    assert done.counts["faces"] == 2 and not done.failed


def test_two_runs_at_once_are_kept_apart(discs: Predictor, tmp_path: Path) -> None:
    write_image(tmp_path / "x.png", disc_image([(100, 80, 30)]))
    with folder_lock(tmp_path / "out"), pytest.raises(InputError, match="another run"):
        run(discs, tmp_path / "x.png", tmp_path / "out")


# -- going on ----------------------------------------------------------------------------------


def stopped(discs: Predictor, folder: Path, out: Path, after: int, **settings: Any) -> None:
    """A run that is interrupted after some images."""

    def watch(items: Iterator[Any], *_: Any) -> Iterator[Any]:
        for number, item in enumerate(items):
            if number == after:
                raise KeyboardInterrupt
            yield item

    job = PredictJob(Inputs([folder], out), JobSettings(str(out), part_size=1, **settings))
    with pytest.raises(KeyboardInterrupt):
        job.run(InProcess(discs), watch)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["json", "csv", "coco", "pts", "parquet", "parts"])
def test_an_interrupted_run_goes_on_and_gives_the_same_bytes(
    format: str, discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    settings = {"format": format, "draw": format == "pts"}
    run(discs, folder, tmp_path / "whole", part_size=1, **settings)
    out = tmp_path / "out"
    stopped(discs, folder, out, 3, **settings)
    assert "faces.json" not in names(out)  # nothing that looks finished
    detector = DiscDetector()
    discs.detector = detector
    summary = run(discs, folder, out, part_size=1, **settings)
    assert summary.resumed in (3, 4) and detector.calls == 6 - summary.resumed + (
        summary.resumed > 0  # broken.png, which no detector sees, was done before
    )
    assert (summary.counts["images"], summary.counts["faces"], summary.counts["failed"]) == (
        6,
        6,
        1,
    )
    plain = {name: data for name, data in contents(out).items() if not name.startswith(WORK)}
    whole = contents(tmp_path / "whole")
    assert plain == {name: data for name, data in whole.items() if not name.startswith(WORK)}


def test_other_settings_or_inputs_do_not_mix_with_an_unfinished_run(
    discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    stopped(discs, folder, out, 3)
    with pytest.raises(InputError, match=r"unfinished run with other settings \(min_score\)"):
        run(discs, folder, out, min_score=0.9, part_size=1)
    write_image(folder / "p1.png", disc_image([(150, 90, 30)]))
    with pytest.raises(InputError, match="whose inputs have changed"):
        run(discs, folder, out, part_size=1)
    summary = run(discs, folder, out, overwrite=True, part_size=1)
    assert summary.resumed == 0
    x = np.mean(faces_in(out / "faces.json")[0]["points"], axis=0)[0]
    assert x == pytest.approx(150, abs=3)


def test_a_stop_at_any_write_is_resumed(
    discs: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before and after every file that appears."""
    for i in range(3):
        write_image(tmp_path / f"in/{i}.png", disc_image([(60 + 20 * i, 90, 30)]))
    replace = Path.replace
    stops = 0
    for number in range(16):
        out = tmp_path / f"out-{number}"
        left = number

        def counted(self: Path, target: Path) -> Path:
            nonlocal left
            left -= 1
            if left == -1:
                raise KeyboardInterrupt
            done = replace(self, target)
            if left == -2:
                raise KeyboardInterrupt
            return done

        for again in range(3):
            monkeypatch.setattr(Path, "replace", counted)
            try:
                summary = run(discs, tmp_path / "in", out, draw=True, part_size=1)
            except KeyboardInterrupt:
                stops += 1
                assert again < 2
                continue
            finally:
                monkeypatch.setattr(Path, "replace", replace)
            break
        assert not summary.failed
        assert all(read_image(out / f"{i}-landmarks.png").shape[2] == 3 for i in range(3))
        rows = faces_in(out / "faces.json")
        assert [Path(row["image"]).name for row in rows] == ["0.png", "1.png", "2.png"]
    assert stops >= 10


def test_full_disk_loses_nothing(tiny: dict[str, Path], folder: Path, tmp_path: Path) -> None:
    """A limit on file size stands for a full disk."""
    boxes = tmp_path / "boxes.csv"
    rows = "".join(f"p{i}.png,40,40,140,140\n" for i in range(6))
    boxes.write_text(f"image,x0,y0,x1,y1\n{rows}")
    command = [sys.executable, "-m", "luvli", "predict", str(folder), "--boxes", str(boxes)]
    command += ["--model", str(tiny["onnx"]), "--out", str(tmp_path / "out"), "--part-size", "2"]

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))

    own = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # modules would be cut off, too
    done = subprocess.run(
        command, preexec_fn=limit, capture_output=True, text=True, check=False, env=own
    )
    assert done.returncode == 2
    assert "could not be written" in done.stderr and "Traceback" not in done.stderr
    assert "run the same command again" in done.stderr
    assert names(tmp_path / "out") == [WORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr  # broken.png
    images = {Path(row["image"]).name for row in faces_in(tmp_path / "out/faces.json")}
    assert images == {f"p{i}.png" for i in range(6)}


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_and_again(
    sign: signal.Signals, code: int, tiny: dict[str, Path], tmp_path: Path
) -> None:
    count = 60  # large ones, so that there is time to stop in the middle
    write_image(tmp_path / "in/one.png", disc_image([], (1600, 1600)))
    for i in range(count - 1):
        os.link(tmp_path / "in/one.png", tmp_path / f"in/{i:04d}.png")
    (tmp_path / "boxes.json").write_text("{}")  # nothing to look for: quick
    command = [sys.executable, "-m", "luvli", "predict", str(tmp_path / "in"), "--part-size", "2"]
    command += ["--model", str(tiny["onnx"]), "--boxes", str(tmp_path / "boxes.json")]
    command += ["--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        # jobs in the background of a shell ignore Ctrl-C, and so would their children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    work = tmp_path / "out" / WORK
    wait_until(lambda: len(list(work.glob("part-*.npz"))) >= 5 or process.poll() is not None)
    process.send_signal(sign)
    _, errors = process.communicate()
    assert process.returncode == code, errors
    assert "give the same command again" in errors and "Traceback" not in errors
    assert names(tmp_path / "out") == [WORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "done by an earlier run" in done.stdout and f" {count} " in done.stdout
    assert names(tmp_path / "out") == ["faces.json"]


# -- processes ---------------------------------------------------------------------------------


class Deadly:
    """A detector that ends its process at some images, and hangs at others."""

    def __call__(self, image: Any, name: str = "") -> list[Box]:
        if "deadly" in name:
            os.kill(os.getpid(), signal.SIGKILL)
        if "endless" in name:
            time.sleep(1000)
        return WholeImage()(image, name)


def packed(tiny: dict[str, Path], detector: Any = None) -> PackedModel:
    return PackedModel(tiny["onnx"], tiny["onnx"].read_bytes(), detector=detector)


@pytest.mark.parametrize("format", ["json", "csv", "pts"])
def test_processes_write_the_same(
    format: str, tiny: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    results = []
    model = packed(tiny, WholeImage())
    for name, executor in (("one", InProcess(model.open())), ("many", Processes(model, 2))):
        settings = JobSettings(str(tmp_path / name), format, part_size=2)
        summary = PredictJob(Inputs([folder]), settings).run(executor)
        assert (summary.counts["images"], summary.counts["faces"], summary.counts["failed"]) == (
            6,
            6,
            1,
        )
        results.append(contents(tmp_path / name))
    assert results[0] == results[1]


@pytest.mark.parametrize("count", [1, 7])
def test_an_image_that_ends_its_process_costs_one_row(
    count: int, tiny: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    """However few images there are."""
    (folder / "p1-deadly.png").write_bytes((folder / "p1.png").read_bytes())
    sources = [folder if count == 7 else folder / "p1-deadly.png"]
    settings = JobSettings(str(tmp_path / "out"), part_size=4)
    summary = PredictJob(Inputs(sources), settings).run(Processes(packed(tiny, Deadly()), 2))
    assert (summary.counts["images"], summary.counts["failed"]) == (
        (6, 2) if count == 7 else (0, 1)
    )
    (death,) = [text for text in summary.failed if "ended the process" in text]
    assert "p1-deadly.png" in death and "SIGKILL" in death


def test_an_image_that_hangs_costs_one_row(
    tiny: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    (folder / "p1-endless.png").write_bytes((folder / "p1.png").read_bytes())
    items = [[str(folder / f"{name}.png"), "", ""] for name in ("p0", "p1-endless", "p2")]
    settings = JobSettings(str(tmp_path / "out"))
    worker = IsolatedWorker(packed(tiny, Deadly()), patience=15.0)
    try:
        worker.do(Part(0, "files", "", 3, items), settings)
    finally:
        worker.close()
    place = tmp_path / "out" / WORK / "part-0000000.npz"
    rows = unpack_rows(place.read_bytes(), "x")
    assert [bool(row.error) for row in rows] == [False, True, False]
    assert "p1-endless.png" in rows[1].error and "no answer in 15 seconds" in rows[1].error


def test_a_process_ends_with_its_parent(tiny: dict[str, Path]) -> None:
    code = f"""
import os, signal
from pathlib import Path
from luvli.prediction.processes import IsolatedWorker
from luvli.prediction.worker import PackedModel, describe
path = Path({str(tiny["onnx"])!r})
worker = IsolatedWorker(PackedModel(path, path.read_bytes()))
print(worker.ask(describe).name, worker.start().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(done.stdout.split()[1])

    def gone() -> bool:
        try:  # a zombie: nobody waits for it
            return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until(gone)


# -- inputs ------------------------------------------------------------------------------------


def test_patterns_files_and_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.jpg", "a/y.png", "b/x.jpg", "line\nbreak.png", "film.MP4", "odd[1].jpg"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    assert [i.name for i in Inputs(["*/x.jpg"])] == ["a/x.jpg", "b/x.jpg"]
    assert [i.path for i in Inputs(["odd[1].jpg"])] == ["odd[1].jpg"]  # a name, not a pattern
    kinds = {i.name: i.kind for i in Inputs(["."])}
    assert kinds.pop("film.MP4") == "video" and set(kinds.values()) == {"files"}
    assert sorted(kinds) == ["a/x.jpg", "a/y.png", "b/x.jpg", "line\nbreak.png", "odd[1].jpg"]
    (tmp_path / "a/again").symlink_to("../a")  # not followed
    for name in ("a/x.CR2", "a/y.cr2", "a/x-landmarks.png"):
        Path(name).touch()
    inputs = Inputs(["a"], out=".")  # drawings in OUT are no inputs
    assert [i.name for i in inputs] == ["x.jpg", "y.png"] and inputs.skipped == {".cr2": 2}
    (tmp_path / "empty").mkdir()
    for wrong in ("empty", "*.tiff"):
        with pytest.raises(InputError, match="holds no image or video"):
            list(Inputs([wrong]))


# -- Parquet files and tars --------------------------------------------------------------------


def tar_of(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as out:
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size = len(content)
            out.addfile(about, io.BytesIO(content))
    return path


def points_of(out: Path) -> list[Any]:
    return sorted(row["points"] for row in faces_in(out / "faces.json"))


def test_tars_are_read_in_pieces(discs: Predictor, folder: Path, tmp_path: Path) -> None:
    members = [(p.name, p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()]
    tar = tar_of(tmp_path / "shard.tar", [m for m in members if not m[0].startswith(".")])
    summary = run(discs, tar, tmp_path / "out", part_size=3)
    assert (summary.parts, summary.counts["images"], summary.counts["failed"]) == (3, 6, 1)
    run(discs, folder, tmp_path / "plain")
    assert points_of(tmp_path / "out") == points_of(tmp_path / "plain")
    assert f"{tar}#p1.png" in {row["image"] for row in faces_in(tmp_path / "out/faces.json")}


@pytest.mark.parametrize("kind", ["bytes", "paths", "both"])
def test_parquet_with_pictures_or_paths_carries_its_columns(
    kind: str, discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.dataset
    import pyarrow.parquet as pq

    files = sorted(p for p in folder.rglob("[!.]*.png"))
    keys = [p.relative_to(folder).as_posix() for p in files]
    images: list[Any] = {
        "bytes": [p.read_bytes() for p in files],
        "paths": [str(p) for p in files],
        "both": [{"bytes": p.read_bytes(), "path": p.name} for p in files],
    }[kind]
    table = pa.table({"image": images, "key": keys, "year": list(range(7)), "score": ["x"] * 7})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=4)
    out = tmp_path / "out"
    summary = run(discs, tmp_path / "in.parquet", out, format="parts", name_column="key")
    assert (summary.parts, summary.counts["images"], summary.counts["failed"]) == (2, 6, 1)
    rows = pyarrow.dataset.dataset(out, format="parquet", exclude_invalid_files=True)
    rows = rows.to_table().to_pylist()
    assert {row["image"]: row["year"] for row in rows} == dict(zip(keys, range(7), strict=True))
    assert {row["source_score"] for row in rows} == {"x"}
    run(discs, folder, tmp_path / "plain")
    points = sorted(np.reshape(row["points"], (-1, 2)).tolist() for row in rows if row["points"])
    assert points == points_of(tmp_path / "plain")


def test_bad_sources_are_one_sentence(discs: Predictor, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.parquet as pq

    def refused(pattern: str, *names: str, **settings: Any) -> None:
        with pytest.raises(InputError, match=pattern):
            run(discs, [str(tmp_path / name) for name in names], tmp_path / "out", **settings)
        assert not (tmp_path / "out").exists()

    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"image": [b"x"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"image": ["x"]}), tmp_path / "c.parquet")
    (tmp_path / "t.tar").write_bytes(b"x" * 2000)
    (tmp_path / "t.zip").write_bytes(b"x")
    refused("name the column of the images", "a.parquet")
    refused("has no column 'pic': it has image", "b.parquet", image_column="pic")
    refused("other columns than .*image: string", "b.parquet", "c.parquet")
    refused("t.tar is not a whole tar", "t.tar")
    refused("t.zip is packed", "t.zip")
    refused("need image files", "b.parquet", draw=True)


# -- memory ------------------------------------------------------------------------------------

PREDICTING = """
import gc, sys
from prediction.conftest import DiscBackend, DiscDetector
from luvli.prediction.inputs import Inputs
from luvli.prediction.processes import InProcess, Processes
from luvli.prediction.job import PredictJob
from luvli.prediction.predictor import Predictor
from luvli.prediction.parts import JobSettings
def watch(items, *_):
    for number, item in enumerate(items, 1):
        yield item
        if number % 250 == 0:
            gc.collect()
            print(sys.getallocatedblocks())
job = PredictJob(Inputs([sys.argv[1]]), JobSettings(sys.argv[2], "csv", part_size=50))
job.run(InProcess(Predictor(DiscBackend(), DiscDetector())), watch)
gc.collect()
print(sys.getallocatedblocks())
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_what_is_done(tmp_path: Path) -> None:
    write_image(tmp_path / "in/000000.png", disc_image([(30, 30, 12)], (64, 64)))
    for i in range(1, 1250):
        (tmp_path / f"in/{i:06d}.png").symlink_to("000000.png")
    blocks = numbers_of(PREDICTING, tmp_path / "in", tmp_path / "out")
    assert len(blocks) == 6
    # Python's memory blocks; an image's result takes more than ten
    assert blocks[-1] - blocks[0] < 2000


def numbers_of(script: str, *arguments: object) -> list[int]:
    """What a script prints. A process of its own: what other threads allocate does not count."""
    root = Path(__file__).parents[1]
    places = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True, text=True, check=True, cwd=root,
        env=os.environ | {"PYTHONPATH": places},
    )  # fmt: skip
    return [int(word) for word in done.stdout.split()]
