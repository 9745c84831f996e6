"""A model run over a labelled set: `luvli evaluate`, `table --model`, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from luvli.data.formats import write_pts
from luvli.data.record import FaceRecord
from luvli.data.sets import get_set
from luvli.errors import InputError
from luvli.evaluation import evaluate_model
from luvli.evaluation.accuracy import nme
from luvli.evaluation.evaluate_model import evaluate_set, predict_records
from luvli.evaluation.metrics import Evaluation, compute_metrics
from luvli.evaluation.paper_tables import published_tables
from luvli.evaluation.report import summary
from luvli.image.box import Box
from luvli.markup import get_markup
from luvli.network.backend import faces_in_crops
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo
from luvli.prediction.predictor import Predictor

SHAPE = get_markup("ibug68").schematic
LOW, HIGH = SHAPE.min(axis=0), SHAPE.max(axis=0)


class SameFace:
    """A backend that answers every crop with the drawn face, filling the crop's tight box."""

    threads = 1

    def __init__(self) -> None:
        self.info = ModelInfo(name="same", config=NetworkConfig(input_size=64, unets=1, order=0))

    def __call__(self, crops, windows=None):
        longer = (HIGH - LOW).max()
        middle = (LOW + HIGH) / 2
        points = (SHAPE - middle) / longer * 64 / self.info.enlarge + 31.5
        n = len(crops)
        outputs = {
            "landmarks": np.tile(points, (n, 1, 1)),
            "covariance": np.tile(np.eye(2), (n, 68, 1, 1)),
            "visibility": np.full((n, 68), 0.9),
        }
        return faces_in_crops(outputs, self.info)


class HalfBlind:
    """A detector that finds the labelled face in images with a bright first pixel."""

    def __init__(self, boxes) -> None:
        self.boxes = boxes

    def __call__(self, image, name=""):
        return [self.boxes[Path(name).stem]] if image[0, 0, 0] else []


@pytest.fixture
def small_set(tmp_path, monkeypatch):
    """Ten faces of many sizes in a folder, the drawn one each; a model that knows it."""
    from PIL import Image

    rng = np.random.default_rng(0)
    boxes = {}
    for i in range(10):
        points = SHAPE * rng.uniform(30, 80) + rng.uniform(150, 250, 2)
        boxes[f"f{i}"] = Box.around(points)
        write_pts(tmp_path / f"set/f{i}.pts", points)
        image = np.full((420, 420, 3), 0 if i == 3 else 90, np.uint8)
        Image.fromarray(image).save(tmp_path / f"set/f{i}.png")
    predictor = Predictor(SameFace(), HalfBlind(boxes))
    monkeypatch.setattr(evaluate_model, "load", lambda model: predictor)
    return tmp_path / "set"


