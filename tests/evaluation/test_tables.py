"""The quoted tables against the paper's own source, and our rows among them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation.bootstrap import Interval
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metrics import SubsetMetrics, compute_metrics
from luvli.evaluation.paper_tables import (
    footnotes,
    paper_faces,
    printed_tables,
    published_table,
    published_tables,
    read_reports,
    with_reports,
    without_column,
)
from luvli.image import affine
from luvli.image.crop import Crop

LABELS = {
    3: "nme_split1", 4: "nme_split2",
    5: "nme_ext_normal_cofw", 6: "nme_auc_aflw19", 7: "nme_wflw_short", 8: "nme_aflw_ours",
    9: "analysis", 10: "abl_1", 11: "likelihood_compare", 12: "nme_aflw_ours_nme_vis",
    13: "nme_wflw",
}  # fmt: skip


def numbers_in_source(tex: str, label: str) -> list[float]:
    """Every number in math mode of the tabular beside a label, in any order."""
    at = tex.index(f"\\label{{tab:{label}}}")
    body = tex[at : tex.index("\\end{tabular}", at)]
    for noise in (r"\\(?:cite|multirow|begin|cline)\s*\{[^}]*\}", r"\$2\$D", r"AFLW-\$68\$"):
        body = re.sub(noise, "", body)  # names and layout that contain numbers
    found = re.findall(r"(?:\$|first\{|second\{|mathbf\{)([0-9][0-9.,\\!]*)(?=[}$])", body)
    return sorted(float(re.sub(r"[^0-9.]", "", text)) for text in found)


def test_there_are_all_thirteen_in_order():
    assert [table.number for table in published_tables()] == list(range(1, 14))
    assert len({table.name for table in published_tables()}) == 13


def test_quoted_numbers_are_those_of_the_paper(shared):
    tex = (shared / "reference/luvli_paper.tex").read_text()
    for number in range(3, 14):
        rows = [row for row in published_table(number).rows if not row.source]
        ours = sorted(float(v) for row in rows for v in row.values if v is not None)
        assert ours == pytest.approx(numbers_in_source(tex, LABELS[number])), number


def test_numbers_of_faces_in_the_data_sets(shared):
    tex = (shared / "reference/luvli_paper.tex").read_text()
    ours = [v for row in published_table(1).rows for v in row.values if isinstance(v, int)]
    assert sorted(ours) == pytest.approx(numbers_in_source(tex, "dataset"))
    assert sum(row.values[0] for row in published_table(2).rows[:-1]) == 15_449
    assert sum(row.values[1] for row in published_table(2).rows[:-1]) == 3_865


@pytest.mark.parametrize(
    ("table", "method", "group", "label", "value"),
    [
        (3, "LUVLi (paper)", "NME inter-ocular (%)", "Challenge", 5.16),
        (4, "KDN*", "AUC box 7 % (%)", "Menpo", 71.1),
        (4, "KDN", "NME box (%)", "COFW-68", None),
        (5, "LUVLi (paper)", "Externally occluded", "|Σ|^½", 32.49),
        (6, "Wing", "NME box (%)", "Full", 3.56),
        (8, "LUVLi (paper)", "AUC box 7 % (%)", "Profile", 82.10),
        (12, "DU-Net", "NME-vis box (%)", "Profile", 3.10),
        (13, "LUVLi (paper)", "FR 10 % (%)", "Blur", 3.23),
        (13, "AVS", "AUC 10 %", "Pose", 0.311),
    ],
)
def test_some_cells_stand_where_they_should(table, method, group, label, value):
    found = published_table(table)
    column = [(c.group, c.label) for c in found.columns].index((group, label))
    row = next(row for row in found.rows if row.method == method)
    assert row.values[column] == value


def test_by_number_by_name_and_unknown():
    assert published_table(4) is published_table("split2") is published_table("4")
    with pytest.raises(InputError, match="unknown table 'split3': did you mean 'split"):
        published_table("split3")


@pytest.fixture(scope="module")
def report(faces):
    return compute_metrics(replace(faces, dataset="merl_rav", method="mine"), resamples=20)


def test_our_row_stands_below_the_quoted_ones(report):
    for number in (8, 9, 12):
        table = with_reports(published_table(number), [report])
        assert len(table.rows) == len(published_table(number).rows) + 1
        assert not table.rows[-1].quoted and table.rows[-1].method == "mine"
    table = with_reports(published_table(8), [report])
    assert table.rows[-1].values[0] == report.value("nme_box")
    assert table.rows[-1].values[4] == report.value("auc7_box")
    assert table.rows[-1].values[1] is None  # no frontal subset in this report
    row = with_reports(published_table(9), [report]).rows[-1]
    assert row.values[8] == report.value("spread_paper.unoccluded")
    assert row.values[9] == report.value("spread_box.unoccluded")
    line = with_reports(published_table(8), [report], auc="polyline").rows[-1]
    assert line.values[4] == report.value("auc7_polyline_box")


def test_reports_of_other_data_sets_add_nothing(report):
    for number in (1, 2, 3, 4, 5, 6, 7, 10, 11, 13):
        assert with_reports(published_table(number), [report]).rows == published_table(number).rows


def test_subsets_inside_a_report_and_reports_of_subsets_fill_one_row(report):
    part = SubsetMetrics(3, report.metrics)
    whole = replace(report, subsets={"profile": part})
    frontal = replace(report, subset="frontal", subsets={})
    row = with_reports(published_table(8), [whole, frontal]).rows[-1]
    value = report.value("nme_box")
    assert row.values[:4] == (value, value, None, value)
    table = with_reports(published_table(8), [report])
    assert table.rows[-1].faces[0] == 40
    note = "† mine: merl_rav all n = 40 (the paper: 3,865: not the same test)."
    assert note in footnotes(table) and note in printed_tables(table)[-1].markdown()


def test_auc_of_wflw_is_a_fraction(report):
    mine = replace(report, dataset="wflw", subset="all")
    row = with_reports(published_table(7), [mine]).rows[-1]
    expected = report.value("auc10_interocular") / 100
    assert row.values[1] == pytest.approx(expected)


def test_printing(report):
    table = with_reports(published_table(13), [replace(report, dataset="wflw")])
    blocks = printed_tables(table)
    assert [block.title.rpartition(", ")[2] for block in blocks] == [
        "NME inter-ocular (%)", "AUC 10 %", "FR 10 % (%)",
    ]  # fmt: skip
    assert all(row[0] != "HR-Net" for row in blocks[1].rows)  # it has nothing there
    assert blocks[0].rows[-1][0] == "mine †"
    (four,) = printed_tables(published_table(4))
    text = four.markdown()
    assert "| SAN* | 2.86 | 2.95 | 3.50 | 59.7 | 61.9 | 51.9 |" in text and "| KDN |" in text
    assert "<b>" in four.html() and "*" in four.text()


def test_reports_are_found_in_folders(tmp_path, report):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/metrics.json").write_text(report.to_json())
    assert read_reports([tmp_path])[0].method == "mine"
    assert read_reports([tmp_path / "a/b/metrics.json"])[0].method == "mine"
    (tmp_path / "a/metrics.json").write_text('{"other": 1}')
    with pytest.raises(InputError, match="is not a luvli report"):
        read_reports([tmp_path])
    with pytest.raises(InputError, match="does not exist"):
        read_reports([tmp_path / "none"])


@pytest.mark.parametrize(
    ("dataset", "subset", "faces"),
    [("w300", "test", 600), ("w300", "full", 689), ("w300", "challenge", 135),
     ("cofw68", "all", 507),
     ("menpo", "all", 6679), ("menpo", "frontal", 6679), ("aflw19", "full", 4386),
     ("aflw19", "frontal", 1314), ("wflw", "all", 2500), ("wflw", "blur", 773),
     ("merl_rav", "all", 3865), ("merl_rav", "half-profile", 601)],
)  # fmt: skip
def test_sizes_of_the_papers_tests(dataset, subset, faces):
    assert paper_faces(dataset, subset) == faces


def test_reports_that_fit_no_column_are_named(report):
    assert without_column(published_table(8), [report]) == ""
    sentence = without_column(published_table(4), [report] * 7)
    assert "mine on merl_rav all" in sentence and "cofw68 all" in sentence
    assert "7 of 7 reports" in sentence


def test_reports_of_one_name_do_not_write_over_each_other(report):
    """Two runs under one name, of one column: two rows, told apart, none of them mixed."""
    other = replace(report, metrics=report.metrics | {"nme_box": Interval(9.0)})
    rows = with_reports(published_table(8), [report, other, report]).rows
    mine = [row for row in rows if not row.quoted]
    assert [row.method for row in mine] == ["mine (1)", "mine (2)"]
    assert 9.0 not in mine[0].values and 9.0 in mine[1].values
    elsewhere = replace(report, dataset="cofw68", subset="all")
    both = with_reports(published_table(4), [elsewhere, report])
    assert [row.method for row in both.rows if not row.quoted] == ["mine"]


def test_later_methods_stand_between_the_paper_and_ours_with_sources(report):
    table = with_reports(published_table(8), [report])
    assert [row.method for row in table.rows][-3:] == ["LUVLi (paper)", "SPIGA (2022)", "mine"]
    later = [row for n in range(1, 14) for row in published_table(n).rows if row.source]
    assert len(later) >= 20
    for row in later:
        assert "arXiv" in row.source and "same test faces" in row.source
    rows = printed_tables(published_table(3))[0].rows
    names = {row[0]: row[1:] for row in rows}
    assert names["STAR (2023) ‡"] == ["2.52", "4.32", "2.87"]
    assert names["PIPNet (2021) ‡"] == ["2.78", "4.89", "3.19"]


def test_units_are_pixels_of_the_papers_crop(make_faces):
    """Whatever network was run: they follow from the face's box alone."""
    faces = make_faces(1)
    record = FaceRecord(
        points=np.where(np.isnan(faces.labels[0]), faces.points[0], faces.labels[0]),
        visibility=np.ones(68), dataset="cofw68",
    )  # fmt: skip
    labelled = LabelledFaces.from_records([record], faces.faces, method="m")
    measured = compute_metrics(labelled, resamples=5)
    crop = Crop.from_box(record.tight_box, 256, 1.1)  # the paper's, by its own rule
    root = np.sqrt(np.linalg.det(affine.push_covariance(crop.affine, faces.covariance[0])))
    assert measured.value("spread_paper.unoccluded") == pytest.approx(root.mean())
    expected = measured.value("nll_pixel") + 2 * np.log(crop.scale / 4) - np.log(2 * np.pi)
    assert measured.value("nll_published") == pytest.approx(expected)
    row = with_reports(published_table(5), [measured]).rows[-1]
    assert row.values[1] == measured.value("spread_paper.unoccluded")


def test_best_values_are_marked_as_in_the_paper():
    """Table 3: the smallest error of each column, whoever has it."""
    (table,) = printed_tables(published_table(3))
    rows = published_table(3).rows
    for column in range(3):
        smallest = min(v for row in rows if (v := row.values[column]) is not None)
        best = [i for (i, j), mark in table.marks.items() if (j, mark) == (column + 1, "best")]
        assert best == [i for i, row in enumerate(rows) if row.values[column] == smallest]
