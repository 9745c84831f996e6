"""Outputs appear whole or not at all; one run at a time writes to a folder."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from luvli.errors import InputError
from luvli.files import LOCK_NAME, folder_lock, sweep_temporaries, whole_file, write_text
from luvli.image.write import write_image


def test_a_failed_block_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("before")
    with pytest.raises(RuntimeError), whole_file(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_modes_follow_the_umask_and_never_change_it(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "x")
        assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    target = tmp_path / ("a" * 251 + ".txt")
    write_text(target, "x")
    assert target.read_text() == "x"


def test_files_of_dead_runs_are_swept_and_of_living_ones_kept(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    left = tmp_path / f".luvli-tmp-{int(dead.stdout)}-{'0' * 12}.png"
    mine = tmp_path / f".luvli-tmp-{os.getpid()}-{'1' * 12}.png"
    users = tmp_path / ".luvli-tmp-notes.txt"
    beside = left.with_name(f"{left.stem}-images.json")  # of a writer that needs two
    for path in (left, mine, users, beside):
        path.touch()
    assert sweep_temporaries(tmp_path) == 2
    assert not left.exists() and mine.exists() and users.exists()
    os.utime(mine, (0, 0))
    assert sweep_temporaries(tmp_path) == 1


HOLD = """
    import sys
    from luvli.files import folder_lock
    with folder_lock(sys.argv[1]):
        print("held", flush=True)
        sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_the_next_file_in_a_folder_takes_away_what_a_killed_run_left(tmp_path: Path) -> None:
    writes = "import sys, luvli.files\nwith luvli.files.whole_file(sys.argv[1]) as path:\n    "
    target = str(tmp_path / "x.ckpt")
    killed = [sys.executable, "-c", writes + "import os; os.kill(os.getpid(), 9)", target]
    assert subprocess.run(killed, check=False).returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    whole = [sys.executable, "-c", writes + "path.write_text('whole')", target]
    subprocess.run(whole, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x.ckpt"]


def test_a_second_run_is_refused_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), tmp_path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        told = pytest.raises(InputError, match=f"another run .process {child.pid}, since")
        with told, folder_lock(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()
    with folder_lock(tmp_path):  # a killed run does not keep it
        assert (tmp_path / LOCK_NAME).exists()
    with folder_lock(tmp_path / "a/b"), folder_lock(tmp_path / "c"):
        (tmp_path / "c/result").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]  # nothing was written to the other


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_a_full_disk_is_an_error_for_every_format(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import luvli.files

    def full(target: Path) -> Path:
        link = tmp_path / f"full{suffix}"
        link.symlink_to("/dev/full")
        return link

    monkeypatch.setattr(luvli.files, "_new_temporary", full)
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    with pytest.raises(InputError, match="could not be written"):
        write_image(tmp_path / f"a{suffix}", image)
    assert not (tmp_path / f"a{suffix}").exists()
