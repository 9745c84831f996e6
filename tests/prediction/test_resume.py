"""Jobs that are interrupted go on and give the same bytes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from patience import wait_until

from luvli.errors import InputError
from luvli.image.read import read_image
from luvli.image.write import write_image
from luvli.prediction.job_folder import STATE
from luvli.prediction.predictor import Predictor
from luvli.prediction.settings import WORK

from .conftest import DiscDetector, disc_image
from .jobs import contents, faces_in, names, run, stopped, tally


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
    assert tally(summary) == (6, 6, 1)
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


def test_parts_without_their_plan_belong_to_nobody(
    discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    """A job that was killed while it removed its folder may leave any of its files there."""
    out = tmp_path / "out"
    stopped(discs, folder, out, 3)
    (out / WORK / STATE).unlink()
    write_image(folder / "p1.png", disc_image([(150, 90, 30)]))
    assert run(discs, folder, out, part_size=1).resumed == 0
    x = np.mean(faces_in(out / "faces.json")[0]["points"], axis=0)[0]
    assert x == pytest.approx(150, abs=3)


def test_a_damaged_state_is_that_of_another_run(
    discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    stopped(discs, folder, out, 3)
    (out / WORK / STATE).write_bytes(b'{"state": ')
    with pytest.raises(InputError, match="holds the results of another run"):
        run(discs, folder, out, part_size=1)
    assert run(discs, folder, out, overwrite=True, part_size=1).resumed == 0


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
