# ruff: noqa: E501  (bad files are clearer on one line)
"""Round trips through every format, and what each says when it cannot hold something."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image
from typer.testing import Result

from luvli.data import FaceRecord, Visibility
from luvli.data.convert import write_label_tree
from luvli.data.formats import (
    LABEL_FORMATS,
    guess_format,
    read_coco,
    read_json,
    read_labels,
    write_coco,
    write_csv,
    write_json,
    write_labels,
)
from luvli.errors import InputError, LossWarning


class Holds(NamedTuple):
    """What a format can hold of a face."""

    classes: tuple[int, ...] = (-1, 0, 1, 2)
    image: bool = True
    box: bool = False
    whole_pixels: bool = False
    count: int = 3
    empty: bool = True


FORMATS = {
    "pts": Holds((0, 1, 2), image=False, count=1, empty=False),
    "json": Holds(box=True),
    "csv": Holds(box=True),
    "coco": Holds(box=True),
    "coco-results": Holds((1,), image=False),
    "cvat": Holds(),
    "labelme": Holds((-1, 1, 2)),
    "spiga": Holds((1, 2), box=True),
    "dlib": Holds((-1, 1), box=True, whole_pixels=True),
    "hrnet": Holds((1,), box=True),
}


def record(rng: np.random.Generator, classes: tuple[int, ...], **fields: Any) -> FaceRecord:
    box = np.array([10.0, 20.0, 110.0, 120.0])
    fields = {"image": Path("folder/a_photo.jpg"), "box": box, "box_kind": "given", **fields}
    points = rng.uniform(1, 900, (68, 2)).round(3)
    return FaceRecord(points=points, visibility=rng.choice(classes, 68), **fields)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore::luvli.errors.LossWarning")
def test_labels_make_the_round_trip(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """What a format can hold comes back, and the file is known by its content."""
    holds = FORMATS[name]
    faces = [record(rng, holds.classes, face_id=f"{i + 1:04d}") for i in range(holds.count)]
    path = tmp_path / f"a{LABEL_FORMATS[name].suffix}"
    write_labels(path, faces, name)
    assert guess_format(path) == name
    again = read_labels(path)
    assert len(again) == holds.count
    for one, other in zip(faces, again, strict=True):
        wanted = one.points.round() if holds.whole_pixels else one.points
        np.testing.assert_array_equal(one.visibility, other.visibility)
        np.testing.assert_allclose(wanted, other.points, atol=1e-9)
        assert one.markup == other.markup and (one.image == other.image) == holds.image
        if holds.box:
            np.testing.assert_allclose(one.box, other.box)
    if holds.empty:
        write_labels(path, [], name)
        assert read_labels(path, name) == []


def test_lists_that_are_read_only(tmp_path: Path, rng: np.random.Generator) -> None:
    """WFLW's and STAR's as they stand; the COFW68 benchmark counts from 1 and flags occlusion."""
    points = rng.uniform(1, 900, (2, 98, 2)).round(3)
    lines = (" ".join(map(str, face.ravel())) for face in points)
    text = "".join(f"{line} {i}--Parade/a b.jpg\n" for i, line in enumerate(lines))
    (tmp_path / "a.txt").write_text(text)
    first, second = read_labels(tmp_path / "a.txt")
    np.testing.assert_array_equal([first.points, second.points], points)
    assert (first.markup, str(second.image)) == ("wflw98", "1--Parade/a b.jpg")
    row = ["b\\c.jpg", "1,2", ",".join(map(str, points[0].ravel())), "0.5", "60", "70"]
    for head in ("", "image_path\tlandmarks_5pts\tlandmarks\tscale\tcenter_w\tcenter_h\n"):
        (tmp_path / "a.tsv").write_text(head + "\t".join(row))
        (face,) = read_labels(tmp_path / "a.tsv")
        np.testing.assert_array_equal(face.points, points[0])
        assert (str(face.image), face.box.tolist()) == ("b/c.jpg", [10, 20, 110, 120])
    rows = [[7], *(points[0, :68].T + 1), [1, *[0] * 67]]
    (tmp_path / "b.txt").write_text("\n".join(" ".join(map(str, row)) for row in rows))
    (face,) = read_labels(tmp_path / "b.txt")
    np.testing.assert_allclose(face.points, points[0, :68])
    assert face.face_id == "0007" and face.visibility.tolist() == [2, *[1] * 67]
    with pytest.raises(InputError, match="to write 'wflw'"):
        write_labels(tmp_path / "c.txt", [face], "wflw")


@pytest.mark.parametrize("name", ["json", "csv"])
def test_our_formats_lose_nothing(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    covariance = np.tile([[2.0, 0.3], [0.3, 1.0]], (68, 1, 1)) * rng.uniform(1, 2, (68, 1, 1))
    covariance[3] = np.nan
    predicted = {
        "confidence": 0.9, "expected_error": 2.5, "accepted": True, "likelihood": "student-7",
        "frame": 3, "time": 0.12, "track": 7, "occlusion": rng.uniform(size=68).tolist(),
    }  # fmt: skip
    about = {"pose": "frontal", "blur": True, "note": 'a, "b"\nc', **predicted}
    labels = {"box_kind": "detector", "dataset": "w300", "face_id": "lfpw/image_0001", "score": 0.3}
    arrays = {"covariance": covariance, "visibility_probability": rng.uniform(size=68)}
    face = record(rng, (-1, 0, 1, 2), attributes=about, **labels, **arrays)
    bare = record(rng, (1,), box=None)
    path = tmp_path / f"a.{name}"
    write_labels(path, [face, bare], name)
    again, bare_again = read_labels(path)
    for field in ("points", "visibility", "box", *arrays):
        np.testing.assert_array_equal(getattr(again, field), getattr(face, field))
    for field in ("image", "attributes", "markup", *labels):
        assert getattr(again, field) == getattr(face, field)
    assert bare_again.covariance is bare_again.box is bare_again.score is None
    assert bare_again.attributes == {}
    if name == "csv":  # columns of their own, not hidden in one cell
        header = path.read_text().splitlines()[0].split(",")
        assert {*predicted} - {"occlusion"} | {"occlusion_67"} <= {*header}


@pytest.mark.parametrize(
    ("name", "predicted", "sentence"),
    [
        *((name, True, "cannot hold covariances") for name in ("coco", "cvat", "spiga", "hrnet")),
        ("labelme", False, "self-occluded landmarks"), ("dlib", False, "self-occluded landmarks"),
        ("spiga", False, "at 0, 0"), ("hrnet", False, "at 0, 0"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*whole pixels")
def test_what_a_format_cannot_hold_is_lost_aloud(
    name: str, predicted: bool, sentence: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    covariance = np.tile(np.eye(2), (68, 1, 1)) if predicted else None
    face = record(rng, (1,) if predicted else (0, 1), covariance=covariance)
    path = tmp_path / f"a{LABEL_FORMATS[name].suffix}"
    with pytest.warns(LossWarning, match=rf"a\.\w+: .*{sentence}"):
        write_labels(path, [face], name)
    if name == "cvat":
        assert 'source="auto"' in path.read_text()  # a person's would be "manual"
    if name == "labelme":
        (again,) = read_labels(path)
        assert (again.visibility[~face.visible] == Visibility.UNLABELLED).all()


def test_dlib_gets_whole_pixels_and_faces_of_one_size(tmp_path: Path) -> None:
    """dlib 20.0 on decimals: "string cast error: invalid string = '114.168'"."""
    hidden = np.ones(68, np.int8)
    hidden[60:] = 0  # a profile whose last parts are hidden has as many landmarks as the others
    points = np.arange(136.0).reshape(68, 2) + 0.25
    faces = [
        FaceRecord(points=points, visibility=classes, image=Path(f"{i}.jpg"))
        for i, classes in enumerate((np.ones(68, np.int8), hidden))
    ]
    path = tmp_path / "a.xml"
    with pytest.warns(LossWarning) as lost:
        write_labels(path, faces, "dlib")
    sentences = " ".join(str(warning.message) for warning in lost)
    assert "self-occluded landmarks; 8 are left out" in sentences
    assert "whole pixels only; places are rounded" in sentences
    values = re.findall(r'(?:x|y|left|top|width|height)="([^"]*)"', path.read_text())
    assert len(values) == 2 * (68 + 60) + 8 and all(re.fullmatch(r"-?\d+", v) for v in values)
    whole, part = read_labels(path)
    assert len(whole.points) == len(part.points) == 68
    assert part.labelled.sum() == 60 and not part.labelled[60:].any()


def test_coco_is_what_supervision_wants(tmp_path: Path, rng: np.random.Generator) -> None:
    """Sizes of images for `DetectionDataset.from_coco`, edges from 1 for its annotators."""
    supervision = pytest.importorskip("supervision")
    Image.new("RGB", (90, 60)).save(tmp_path / "a.png")
    there = record(rng, (1,), image=tmp_path / "a.png")
    path = tmp_path / "a.json"
    write_labels(path, [there, there.with_changes(image=Path("gone.png"))], "coco")
    assert json.loads(path.read_text())["images"] == [
        {"id": 1, "file_name": "a.png", "width": 90, "height": 60},
        {"id": 2, "file_name": "gone.png"},
    ]
    write_labels(path, [there], "coco")
    faces = supervision.DetectionDataset.from_coco(str(tmp_path), str(path))
    _, image, boxes = faces[0]
    assert faces.classes == ["face"] and image.shape == (60, 90, 3)
    np.testing.assert_allclose(boxes.xyxy, [there.box])
    edges = json.loads(path.read_text())["categories"][0]["skeleton"]
    drawn = supervision.EdgeAnnotator(edges=[tuple(edge) for edge in edges]).annotate(
        np.zeros((900, 900, 3), np.uint8), supervision.KeyPoints(xy=there.points[None])
    )
    assert drawn.any() and np.min(edges) == 1 and np.max(edges) == 68


@pytest.mark.parametrize("name", ["a\0b.jpg", "lone \ud800.jpg"])
def test_names_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    annotation: dict[str, Any] = {"id": 1, "image_id": 1, "keypoints": [1, 2, 2]}
    image = {"id": 1, "file_name": name}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"images": [image], "annotations": [annotation]}))
    with pytest.raises(InputError, match=r"a\.json, annotation 1: .* name of a file"):
        read_labels(path)
    # .pts files are called after the faces
    image["file_name"], annotation["face_id"] = "a.jpg", name
    path.write_text(json.dumps({"images": [image], "annotations": [annotation]}))
    with pytest.raises(InputError, match="name of a file"):
        write_label_tree(tmp_path / "out", read_labels(path), "pts")


def test_coco_flags_as_others_read_them(tmp_path: Path) -> None:
    face = FaceRecord(
        points=[[1, 2], [3, 4], [5, 6], [7, 8]],
        visibility=[1, 2, 0, -1],
        markup="mine4",
        image=Path("a.jpg"),
    )
    write_coco(tmp_path / "a.json", [face])
    data = json.loads((tmp_path / "a.json").read_text())
    (annotation,) = data["annotations"]
    assert annotation["keypoints"] == [1, 2, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0]
    assert annotation["num_keypoints"] == 2
    assert annotation["bbox"] == [1, 2, 2, 2]
    del annotation["visibility_class"]  # what a foreign file looks like
    (tmp_path / "b.json").write_text(json.dumps(data))
    assert read_coco(tmp_path / "b.json")[0].visibility.tolist() == [1, 2, -1, -1]


def test_corner_based_formats_are_shifted_by_half_a_pixel(tmp_path: Path) -> None:
    face = FaceRecord(points=[[0, 0]], visibility=[1], markup="mine1", image=Path("a.jpg"))
    write_labels(tmp_path / "a.json", [face], "labelme")
    assert json.loads((tmp_path / "a.json").read_text())["shapes"][0]["points"] == [[0.5, 0.5]]
    write_labels(tmp_path / "a.xml", [face])
    assert 'points="0.5,0.5"' in (tmp_path / "a.xml").read_text()


def test_cvat_points_shape_as_exported_by_the_tool(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        '<?xml version="1.0" encoding="utf-8"?><annotations><version>1.1</version>'
        '<meta><task><name>x</name></task></meta><image id="0" name="a.jpg" width="9" height="9">'
        '<points label="face" source="manual" occluded="1" points="1.50,2.50;3.50,4.00" z_order="0">'
        '<attribute name="who">me</attribute></points><box label="car" xtl="0" ytl="0" xbr="1" ybr="1"/>'
        "</image></annotations>"
    )
    (face,) = read_labels(tmp_path / "a.xml")
    np.testing.assert_allclose(face.points, [[1, 2], [3, 3.5]])
    assert face.visibility.tolist() == [2, 2] and face.image == Path("a.jpg")


def test_prediction_json_without_classes_reads_by_probability(tmp_path: Path) -> None:
    face = {"image": "a.jpg", "markup": "m2", "points": [[1, 2], [3, 4]], "visibility": [0.9, 0.1]}
    (tmp_path / "a.json").write_text(json.dumps({"faces": [face]}))
    (again,) = read_json(tmp_path / "a.json")
    assert again.visibility.tolist() == [1, 0]
    (tmp_path / "a.json").write_text(json.dumps({"faces": [face | {"visibility_trained": False}]}))
    assert read_json(tmp_path / "a.json")[0].visibility.tolist() == [1, 1]


def test_one_csv_holds_one_markup(tmp_path: Path) -> None:
    faces = [
        FaceRecord(points=np.zeros((k, 2)), visibility=np.ones(k), markup=f"m{k}") for k in (2, 3)
    ]
    with pytest.raises(InputError, match="m2, m3"):
        write_csv(tmp_path / "a.csv", faces)
    assert not list(tmp_path.iterdir())


BAD = {
    "a.json": ["", "[", "[]", "{}", '{"faces": 3}', '{"faces": [{"points": [[1]]}]}', "\x00", "nul",
               '{"faces": [{"points": [[1, 2]], "visibility_class": [1, 1]}]}',
               '{"faces": [{"points": [[1, 2]], "visibility_class": [7]}]}',
               '{"faces": [{"points": [null], "visibility_class": [1]}]}',
               '{"images": [], "annotations": [{"image_id": 3, "keypoints": [1, 2, 2]}]}',
               '{"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 1, "keypoints": [1]}]}',
               '{"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 1, "keypoints": [1, 2, 5]}]}',
               '{"shapes": [{"label": "a", "points": [[NaN, 1]]}]}',
               '{"shapes": [{"label": "a", "points": [[1, 1]]}, {"label": "a", "points": [[2, 1]]}]}'],
    "a.xml": ["", "<a", "<a/>", "<!DOCTYPE x><annotations/>",
              '<annotations><image name="a"><points points="1"/></image></annotations>',
              '<annotations><image name="a"><points points="1,x"/></image></annotations>',
              '<annotations><image name="a"><points points="nan,1"/></image></annotations>',
              f'<dataset><image file="a"><box><part name="{"9" * 5000}" x="1" y="2"/></box></image></dataset>'],
    "a.csv": ["", "a,b\n1,2\n", "x_0\n1\n", "x_0,y_0\n1,hello\n", "x_0,y_0,class_0\n1,2,9\n",
              "x_0,y_0,class_0\n,,1\n", "x_0,y_0,attributes\n1,2,[\n"],
    "a.pts": ["", "no braces", "version: 1\nn_points: 3\n{\n1 2\n}", "n_points: 1\n{\nnan 2\n}",
              "n_points: 1\n{\n1 2 3\n}", "n_points: x\n{\n1 2\n}", "{\n}", "{\na b\n}",
              "n_points: 2\n{\n-1 -1\n-1 -1\n}", "{\n1 2\n3\n}"],
    "a.txt": ["1e999\n1 2\n1 2\n0 0\n", "1\n1 2\n1\n0 0\n", "one\n1 2\n1 2\n0 0\n"],
}  # fmt: skip


@pytest.mark.parametrize(("file", "text"), [(f, t) for f, texts in BAD.items() for t in texts])
def test_bad_files_get_one_sentence_naming_the_file(file: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_labels(path)
    assert str(path) in str(error.value)


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="labelme"):
        read_labels(tmp_path / "a.json", "labelmee")
    with pytest.raises(InputError, match="suffix"):
        read_labels(tmp_path / "a.doc")
    with pytest.raises(InputError, match="csv"):
        write_labels(tmp_path / "a.doc", [])


def test_convert_command(
    luvli: Callable[..., Result], tmp_path: Path, rng: np.random.Generator
) -> None:
    classes = rng.choice([0, 1, 2], 98)
    face = FaceRecord(points=rng.uniform(0, 99, (98, 2)), visibility=classes, markup="wflw98")
    one, other = tmp_path / "a.json", tmp_path / "b.json"
    write_json(one, [face])
    result = luvli("data", "convert", one, other, "--to", "coco", "--markup", "ibug68")
    assert result.exit_code == 0, result.output
    (again,) = read_coco(other)
    assert again.markup == "ibug68"
    np.testing.assert_array_equal(again.points[:17], face.points[0:33:2])
    result = luvli("data", "convert", one, other, "--to", "labelme")
    assert result.exit_code == 0 and "self-occluded" in result.output
    one.write_text("[")
    result = luvli("data", "convert", one, tmp_path / "out.csv")
    assert result.exit_code == 2 and not (tmp_path / "out.csv").exists()
