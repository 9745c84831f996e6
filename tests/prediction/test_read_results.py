"""`luvli.read` gives back what the files hold; the JSON Schema accepts them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luvli
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image.write import write_image
from luvli.prediction.predictor import Predictor
from luvli.prediction.rows import Row, rounded
from luvli.prediction.settings import SUFFIXES
from luvli.prediction.writers import write_pts_files, write_results

from .conftest import disc_image
from .jobs import run

ROOT = Path(__file__).parents[2]
RICH = ("json", "csv", "parquet")
"""formats that hold everything"""


@pytest.fixture
def rows(discs: Predictor) -> list[Row]:
    """Two frames with a face each and one without."""
    faces = discs.predict(disc_image([(100, 90, 30)]))
    n, k = faces.visibility.shape
    rng = np.random.default_rng(0)

    def frame(number: int) -> Faces:
        return rounded(
            replace(
                faces,
                visibility=rng.uniform(size=(n, k)),
                occlusion=rng.uniform(size=(n, k)),
                occlusion_trained=True,
                confidence=np.array([0.25 + number / 8]),
                eyes_closed=np.array([0.5 - number / 8]),
                expected_error=np.array([2.5]),
                accepted=np.array([number == 0]),
                track=np.array([number + 3]),
                time=np.array([number / 4]),
                likelihood="student-8",
            )
        )

    return [Row("v.mp4", frame(i), "", (320, 240), i, i / 4) for i in (0, 1)] + [
        Row("v.mp4", faces[:0], "", (320, 240), 2, 0.5)
    ]


@pytest.mark.parametrize("format", SUFFIXES)
def test_everything_that_a_file_holds_comes_back(
    format: str, rows: list[Row], tmp_path: Path
) -> None:
    path = tmp_path / f"f{SUFFIXES[format]}"
    write_results(path, rows, format)
    back = luvli.read(path)
    wanted = Faces.concatenate([row.faces for row in rows])
    assert back.image is not None and back.image.tolist() == ["v.mp4", "v.mp4"]
    assert back.image_size is not None and back.image_size.tolist() == [[320, 240]] * 2
    assert back.frame is not None and back.frame.tolist() == [0, 1]
    names = [
        "points",
        "boxes",
        "scores",
        "confidence",
        "expected_error",
        "eyes_closed",
        "accepted",
        "track",
        "time",
    ]
    names += ["time", "covariance", "visibility", "occlusion"] if format in RICH else ["time"]
    for name in names:
        np.testing.assert_allclose(getattr(back, name), getattr(wanted, name), atol=1e-9)
    assert back.likelihood == "student-8" and back.markup == "ibug68"
    if format == "coco":
        assert not back.covariance_trained
        np.testing.assert_array_equal(back.visibility, wanted.visibility > 0.5)


@pytest.mark.parametrize("format", SUFFIXES)
def test_measures_are_in_every_file(format: str, rows: list[Row], tmp_path: Path) -> None:
    path = tmp_path / f"f{SUFFIXES[format]}"
    write_results(path, [rows[2], *rows], format, measures=True)  # the first has no face
    if format == "parquet":
        table = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow").read_table(path)
        cells = [row for row in table.to_pylist() if row["status"] == "face"]
    elif format == "csv":
        cells = list(csv.DictReader(path.read_text().splitlines()))
    else:
        content = json.loads(path.read_text())
        faces = content["faces"] if format == "json" else content["annotations"]
        measured = [face.get("attributes", face)["measures"] for face in faces]
        cells = [{name: each["value"] for name, each in one.items()} for one in measured]
        for cell, one in zip(cells, measured, strict=True):
            cell |= {f"{name}_std": each["std"] for name, each in one.items()}
    assert len(cells) == 2
    for row, cell in zip(rows, cells, strict=False):
        for name, measure in row.faces.measures.items():
            got = float(cell[name]), float(cell[f"{name}_std"])
            np.testing.assert_allclose(got, (measure.value[0], measure.std[0]), atol=1e-5)
    assert len(luvli.read(path)) == 2


@pytest.mark.filterwarnings("ignore")
def test_supervision_reads_our_coco(discs: Predictor, tmp_path: Path) -> None:
    """The tool itself, on the results of a job."""
    supervision: Any = pytest.importorskip("supervision", reason="needs supervision")
    write_image(tmp_path / "in/a.png", disc_image([(100, 90, 30), (220, 130, 40)]))
    write_image(tmp_path / "in/none.png", disc_image([]))
    run(discs, tmp_path / "in", tmp_path / "out", format="coco")
    data = supervision.DetectionDataset.from_coco(
        str(tmp_path / "in"), str(tmp_path / "out/faces.json")
    )
    assert data.classes == ["face"] and len(data) == 2
    boxes = {Path(path).name: detections.xyxy for path, _, detections in data}
    assert len(boxes["none.png"]) == 0
    wanted = luvli.read(tmp_path / "out/faces.json").boxes
    np.testing.assert_allclose(np.sort(boxes["a.png"], 0), np.sort(wanted, 0), atol=0.01)


def test_folders_of_parts_and_single_points(rows: list[Row], tmp_path: Path) -> None:
    for number, row in enumerate(rows):
        write_results(tmp_path / f"parts/part-{number}.parquet", [row], "parquet")
    assert len(luvli.read(tmp_path / "parts")) == 2
    write_pts_files(tmp_path / "a", rows[0].faces)
    face = luvli.read(tmp_path / "a.pts")
    visible = rows[0].faces.visible()
    np.testing.assert_allclose(face.points[visible], rows[0].faces.points[visible], atol=1e-6)


@pytest.mark.parametrize("content", ["[]", '{"faces": 3}', '{"faces": [{"points": "x"}]}', "{"])
def test_other_files_are_one_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError, match=r"a\.json"):
        luvli.read(tmp_path / "a.json")
    with pytest.raises(InputError, match="is no result file"):
        luvli.read(tmp_path / "a.jpg")


def test_result_files_follow_the_schema(rows: list[Row], tmp_path: Path) -> None:
    jsonschema: Any = pytest.importorskip("jsonschema", reason="needs jsonschema")
    schema = json.loads((ROOT / "docs/faces.schema.json").read_text())
    check = jsonschema.Draft202012Validator(schema)
    failed = [Row("bad.jpg", rows[0].faces[:0], "bad.jpg is damaged."), Row("b", rows[0].faces[:0])]
    write_results(tmp_path / "f.json", [*rows, *failed], "json", measures=True)
    content = json.loads((tmp_path / "f.json").read_text())
    check.validate(content)
    assert content["failed"] == ["bad.jpg is damaged."] and content["without_face"] == ["b"]
    for key, value in (("points", [[1, 2, 3]]), ("confidence", 1.5), ("nose", 1)):
        wrong = json.loads(json.dumps(content))
        wrong["faces"][0][key] = value
        assert list(check.iter_errors(wrong)), key


def test_a_bad_image_of_a_batch_is_returned(discs: Predictor, tmp_path: Path) -> None:
    good = disc_image([(100, 90, 30)])
    results = discs.predict_batch([good, tmp_path / "none.jpg", good], errors="return")
    assert [len(r) if isinstance(r, Faces) else str(r) for r in results] == [
        1, f"{tmp_path / 'none.jpg'} does not exist: check the path.", 1
    ]  # fmt: skip
    with pytest.raises(InputError, match="does not exist"):
        discs.predict_batch([good, tmp_path / "none.jpg"])
    with pytest.raises(InputError, match="one of raise, return"):
        discs.predict_batch([good], errors="ignore")  # type: ignore[call-overload]
    with pytest.raises(InputError, match="gives no confidence"):
        discs.predict(good, min_confidence=0.5)


def test_faces_without_confidence_are_left_out(shipped: Predictor, astronaut: Any) -> None:
    (face,) = shipped.predict(astronaut)
    assert face.confidence is not None
    assert len(shipped.predict(astronaut, min_confidence=face.confidence - 1e-6)) == 1
    assert len(shipped.predict(astronaut, min_confidence=min(1, face.confidence + 1e-6))) == 0
