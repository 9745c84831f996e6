"""`luvli data`: list, check, show."""

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
    rows = face_points()
    for number in range(6):
        write_pair(tmp_path / "faces", f"face{number}", rows)
    signed = rows + 1
    signed[:6] *= -1
    signed[10:16] = -1
    write_raw_pts(tmp_path / "faces/face0.pts", signed)
    return tmp_path / "faces"


def test_list_names_every_set_of_table_1(luvli: Luvli) -> None:
    result = luvli("data", "list")
    assert result.exit_code == 0
    for name in SETS:
        assert name in result.output
    line = next(line for line in result.output.splitlines() if "MERL-RAV" in line)
    assert line.split() == ["merl_rav", "MERL-RAV", "15,449", "3,865", "68", "yes", "yes", "yes"]
    assert "AFLW-68" in result.output


def test_check_exit_codes(luvli: Luvli, folder: Path) -> None:
    whole = luvli("data", "check", "folder", folder, "--decode")
    assert whole.exit_code == 0, whole.output
    assert "6" in whole.output
    (folder / "face3.jpg").unlink()
    (folder / "face4.jpg").write_bytes(b"")
    broken = luvli("data", "check", "folder", folder)
    assert broken.exit_code == 1
    assert "face3.pts has no image" in broken.output
    assert "face4" not in broken.output  # only decoding tells
    thorough = luvli("data", "check", "folder", folder, "--decode")
    assert "face4.jpg is empty" in thorough.output
    nothing = luvli("data", "check", "w300", folder)
    assert nothing.exit_code == 2
    assert "it should hold lfpw/" in nothing.output
    unknown = luvli("data", "check", "w3000", folder)
    assert unknown.exit_code == 2
    assert "did you mean 'w300'" in unknown.output


def test_check_as_json(luvli: Luvli, folder: Path) -> None:
    (folder / "face3.jpg").unlink()
    result = luvli("data", "check", "folder", folder, "--json")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert report["complete"] is False
    assert report["rows"][0]["labels"] == 6
    assert report["rows"][0]["images"] == 5
    assert [problem["kind"] for problem in report["problems"]] == ["missing image"]


def test_show_draws_all_three_classes(
    luvli: Luvli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("luvli.cli.data.COLUMNS", 3)
    monkeypatch.setattr("luvli.cli.data.SIZE", 100)
    out = tmp_path / "sheet.png"
    result = luvli("data", "show", "folder", folder, "--out", out)
    assert result.exit_code == 0, result.output
    sheet = np.asarray(Image.open(out)).astype(int)
    assert sheet.shape == (2 * 122 + 6, 3 * 206 + 6, 3)  # two rows of three, with schematics
    red, green, blue = sheet[..., 0], sheet[..., 1], sheet[..., 2]

    def has(mask: np.ndarray, row: slice, column: slice) -> bool:
        return bool(mask[row, column].any())

    face, schematic = slice(6, 106), slice(106, 206)
    top = slice(6, 106)
    reds = (red == 235) & (green == 20) & (blue == 20)
    greens = (red == 0) & (green == 210) & (blue == 0)
    blacks = (red == 0) & (green == 0) & (blue == 0)
    assert has(reds, top, face)
    assert has(greens, top, face)
    assert has(blacks, top, schematic)
    second = slice(212, 412)
    assert not has(reds, top, second)  # the other faces hide nothing
    assert not has(blacks, top, slice(312, 412))


def test_show_without_pictures_and_with_augmentation(
    luvli: Luvli, folder: Path, tmp_path: Path
) -> None:
    for extra in (["--labels-only"], ["--augment", "B"]):
        out = tmp_path / f"{extra[0]}.png"
        result = luvli("data", "show", "folder", folder, "--out", out, "--faces", 2, *extra)
        assert result.exit_code == 0, result.output
        assert "2 of 6 faces" in result.output
        assert out.is_file()


def test_check_of_one_split(luvli: Luvli, tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_pair(tmp_path / split, f"{split}-face", face_points())
    result = luvli("data", "check", "folder/test", tmp_path, "--json")
    option = luvli("data", "check", "folder", tmp_path, "--split", "test", "--json")
    assert option.output == result.output
    (row,) = json.loads(result.output)["rows"]
    assert (row["split"], row["images"]) == ("test", 1)
    refused = luvli("data", "check", "folder/val", tmp_path)
    assert refused.exit_code == 2 and "unknown part of folder 'val'" in refused.output


def test_show_statistics(luvli: Luvli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "statistics.png"
    result = luvli("data", "show", "folder", folder, "--statistics", "--out", out)
    assert result.exit_code == 0 and "statistics of" in result.output, result.output
    assert np.asarray(Image.open(out)).std() > 10
    faces = load_set("folder", folder, images=False)
    turn = np.array([[0.0, -3.0], [3.0, 0.0]])
    turned = [r.with_changes(points=r.points @ turn.T + 40) for r in faces]
    np.testing.assert_allclose(mean_shape(turned), mean_shape(faces.records), atol=1e-9)
    schematic = get_markup("ibug68").schematic
    assert np.nanmax(np.abs(mean_shape(faces.records) - schematic)) < 0.1


@pytest.mark.filterwarnings("default::luvli.errors.LuvliWarning")
def test_show_leaves_out_damaged_faces_and_counts_them(
    luvli: Luvli, folder: Path, tmp_path: Path
) -> None:
    (folder / "face3.jpg").unlink()
    out = tmp_path / "sheet.png"
    accepted = luvli("data", "show", "folder", folder, "--out", out)
    assert accepted.exit_code == 0
    assert "1 problems skipped" in accepted.output
    assert out.is_file()


def test_check_says_what_was_confirmed_on_real_files(luvli: Luvli, tmp_path: Path) -> None:
    assert all(info.confirmed or name == "folder" for name, info in SETS.items())
    write_pair(tmp_path, "a", face_points())
    report = luvli("data", "check", "menpo", tmp_path)
    assert "confirmed on real files: nothing" in report.output and "6,653" in report.output


def test_export_writes_any_set_in_any_format(luvli: Luvli, folder: Path, tmp_path: Path) -> None:
    for name, out in (("coco", "a.json"), ("dlib", "a.xml"), ("star", "a.tsv"), ("pts", "labels")):
        done = luvli("data", "convert", folder, tmp_path / out, "--set", "folder", "--to", name)
        assert done.exit_code == 0, done.output
        assert "6 faces written" in done.output
    assert len(list((tmp_path / "labels").glob("*.pts"))) == 6
    back = luvli("data", "convert", tmp_path / "labels", tmp_path / "all.csv")
    assert back.exit_code == 0 and "6 faces written" in back.output
    again = luvli("data", "convert", tmp_path / "all.csv", tmp_path / "again", "--to", "labelme")
    assert again.exit_code == 0 and "self-occluded" in again.output
    assert len(list((tmp_path / "again").glob("*.json"))) == 6
    lost = luvli("data", "convert", folder, tmp_path / "b.tsv", "--set", "folder")
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
