"""Reports, comparisons and the command line, on made-up sets and on the edge cases."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scored_files import changed

from luvli.data.formats import write_pts
from luvli.errors import InputError
from luvli.evaluation import accuracy, compare
from luvli.evaluation.metrics import Evaluation, compute_metrics
from luvli.evaluation.report import quoted_table, write_report
from luvli.evaluation.table import interval

FILES = ["metrics.json", "predictions.parquet", "report.html", "report.md"]


@pytest.fixture(scope="module")
def report(tmp_path_factory, faces):
    folder = tmp_path_factory.mktemp("report")
    metrics = write_report(
        folder, changed(faces, dataset="merl_rav", notes=("A note <here>.",)), resamples=50
    )
    return folder, metrics


def test_four_files_and_nothing_else(report):
    folder, metrics = report
    assert sorted(p.name for p in folder.iterdir()) == FILES
    assert Evaluation.read(folder / "metrics.json").to_json() == metrics.to_json()


def test_the_page_needs_no_other_file(report):
    page = (report[0] / "report.html").read_text()
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert "<script" not in page and "@import" not in page and "url(" not in page
    assert page.count("data:image/png;base64,") == 10
    assert "A note &lt;here&gt;." in page


def test_both_texts_say_the_same_numbers(report):
    folder, metrics = report
    text, page = ((folder / name).read_text() for name in ("report.md", "report.html"))
    for value in (
        interval(metrics.metrics["nme_box"]),
        interval(metrics.metrics["auc10_interocular"]),
        interval(metrics.subsets["odd"].metrics["nme_box"]),
        f"{metrics.value('kl'):.4f}",
        f"{metrics.value('visibility_brier'):.4f}",
        "Table 9 (paper): MERL-RAV results on three types of landmarks",
        "made up †",
    ):
        assert value in text and value in page


@pytest.mark.parametrize(
    "case", ["points only", "no prediction", "no label", "one place", "own markup"]
)
def test_a_report_of_hardly_anything(tmp_path, make_faces, case):
    faces = make_faces(4)
    gap = np.full_like(faces.points, np.nan)
    if case == "points only":
        faces = changed(faces, covariance=None, visibility=None, paper_pixel=None)
    if case == "no prediction":
        faces = changed(faces, points=gap, covariance=np.full_like(faces.covariance, np.nan))
    if case == "no label":
        faces = changed(faces, labels=gap, label_visibility=np.zeros_like(faces.label_visibility))
    if case == "one place":  # as a network that learnt nothing: the eyes have no distance
        faces = changed(faces, points=np.full_like(faces.points, 50.0))
    if case == "own markup":
        faces = changed(
            faces, points=faces.points[:, :5], labels=faces.labels[:, :5], markup="mine5",
            label_visibility=faces.label_visibility[:, :5], covariance=faces.covariance[:, :5],
            visibility=faces.visibility[:, :5], occlusion=None, method=r"a$b_{ $x^ \\frac",
        )  # fmt: skip
    metrics = write_report(tmp_path / "r", faces, resamples=20)
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == FILES
    if case == "no prediction":
        assert "face_000, face_001" in (tmp_path / "r/report.md").read_text()
        assert metrics.value("fr10_box") == 100


def test_a_report_needs_a_folder(tmp_path, faces):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        write_report(tmp_path / "file", faces)


# --- comparison --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory, faces):
    folder = tmp_path_factory.mktemp("two")
    worse = faces.labels + 1.3 * (faces.points - faces.labels)
    worse = np.where(np.isnan(worse), faces.points, worse)
    points = changed(faces, covariance=None, visibility=None, paper_pixel=None)
    write_report(folder / "good", changed(points, method="good"), resamples=50)
    bad = changed(points, method="bad", points=worse)[np.arange(30)]
    write_report(folder / "bad", bad, resamples=50)
    return [folder / "good", folder / "bad"]


def test_differences_are_paired_by_name(two, faces):
    reports = [compare.read_report(folder) for folder in two]
    rows = {row.metric.name: row for row in compare.paired_differences(reports)}
    nme_row, auc_row = rows["nme_box"], rows["auc7_box"]
    errors = accuracy.nme(faces.points, faces.labels)[:30]
    assert nme_row.paired.difference == pytest.approx(0.3 * errors.mean())
    assert nme_row.paired.low > 0 and nme_row.paired.p_value < 0.01 and nme_row.faces == 30
    assert auc_row.paired.difference == pytest.approx(
        accuracy.auc(1.3 * errors, 7) - accuracy.auc(errors, 7)
    )


def test_strangers_are_not_paired(two):
    reports = [compare.read_report(folder) for folder in two]
    renamed = changed(reports[1].faces, names=tuple(f"x{i}" for i in range(30)))
    strangers = [reports[0], compare.StoredReport(reports[1].metrics, renamed)]
    assert compare.paired_differences(strangers) == []
    assert "no paired test: bad" in " ".join(compare.Comparison(strangers).tables()[0].notes)


def test_faces_that_share_nothing_but_a_number_are_not_paired(two):
    """Predictions without names are called face 0, face 1, ... in every report."""
    first, second = (compare.read_report(folder) for folder in two)
    lying = changed(second.faces, labels=second.faces.labels[..., ::-1])  # faces on their side
    strangers = [first, compare.StoredReport(second.metrics, lying)]
    assert compare.paired_differences(strangers) == []


def test_methods_of_one_name_are_told_apart_by_folder(two):
    report = compare.read_report(two[0])
    for folders, names in (
        (["first/run", "second/run"], ["good (run) (1)", "good (run) (2)"]),
        (["runs/a", "runs/b"], ["good (a)", "good (b)"]),
    ):
        twins = compare.distinct([report, report], folders)
        assert [twin.metrics.method for twin in twins] == names


# --- command line ------------------------------------------------------------------------


def test_score_compare_table_and_figure_in_a_row(luvli, tmp_path, faces, quick):
    np.savez(
        tmp_path / "p.npz", points=faces.points, covariance=faces.covariance,
        names=np.array(faces.names),
    )  # fmt: skip
    for i, name in enumerate(faces.names):
        write_pts(tmp_path / f"truth/{name}.pts", faces.labels[i], faces.label_visibility[i])
    done = luvli(
        "score", tmp_path / "p.npz", "--truth", tmp_path / "truth", "--out", tmp_path / "r",
        "--name", "mine", "--dataset", "merl_rav/frontal",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "mine on merl_rav frontal: 40 faces" in done.output
    metrics = Evaluation.read(tmp_path / "r/metrics.json")
    table = luvli("paper", "table", "8", "--reports", tmp_path / "r", "--json")
    row = json.loads(table.output)["rows"][-1]
    assert row["method"] == "mine" and not row["quoted"]
    assert row["values"][1] == pytest.approx(metrics.value("nme_box"))
    printed = luvli("paper", "table", "merl_rav", "--reports", tmp_path / "r").output
    assert "mine †" in printed and "82.10" in printed
    again = luvli("compare", tmp_path / "r", tmp_path / "r", "--out", tmp_path / "c")
    assert again.exit_code == 0 and "mine (r)" in again.output
    made = sorted(p.name for p in (tmp_path / "c").iterdir())
    assert made == ["compare.html", "compare.json", "compare.md"]
    as_json = luvli("compare", tmp_path / "r", tmp_path / "r", "--json").output
    assert json.loads(as_json) == json.loads((tmp_path / "c/compare.json").read_text())
    drawn = luvli(
        "paper", "figure", "4", "--predictions", tmp_path / "r/predictions.parquet",
        "--out", tmp_path / "f.png",
    )  # fmt: skip
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_score_prints_json(luvli, tmp_path, faces):
    np.savez(tmp_path / "p.npz", points=faces.points, truth=faces.labels)
    done = luvli("score", tmp_path / "p.npz", "--json")
    assert json.loads(done.stdout)["faces"] == len(faces)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("score", "nowhere.npz"), "nowhere.npz does not exist"),
        (("paper", "table", "44"), "unknown table"),
        (("paper", "figure", "x"), "unknown figure"),
        (("paper", "figure", "4"), "needs --predictions"),
        (("paper", "figure", "4", "--predictions", "a", "--out", "b.bmp"), "unknown kind of image"),
        (("compare", "nowhere"), "is not a report folder"),
        (("evaluate", "m", "--data", "w301", ".", "--out", "r"), "unknown data set 'w301'"),
    ],
)
def test_mistakes_are_one_line_and_code_two(luvli, arguments, sentence):
    done = luvli(*arguments)
    assert done.exit_code == 2 and sentence in done.output and "Traceback" not in done.output


def test_reports_of_several_test_sets_do_not_overwrite_each_other(luvli, tmp_path, faces, quick):
    """One --out: the first report stands in it, others in folders of their own."""
    np.savez(tmp_path / "p.npz", points=faces.points, truth=faces.labels)
    for dataset, times in (("w300", 2), ("menpo", 1)):
        for _ in range(times):
            done = luvli("score", tmp_path / "p.npz", "--out", tmp_path / "r", "--name", "m",
                         "--dataset", dataset)  # fmt: skip
            assert done.exit_code == 0, done.output
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("metrics.json")}
    assert found == {"r/metrics.json", "r/m-menpo-all/metrics.json"}
    assert Evaluation.read(tmp_path / "r/metrics.json").dataset == "w300"


def test_300w_is_quoted_by_part(faces):
    """Full, common and challenge: inter-ocular NME, AUC and FR at 8 and at 10 percent."""
    hard = np.arange(len(faces)) % 4 == 0
    parts = {"common": ~hard, "challenge": hard}
    set_of = changed(faces, dataset="w300", subset="full", subsets=parts)
    table = quoted_table(compute_metrics(set_of, resamples=5), intervals=False)
    assert [row[0] for row in table.rows] == ["full", "common", "challenge"]
    assert table.head[2:7] == [
        "NME_inter-ocular (eq. 15) (%)", "AUC8, inter-ocular (%)", "FR8, inter-ocular (%)",
        "AUC10, inter-ocular (%)", "FR10, inter-ocular (%)",
    ]  # fmt: skip
    for row, mask in zip(table.rows, (hard | ~hard, ~hard, hard), strict=True):
        errors = accuracy.nme(faces.points[mask], faces.labels[mask], "interocular")
        wanted = [errors.mean(), accuracy.auc(errors, 8), 0.0, accuracy.auc(errors, 10), 0.0]
        assert row[1:7] == [f"{mask.sum()}", *(f"{value:.2f}" for value in wanted)]
