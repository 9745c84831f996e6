"""Reports, comparisons and the command line, on made-up sets and on the edge cases."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from luvli.data.formats import write_pts
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation import compare, evaluate_model
from luvli.evaluation.accuracy import nme
from luvli.evaluation.evaluated_faces import from_records, read_parquet
from luvli.evaluation.metric_records import EvaluationMetrics
from luvli.evaluation.report import write_report
from luvli.evaluation.summary import summary, summary_rows
from luvli.evaluation.table_text import interval
from luvli.faces import FaceLandmarks
from luvli.image.box import Box
from luvli.markup import get_markup
from luvli.network.backend import CropPrediction
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo
from luvli.prediction.predictor import Predictor

FILES = ["metrics.json", "predictions.parquet", "report.html", "report.md"]


@pytest.fixture(scope="module")
def report(tmp_path_factory, faces):
    folder = tmp_path_factory.mktemp("report")
    metrics = write_report(
        folder, replace(faces, dataset="merl_rav", notes=("A note <here>.",)), resamples=50
    )
    return folder, metrics


def test_four_files_and_nothing_else(report):
    folder, metrics = report
    assert sorted(p.name for p in folder.iterdir()) == FILES
    assert EvaluationMetrics.read(folder / "metrics.json").to_json() == metrics.to_json()


def test_the_page_needs_no_other_file(report):
    page = (report[0] / "report.html").read_text()
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert "<script" not in page and "@import" not in page and "url(" not in page
    assert page.count("data:image/png;base64,") == 11
    assert "A note &lt;here&gt;." in page


def test_both_texts_say_the_same_numbers(report):
    folder, metrics = report
    text, page = ((folder / name).read_text() for name in ("report.md", "report.html"))
    for value in (
        interval(metrics.accuracy["box"].nme),
        interval(metrics.accuracy["interocular"].auc[10]),
        interval(metrics.subsets["odd"].accuracy["box"].nme),
        f"{metrics.uncertainty.kl:.4f}",
        f"{metrics.visibility.brier:.4f}",
        "Table 9: MERL-RAV results on three types of landmarks",
        "made up †",
    ):
        assert value in text and value in page


def test_predictions_come_back(report, faces):
    back = read_parquet(report[0] / "predictions.parquet")
    assert np.array_equal(back.predicted, faces.predicted) and back.dataset == "merl_rav"


@pytest.mark.parametrize(
    "case",
    [
        "points only",
        "no prediction",
        "no label",
        pytest.param("one", marks=pytest.mark.slow),
        pytest.param("own markup", marks=pytest.mark.slow),
    ],
)
def test_a_report_of_hardly_anything(tmp_path, make_faces, case):
    faces = make_faces(1 if case == "one" else 4)
    gap = np.full_like(faces.predicted, np.nan)
    if case == "points only":
        faces = replace(faces, covariance=None, visibility=None, paper_pixel=None)
    if case == "no prediction":
        faces = replace(faces, predicted=gap, covariance=np.full_like(faces.covariance, np.nan))
    if case == "no label":
        faces = replace(faces, truth=gap, classes=np.zeros_like(faces.classes))
    if case == "own markup":
        faces = replace(
            faces, predicted=faces.predicted[:, :5], truth=faces.truth[:, :5], markup="mine5",
            classes=faces.classes[:, :5], covariance=faces.covariance[:, :5],
            visibility=faces.visibility[:, :5],
        )  # fmt: skip
    metrics = write_report(tmp_path / "r", faces, resamples=20)
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == FILES
    if case == "no prediction":
        assert "face_000, face_001" in (tmp_path / "r/report.md").read_text()
        assert metrics.accuracy["box"].failure_rate[10].value == 100


def test_a_report_needs_a_folder(tmp_path, faces):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        write_report(tmp_path / "file", faces)


# --- comparison --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory, faces):
    folder = tmp_path_factory.mktemp("two")
    worse = faces.truth + 1.3 * (faces.predicted - faces.truth)
    worse = np.where(np.isnan(worse), faces.predicted, worse)
    points = replace(faces, covariance=None, visibility=None, paper_pixel=None)
    write_report(folder / "good", replace(points, method="good"), resamples=50)
    bad = replace(points, method="bad", predicted=worse).take(np.arange(30))
    write_report(folder / "bad", bad, resamples=50)
    return [folder / "good", folder / "bad"]


def test_differences_are_paired_by_name(two, faces):
    reports = [compare.read_report(folder) for folder in two]
    nme_row, auc_row, _ = compare.paired_differences(reports)
    from luvli.evaluation import auc, nme

    errors = nme(faces.predicted, faces.truth)[:30]
    assert nme_row.difference == pytest.approx(0.3 * errors.mean())
    assert nme_row.low > 0 and nme_row.p_value < 0.01 and nme_row.faces == 30
    assert auc_row.difference == pytest.approx(auc(1.3 * errors, 7) - auc(errors, 7))


def test_strangers_are_not_paired(two):
    reports = [compare.read_report(folder) for folder in two]
    renamed = replace(reports[1].faces, names=tuple(f"x{i}" for i in range(30)))
    strangers = [reports[0], compare.StoredReport(reports[1].metrics, renamed)]
    assert compare.paired_differences(strangers) == []
    assert "no paired test: bad" in compare.comparison_tables(strangers)[0].note


def test_methods_of_one_name_are_told_apart_by_folder(two):
    report = compare.read_report(two[0])
    names = [r.metrics.method for r in compare.distinct([report, report], ["runs/a", "runs/b"])]
    assert names == ["good (a)", "good (b)"]


# --- command line ------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """Reports with empty images: drawing them is tested elsewhere."""
    monkeypatch.setattr("luvli.evaluation.report.png", lambda figure: b"")
    monkeypatch.setattr("luvli.evaluation.compare.png", lambda figure: b"")


def test_score_compare_table_and_figure_in_a_row(luvli, tmp_path, faces, quick):
    np.savez(
        tmp_path / "p.npz", points=faces.predicted, covariance=faces.covariance,
        names=np.array(faces.names),
    )  # fmt: skip
    for i, name in enumerate(faces.names):
        write_pts(tmp_path / f"truth/{name}.pts", faces.truth[i], faces.classes[i])
    done = luvli(
        "score", tmp_path / "p.npz", "--truth", tmp_path / "truth", "--out", tmp_path / "r",
        "--name", "mine", "--dataset", "merl_rav", "--subset", "frontal", "--resamples", 20,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "mine on merl_rav frontal: NME box" in done.output
    metrics = EvaluationMetrics.read(tmp_path / "r/metrics.json")
    table = luvli("table", "8", "--reports", tmp_path / "r", "--json")
    row = json.loads(table.output)["rows"][-1]
    assert row["method"] == "mine" and not row["quoted"]
    assert row["values"][1] == pytest.approx(metrics.accuracy["box"].nme.value)
    printed = luvli("table", "merl_rav", "--reports", tmp_path / "r").output
    assert "mine †" in printed and "82.10" in printed
    again = luvli("compare", tmp_path / "r", tmp_path / "r", "--out", tmp_path / "c")
    assert again.exit_code == 0 and "mine (r)" in again.output
    made = sorted(p.name for p in (tmp_path / "c").iterdir())
    assert made == ["compare.html", "compare.json", "compare.md"]
    drawn = luvli(
        "figure", "4", "--predictions", tmp_path / "r/predictions.parquet",
        "--out", tmp_path / "f.png",
    )  # fmt: skip
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_score_prints_json(luvli, tmp_path, faces):
    np.savez(tmp_path / "p.npz", points=faces.predicted, truth=faces.truth)
    done = luvli("score", tmp_path / "p.npz", "--json", "--resamples", 10)
    assert json.loads(done.stdout)["faces"] == len(faces)


def test_lists_of_tables_and_figures(luvli):
    assert "split2" in luvli("table").output and "residuals" in luvli("figure").output
    assert "| LUVLi* (paper) | 2.10 |" in luvli("table", "4", "--md").output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("score", "nowhere.npz"), "nowhere.npz does not exist"),
        (("table", "44"), "unknown table"),
        (("figure", "x"), "unknown figure"),
        (("figure", "4"), "needs --predictions"),
        (("figure", "4", "--normalizer", "iod"), "unknown normalizer"),
        (("figure", "4", "--predictions", "a", "--out", "b.bmp"), "unknown kind of image"),
        (("compare", "nowhere"), "is not a report folder"),
        (("compare", "nowhere", "--cutoff", "5"), "unknown cutoff"),
        (("score", "x", "--likelihood", "cauchy"), "unknown likelihood"),
        (("evaluate", "m", "--data", "w301", ".", "--out", "r"), "unknown data set 'w301'"),
    ],
)
def test_mistakes_are_one_line_and_code_two(luvli, arguments, sentence):
    done = luvli(*arguments)
    assert done.exit_code == 2 and sentence in done.output and "Traceback" not in done.output


# --- running a model ---------------------------------------------------------------------

SHAPE = get_markup("ibug68").schematic
LOW, HIGH = SHAPE.min(axis=0), SHAPE.max(axis=0)


class SameFace:
    """A backend that answers every crop with the drawn face, filling the crop's tight box."""

    threads = 1

    def __init__(self) -> None:
        self.info = ModelInfo(name="same", config=NetworkConfig(input_size=64, unets=1, order=0))

    def __call__(self, crops):
        longer = (HIGH - LOW).max()
        middle = (LOW + HIGH) / 2
        points = (SHAPE - middle) / longer * 64 / self.info.enlarge + 31.5
        n = len(crops)
        return CropPrediction(
            np.tile(points, (n, 1, 1)), np.tile(np.eye(2), (n, 68, 1, 1)), np.full((n, 68), 0.9)
        )


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
    monkeypatch.setattr(evaluate_model, "load", lambda model, providers: predictor)
    return tmp_path / "set"


