"""`luvli data`: list, check, show, convert."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data_trees import face_points, write_pair, write_raw_pts
from PIL import Image
from typer.testing import Result

from luvli.data.contact_sheet import mean_shape
from luvli.data.sets import SETS, load_set
from luvli.markup import get_markup

Luvli = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six faces, with signs for hidden landmarks."""
    for number in range(6):
        write_pair(tmp_path / "faces", f"face{number}", face_points())
    signed = face_points() + 1
    signed[:6] *= -1
    signed[10:16] = -1
    write_raw_pts(tmp_path / "faces/face0.pts", signed)
    return tmp_path / "faces"


def test_list_names_every_set_of_table_1(luvli: Luvli) -> None:
    result = luvli("data", "list")
    assert result.exit_code == 0
    assert all(name in result.output for name in (*SETS, "AFLW-68"))
    line = next(line for line in result.output.splitlines() if "MERL-RAV" in line)
    assert line.split() == ["merl_rav", "MERL-RAV", "15,449", "3,865", "68", "yes", "yes", "yes"]


def test_check_exit_codes(luvli: Luvli, folder: Path) -> None:
    whole = luvli("data", "check", "folder", folder, "--decode")
    assert whole.exit_code == 0 and "6" in whole.output, whole.output
    (folder / "face3.jpg").unlink()
    (folder / "face4.jpg").write_bytes(b"")
    broken = luvli("data", "check", "folder", folder)
    assert broken.exit_code == 1 and "face3.pts has no image" in broken.output
    assert "face4" not in broken.output  # only decoding tells
    assert "face4.jpg is empty" in luvli("data", "check", "folder", folder, "--decode").output
    report = json.loads(luvli("data", "check", "folder", folder, "--json").output)
    assert report["complete"] is False
    assert (report["rows"][0]["labels"], report["rows"][0]["images"]) == (6, 5)
    assert [problem["kind"] for problem in report["problems"]] == ["missing image"]
    assert luvli("data", "check", "folder/test", folder).exit_code == 2  # it has no such split
    for name, sentence in (("w300", "it should hold lfpw/"), ("w3000", "did you mean 'w300'"),
                           ("folder/val", "unknown part of folder 'val'")):  # fmt: skip
        refused = luvli("data", "check", name, folder)
        assert refused.exit_code == 2 and sentence in refused.output


def test_check_says_what_was_confirmed_on_real_files(luvli: Luvli, tmp_path: Path) -> None:
    assert all(info.confirmed or name == "folder" for name, info in SETS.items())
    write_pair(tmp_path, "a", face_points())
    report = luvli("data", "check", "menpo", tmp_path)
    assert "confirmed on real files: nothing" in report.output and "6,653" in report.output


def test_show_draws_all_three_classes(
    luvli: Luvli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("luvli.cli.data.COLUMNS", 3)
    monkeypatch.setattr("luvli.cli.data.SIZE", 100)
    out = tmp_path / "sheet.png"
    result = luvli("data", "show", "folder", folder, "--out", out)
    assert result.exit_code == 0, result.output
    sheet = np.asarray(Image.open(out))
    assert sheet.shape == (2 * 122 + 6, 3 * 206 + 6, 3)  # two rows of three, with schematics
    parts = {"face": slice(6, 106), "schematic": slice(106, 206), "second face": slice(212, 312),
             "second schematic": slice(312, 412)}  # fmt: skip
    colours = {"red": (235, 20, 20), "green": (0, 210, 0), "black": (0, 0, 0)}
    drawn = {
        (name, part)
        for name, colour in colours.items()
        for part, columns in parts.items()
        if (sheet[6:106, columns] == colour).all(axis=2).any()
    }
    assert {("red", "face"), ("green", "face"), ("black", "schematic")} <= drawn
    # the other faces hide nothing
    assert not drawn & {("red", "second face"), ("black", "second schematic")}


@pytest.mark.parametrize("extra", [["--labels-only"], ["--augment", "B"]])
def test_show_without_pictures_and_with_augmentation(
    luvli: Luvli, folder: Path, tmp_path: Path, extra: list[str]
) -> None:
    out = tmp_path / "sheet.png"
    result = luvli("data", "show", "folder", folder, "--out", out, "--faces", 2, *extra)
    assert result.exit_code == 0 and "2 of 6 faces" in result.output, result.output
    assert out.is_file()


def test_show_statistics(luvli: Luvli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "statistics.png"
    result = luvli("data", "show", "folder", folder, "--statistics", "--out", out)
    assert result.exit_code == 0 and "statistics of" in result.output, result.output
    assert np.asarray(Image.open(out)).std() > 10
    faces = load_set("folder", folder, images=False)
    turn = np.array([[0.0, -3.0], [3.0, 0.0]])
    turned = [r.with_changes(points=r.points @ turn.T + 40) for r in faces]
    np.testing.assert_allclose(mean_shape(turned), mean_shape(faces), atol=1e-9)
    schematic = get_markup("ibug68").schematic
    assert np.nanmax(np.abs(mean_shape(faces) - schematic)) < 0.1


def test_convert_writes_any_set_in_any_format(luvli: Luvli, folder: Path, tmp_path: Path) -> None:
    for name, out in (("coco", "a.json"), ("dlib", "a.xml"), ("hrnet", "a.csv"), ("pts", "labels")):
        done = luvli("data", "convert", folder, tmp_path / out, "--set", "folder", "--to", name)
        assert done.exit_code == 0 and "6 faces written" in done.output, done.output
    assert len(list((tmp_path / "labels").glob("*.pts"))) == 6
    back = luvli("data", "convert", tmp_path / "labels", tmp_path / "all.csv")
    assert back.exit_code == 0 and "6 faces written" in back.output
    again = luvli("data", "convert", tmp_path / "all.csv", tmp_path / "again", "--to", "labelme")
    assert again.exit_code == 0 and "self-occluded" in again.output
    assert len(list((tmp_path / "again").glob("*.json"))) == 6
    hrnet = tmp_path / "b.csv"
    lost = luvli("data", "convert", folder, hrnet, "--set", "folder", "--to", "hrnet")
    assert "this list cannot hold externally occluded landmarks; 6 are" in lost.output


def test_losses_of_many_files_are_one_sentence(luvli: Luvli, tmp_path: Path) -> None:
    for number, hidden in enumerate((2, 5, 5)):
        rows = face_points(seed=number) + 1
        rows[:hidden] = -1
        write_pair(tmp_path / "faces", f"face{number}", rows - 1)
    done = luvli("data", "convert", tmp_path / "faces", tmp_path / "out", "--to", "labelme")
    assert done.exit_code == 0, done.output
    assert done.output.count("LabelMe cannot hold") == 1
    assert "(3 files): " in done.output and "some are left out" in done.output