def test_evaluate_runs_the_model_over_a_set(luvli, tmp_path, small_set, quick):
    done = luvli(
        "evaluate", "m", "--data", "folder", small_set, "--out", tmp_path / "r",
        "--crop-by", "detector",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    metrics = Evaluation.read(tmp_path / "r/metrics.json")
    assert metrics.faces == 10 and metrics.failed == ("f3",)
    assert metrics.dataset == "folder" and metrics.method == "same"
    assert metrics.value("nme_predicted_box") < 0.01
    written = ["metrics.json", "predictions.parquet", "report.html", "report.md"]
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == written
    assert metrics.value("nll_published") is not None


def test_a_table_measures_its_own_rows(luvli, tmp_path, small_set, quick, monkeypatch):
    """`luvli paper table --model`: a row from one command, and the second time from the report."""
    order = ("paper", "table", "split2", "--model", "m", "--data", f"menpo={small_set}",
             "--reports", tmp_path / "reports", "--json")  # fmt: skip
    done = luvli(*order)
    assert done.exit_code == 0, done.output
    row = next(r for r in json.loads(done.stdout)["rows"] if r["method"].startswith("same"))
    faces = evaluate_set("m", "menpo", small_set)
    error = nme(faces.points, faces.labels, "box").mean()
    assert error > 0.1  # the boxes have noise
    assert row["values"][1] == pytest.approx(error) and row["values"][0] is None
    assert row["faces"][1] == 10
    monkeypatch.setattr(evaluate_model, "load", lambda *_: pytest.fail("measured twice"))
    assert luvli(*order).stdout == done.stdout
    assert "n = 10 (the paper: 6,679" in luvli(*order[:-1]).output
    for words, sentence in (
        (("paper", "table", "split2", "--model", "m"), "--model needs --data"),
        (
            ("paper", "table", "4", "--model", "m", "--data", "menpo", "--reports", "r"),
            "menpo=FOLDER",
        ),
    ):
        refused = luvli(*words)
        assert refused.exit_code == 2 and sentence in refused.output, refused.output


def test_crops_by_the_tight_box_find_every_face_exactly(small_set):
    faces = evaluate_set("m", "folder", small_set, crop_by="tight")
    assert faces.points == pytest.approx(faces.labels, abs=1e-6)
    side = (faces.labels.max(axis=1) - faces.labels.min(axis=1)).max(axis=1) * 1.1
    assert faces.paper_pixel == pytest.approx(side / 256)
    assert faces.covariance[:, 0, 0, 0] == pytest.approx((side / 64) ** 2)


def test_what_a_model_never_learnt_is_not_reported(small_set, monkeypatch):
    """A heat-map or MSE network has covariances that nothing taught it."""
    backend = SameFace()
    untaught = {"covariance_trained": False, "visibility_trained": False}
    config = backend.info.config.model_copy(update=untaught)
    backend.info = backend.info.model_copy(update={"config": config})
    monkeypatch.setattr(evaluate_model, "load", lambda model: Predictor(backend))
    faces = evaluate_set("m", "folder", small_set, crop_by="tight")
    metrics = compute_metrics(faces, resamples=5)
    assert metrics.missing == ("covariance", "visibility")
    assert "nll" not in metrics.metrics and "aurc_face" not in metrics.metrics
    assert "Not predicted, so not reported: covariance, visibility." in summary(metrics)


def test_noisy_boxes_move_the_answer_and_are_the_same_each_time(small_set):
    first, again = (evaluate_set("m", "folder", small_set) for _ in range(2))
    assert np.array_equal(first.points, again.points)
    gap = np.abs(first.points - first.labels).max(axis=(1, 2))
    assert (gap > 0.1).all() and (gap < 20).all()
    assert "cropped by: paper" in first.notes[0]


def test_a_model_of_another_markup_is_refused(small_set):
    predictor = evaluate_model.load("m")
    record = FaceRecord(
        points=np.zeros((98, 2)),
        visibility=np.ones(98),
        markup="wflw98",
        image=small_set / "f1.png",
    )
    with pytest.raises(InputError, match=r"finds ibug68 points and .* is labelled with wflw98"):
        predict_records(predictor, [record])
    with pytest.raises(InputError, match="has no image"):
        predict_records(predictor, [FaceRecord(points=np.zeros((68, 2)), visibility=np.ones(68))])
    with pytest.raises(InputError, match="unknown kind of crop"):
        predict_records(predictor, [], "eye")


def test_a_face_with_nothing_labelled_has_nowhere_to_crop(small_set):
    record = FaceRecord(
        points=np.zeros((68, 2)), visibility=np.zeros(68), image=small_set / "f1.png"
    )
    (prediction,) = predict_records(evaluate_model.load("m"), [record]).faces
    assert prediction.is_empty


@pytest.mark.parametrize(
    ("dataset", "protocol", "name"),
    [("w300", "split1", "full"), ("w300", "split2", "test"), ("wflw", "official", "all"),
     ("menpo", "published", "frontal"), ("merl_rav", "published", "all")],
)  # fmt: skip
def test_whole_sets_and_subsets_have_the_names_that_the_tables_use(dataset, protocol, name):
    assert evaluate_model.whole_name(dataset, protocol) == name
    columns = [c for t in published_tables() for c in t.columns if c.dataset == dataset]
    assert any(name in (c.subset, *c.also) for c in columns)
    known = {"all", "full", "test"} | set(get_set(dataset).subsets)
    assert all(column.subset in known for column in columns)


def test_one_bad_image_never_ends_an_evaluation(small_set):
    (small_set / "f4.png").write_bytes(b"no image")
    predictor = evaluate_model.load("m")
    records = [
        FaceRecord(
            points=SHAPE * 50 + 200, visibility=np.ones(68), image=small_set / f"f{i}.png",
            face_id=f"f{i}", attributes={"subsets": ["even"] if i % 2 == 0 else []},
        )
        for i in range(10)
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"f4\.png"):
        predict_records(predictor, records, "tight", batch_size=3)
    faces = predict_records(predictor, records, "tight", skip_bad=True, batch_size=3)
    assert faces.names == tuple(f"f{i}" for i in range(10) if i != 4)
    assert "1 bad faces were left out" in faces.notes[0] and "f4.png" in faces.notes[0]
    assert faces.points == pytest.approx(faces.labels, abs=1e-6)
    even = faces[faces.subsets["even"]]
    assert even.names == ("f0", "f2", "f6", "f8") and len(even.faces) == 4
    assert faces[[1, 0]].names == ("f1", "f0") and len(faces[[]]) == 0