def test_evaluate_runs_the_model_over_a_set(luvli, tmp_path, small_set, quick):
    done = luvli(
        "evaluate", "m", "--data", "folder", small_set, "--out", tmp_path / "r",
        "--crop-by", "detector",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    metrics = EvaluationMetrics.read(tmp_path / "r/metrics.json")
    assert metrics.faces == 10 and metrics.failed == ("f3",)
    assert metrics.dataset == "folder" and metrics.method == "same"
    assert metrics.accuracy["box"].nme_predicted < 0.01
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == FILES
    assert metrics.uncertainty.nll.published is not None


def test_a_table_measures_its_own_rows(luvli, tmp_path, small_set, quick, monkeypatch):
    """`luvli table --model`: a row from one command, and the second time from the report."""
    order = ("table", "split2", "--model", "m", "--data", f"menpo={small_set}",
             "--reports", tmp_path / "reports", "--json")  # fmt: skip
    done = luvli(*order)
    assert done.exit_code == 0, done.output
    row = next(r for r in json.loads(done.stdout)["rows"] if r["method"].startswith("same"))
    faces = evaluate_model.evaluate_set("m", "menpo", small_set)
    error = nme(faces.predicted, faces.truth, "box").mean()
    assert error > 0.1  # the boxes have noise
    assert row["values"][1] == pytest.approx(error) and row["values"][0] is None
    assert row["faces"][1] == 10
    monkeypatch.setattr(evaluate_model, "load", lambda *_: pytest.fail("measured twice"))
    assert luvli(*order).stdout == done.stdout
    assert "n = 10 (the paper: 6,679" in luvli(*order[:-1]).output
    for words, sentence in (
        (("table", "split2", "--model", "m"), "--model needs --data"),
        (("table", "4", "--model", "m", "--data", "menpo", "--reports", "r"), "menpo=FOLDER"),
    ):
        refused = luvli(*words)
        assert refused.exit_code == 2 and sentence in refused.output, refused.output


def test_crops_by_the_tight_box_find_every_face_exactly(small_set):
    faces = evaluate_model.evaluate_set("m", "folder", small_set, crop_by="tight")
    assert faces.predicted == pytest.approx(faces.truth, abs=1e-6)
    side = (faces.truth.max(axis=1) - faces.truth.min(axis=1)).max(axis=1) * 1.1
    assert faces.paper_pixel == pytest.approx(side / 256)
    assert faces.covariance[:, 0, 0, 0] == pytest.approx((side / 64) ** 2)


def test_what_a_model_never_learnt_is_not_reported(small_set, monkeypatch):
    """A heat-map or MSE network has covariances that nothing taught it."""
    from luvli.evaluation.metrics import compute_metrics

    backend = SameFace()
    untaught = {"covariance_trained": False, "visibility_trained": False}
    config = backend.info.config.model_copy(update=untaught)
    backend.info = backend.info.model_copy(update={"config": config})
    monkeypatch.setattr(evaluate_model, "load", lambda model, providers: Predictor(backend))
    faces = evaluate_model.evaluate_set("m", "folder", small_set, crop_by="tight")
    metrics = compute_metrics(faces, resamples=5)
    assert metrics.untrained == ("covariance", "visibility")
    assert metrics.uncertainty is None and not metrics.selective
    assert "Not trained, so not reported: covariance, visibility." in summary(metrics)
    assert ["covariance", "not trained"] in summary_rows(metrics)


def test_noisy_boxes_move_the_answer_and_are_the_same_each_time(small_set):
    first, again = (evaluate_model.evaluate_set("m", "folder", small_set) for _ in range(2))
    assert np.array_equal(first.predicted, again.predicted)
    gap = np.abs(first.predicted - first.truth).max(axis=(1, 2))
    assert (gap > 0.1).all() and (gap < 20).all()


def test_evaluate_part_of_a_set_says_so(small_set):
    faces = evaluate_model.evaluate_set("m", "folder", small_set, limit=2)
    assert len(faces) == 2 and "Only the first 2 of 10" in faces.notes[1]
    assert "cropped by: paper" in faces.notes[0]


def test_a_model_of_another_markup_is_refused(small_set):
    predictor = evaluate_model.load("m", providers=["cpu"])
    record = FaceRecord(
        points=np.zeros((98, 2)),
        visibility=np.ones(98),
        markup="wflw98",
        image=small_set / "f1.png",
    )
    with pytest.raises(InputError, match=r"finds ibug68 points and .* is labelled with wflw98"):
        list(evaluate_model.run_model(predictor, [record]))
    with pytest.raises(InputError, match="has no image"):
        list(evaluate_model.run_model(predictor, [record.with_changes(image=None)]))
    with pytest.raises(InputError, match="unknown kind of crop"):
        evaluate_model.evaluate_set("m", "folder", small_set, crop_by="eye")


def test_a_face_with_nothing_labelled_has_nowhere_to_crop(small_set):
    record = FaceRecord(
        points=np.zeros((68, 2)), visibility=np.zeros(68), image=small_set / "f1.png"
    )
    (prediction,) = evaluate_model.run_model(evaluate_model.load("m", providers=["cpu"]), [record])
    assert prediction.is_empty


@pytest.mark.parametrize(
    ("dataset", "protocol", "name"),
    [("w300", "split1", "full"), ("w300", "split2", "test"), ("wflw", "official", "all"),
     ("menpo", "published", "frontal"), ("merl_rav", "published", "all")],
)  # fmt: skip
def test_whole_sets_have_the_names_that_the_tables_use(dataset, protocol, name):
    from luvli.evaluation.tables import published_tables

    assert evaluate_model.whole_name(dataset, protocol) == name
    columns = [c for t in published_tables() for c in t.columns if c.dataset == dataset]
    assert any(name in (c.subset, *c.also) for c in columns)


def test_subsets_of_the_tables_are_those_of_the_data_sets():
    from luvli.data.sets import get_set
    from luvli.evaluation.tables import published_tables

    whole = {"all", "full", "test"}
    for table in published_tables():
        for column in table.columns:
            if column.dataset is not None:
                assert column.subset in whole | set(get_set(column.dataset).subsets)


def test_labels_jittered_by_their_own_law_look_calibrated(lfpw):
    """Real label files, predictions drawn around them: nothing but the labels is real here."""
    from luvli.data.formats import read_pts
    from luvli.evaluation.metrics import compute_metrics
    from luvli.likelihood import Laplace

    rng = np.random.default_rng(0)
    records, predictions = [], []
    for path in sorted(lfpw.glob("*.pts"))[:100]:
        points, visibility = read_pts(path, signed=False)
        spread = np.exp(rng.normal(1.0, 0.4, 68))
        noise = Laplace(np.zeros((68, 2)), np.stack([spread, spread * 0.4, spread * 0.8], -1))
        records.append(FaceRecord(points=points, visibility=visibility, face_id=path.stem))
        predictions.append(
            FaceLandmarks(
                points=points - noise.sample(1, rng)[0], covariance=noise.covariance,
                visibility=np.ones(68), box=[0, 0, 9, 9],
            )
        )  # fmt: skip
    metrics = compute_metrics(from_records(records, predictions), resamples=20)
    assert metrics.uncertainty.coverage.error < 0.015 and abs(metrics.uncertainty.kl) < 0.02
    assert metrics.uncertainty.pearson[734].xx > 0.95
