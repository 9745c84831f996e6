"""Label files name images as they are seen from the file: written anywhere, read from anywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_trees import face_points, write_pair

from luvli.data.formats import read_labels, write_labels
from luvli.data.record import FaceRecord
from luvli.errors import LossWarning

FILES = {
    "json": "faces.json", "csv": "faces.csv", "coco": "faces.json", "spiga": "faces.json",
    "dlib": "faces.xml", "hrnet": "faces.csv", "star": "faces.tsv", "labelme": "labels",
}  # fmt: skip


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in range(3):
        write_pair(tmp_path / "data/photos", f"face{number}", face_points(seed=number))
    monkeypatch.chdir(tmp_path)
    return Path("data/photos")


@pytest.mark.parametrize("format", FILES)
def test_an_exported_set_is_a_set_again(
    luvli: Any, photos: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    out = Path("elsewhere/exported") / FILES[format]
    done = luvli("data", "convert", photos, out, "--set", "folder", "--to", format)
    assert done.exit_code == 0, done.output
    monkeypatch.chdir("elsewhere")  # what is found must not depend on where the command runs
    checked = luvli("data", "check", "folder", "exported", "--json")
    assert checked.exit_code == 0, checked.output
    (row,) = json.loads(checked.output)["rows"]
    assert row["labels"] == row["images"] == 3


def test_converted_files_take_their_images_along(luvli: Any, photos: Path) -> None:
    assert luvli("data", "convert", photos, "first/faces.json", "--to", "coco").exit_code == 0
    assert (
        luvli("data", "convert", "first/faces.json", "a/b/faces.xml", "--to", "dlib").exit_code == 0
    )
    text = Path("a/b/faces.xml").read_text()
    assert 'file="../../data/photos/face0.jpg"' in text  # dlib looks from the file's folder
    assert luvli("data", "check", "folder", "a").exit_code == 0


def test_names_without_an_image_are_left_alone(tmp_path: Path) -> None:
    record = FaceRecord(
        points=face_points(), visibility=np.ones(68, np.int8), image=Path("set/7.jpg")
    )
    write_labels(tmp_path / "a.json", [record])
    assert read_labels(tmp_path / "a.json")[0].image == Path("set/7.jpg")


def test_cvat_keeps_the_names_of_what_was_uploaded(photos: Path) -> None:
    record = FaceRecord(
        points=face_points(), visibility=np.ones(68, np.int8), image=photos / "face0.jpg"
    )
    write_labels("elsewhere/a.xml", [record], "cvat")
    assert 'name="data/photos/face0.jpg"' in Path("elsewhere/a.xml").read_text()
    write_labels(photos / "a.xml", [record], "cvat")
    assert 'name="face0.jpg"' in (photos / "a.xml").read_text()


def test_images_beside_a_label_file_are_drawn_with_its_report(
    luvli: Any, photos: Path, tmp_path: Path
) -> None:
    labels = photos / "labels.json"
    assert luvli("data", "convert", photos, labels, "--to", "coco").exit_code == 0
    labels.write_text(labels.read_text().replace("data/photos/", ""))  # as everybody names them
    scored = luvli("score", labels, "--truth", labels,
                   "--out", "report")  # fmt: skip
    assert scored.exit_code == 0, scored.output
    drawn = luvli("paper", "figure", "labels", "--predictions", "report/predictions.parquet",
                  "--out", "labels.png")  # fmt: skip
    assert drawn.exit_code == 0, drawn.output


def test_a_dlib_face_without_its_last_landmarks_is_one_of_its_file(tmp_path: Path) -> None:
    """A profile whose last parts are hidden has as many landmarks as the others."""
    hidden = np.ones(68, np.int8)
    hidden[60:] = 0
    records = [
        FaceRecord(points=face_points().round(), visibility=classes, image=Path(f"{i}.jpg"))
        for i, classes in enumerate((np.ones(68, np.int8), hidden))
    ]
    with pytest.warns(LossWarning, match="8 self-occluded landmarks are left out"):
        write_labels(tmp_path / "a.xml", records, "dlib")
    whole, part = read_labels(tmp_path / "a.xml")
    assert len(whole.points) == len(part.points) == 68
    assert part.labelled.sum() == 60 and not part.labelled[60:].any()


def test_losses_of_many_files_are_one_sentence(luvli: Any, tmp_path: Path) -> None:
    for number, hidden in enumerate((2, 5, 5)):
        points = face_points(seed=number)
        points[:hidden] = -1 - 1  # two negative numbers, -1 -1 in the file: hidden by the head
        write_pair(tmp_path / "faces", f"face{number}", points)
    done = luvli("data", "convert", tmp_path / "faces", tmp_path / "out", "--to", "labelme")
    assert done.exit_code == 0, done.output
    assert done.output.count("LabelMe cannot hold") == 1
    assert "(3 files): " in done.output and "12 self-occluded" in done.output


def test_dlib_gets_whole_pixels_which_alone_it_reads(tmp_path: Path) -> None:
    """dlib 20.0 on decimals: "string cast error: invalid string = '114.168'"."""
    record = FaceRecord(
        points=face_points() + 0.25, visibility=np.ones(68, np.int8), image=Path("a.jpg")
    )
    with pytest.warns(LossWarning, match="whole pixels only; places are rounded"):
        write_labels(tmp_path / "a.xml", [record], "dlib")
    values = re.findall(
        r'(?:x|y|left|top|width|height)="([^"]*)"', (tmp_path / "a.xml").read_text()
    )
    assert len(values) == 2 * 68 + 4 and all(re.fullmatch(r"-?\d+", value) for value in values)
