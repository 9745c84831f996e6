"""The quoted tables against the paper's own source, and our rows among them."""

from __future__ import annotations

import re

import pytest

from luvli.errors import InputError
from luvli.evaluation.metric_records import SubsetMetrics
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.tables import (
    printed_blocks,
    published_table,
    published_tables,
    read_reports,
    table_json,
    table_markdown,
    with_reports,
)

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


@pytest.mark.parametrize("number", [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
def test_quoted_numbers_are_those_of_the_paper(shared, number):
    tex = (shared / "reference/luvli_paper.tex").read_text()
    table = published_table(number)
    ours = sorted(float(v) for row in table.rows for v in row.values if v is not None)
    assert ours == pytest.approx(numbers_in_source(tex, LABELS[number]))


def test_numbers_of_faces_in_the_data_sets(shared):
    tex = (shared / "reference/luvli_paper.tex").read_text()
    ours = [v for row in published_table(1).rows for v in row.values if isinstance(v, int)]
    assert sorted(ours) == pytest.approx(numbers_in_source(tex, "dataset"))
    assert sum(row.values[0] for row in published_table(2).rows[:-1]) == 15_449
    assert sum(row.values[1] for row in published_table(2).rows[:-1]) == 3_865


def test_some_cells_stand_where_they_should():
    def cell(table, method, group, label):
        found = published_table(table)
        column = [(c.group, c.label) for c in found.columns].index((group, label))
        return next(row for row in found.rows if row.method == method).values[column]

    assert cell(3, "LUVLi (paper)", "NME inter-ocular (%)", "Challenge") == 5.16
    assert cell(4, "KDN*", "AUC box 7 % (%)", "Menpo") == 71.1
    assert cell(4, "KDN", "NME box (%)", "COFW-68") is None
    assert cell(5, "LUVLi (paper)", "Externally occluded", "|Σ|^½") == 32.49
    assert cell(6, "Wing", "NME box (%)", "Full") == 3.56
    assert cell(8, "LUVLi (paper)", "AUC box 7 % (%)", "Profile") == 82.10
    assert cell(12, "DU-Net", "NME-vis box (%)", "Profile") == 3.10
    assert cell(13, "LUVLi (paper)", "FR 10 % (%)", "Blur") == 3.23
    assert cell(13, "HR-Net", "AUC 10 %", "All") is None
    assert cell(13, "AVS", "AUC 10 %", "Pose") == 0.311


def test_by_number_by_name_and_unknown():
    assert published_table(4) is published_table("split2") is published_table("4")
    with pytest.raises(InputError, match="unknown table 'split3': did you mean 'split"):
        published_table("split3")


@pytest.fixture(scope="module")
def report(faces):
    from dataclasses import replace

    return compute_metrics(replace(faces, dataset="merl_rav", method="mine"), resamples=20)


def test_our_row_stands_below_the_quoted_ones(report):
    for number in (8, 9, 12):
        table = with_reports(published_table(number), [report])
        assert len(table.rows) == len(published_table(number).rows) + 1
        assert not table.rows[-1].quoted and table.rows[-1].method == "mine"
    table = with_reports(published_table(8), [report])
    box = report.accuracy["box"]
    assert table.rows[-1].values[0] == box.nme.value
    assert table.rows[-1].values[4] == box.auc[7].value
    assert table.rows[-1].values[1] is None  # no frontal subset in this report
    line = with_reports(published_table(8), [report], auc="polyline").rows[-1]
    assert line.values[4] == box.auc_polyline[7]


def test_units_of_the_table(report):
    row = with_reports(published_table(9), [report]).rows[-1]
    plain = report.classes["unoccluded"]
    assert row.values[8] == plain.spread_paper
    assert row.values[9] == pytest.approx(plain.spread_box * 1e4)


def test_reports_of_other_data_sets_add_nothing(report):
    for number in (1, 2, 3, 4, 5, 6, 7, 10, 11, 13):
        assert with_reports(published_table(number), [report]).rows == published_table(number).rows


def test_subsets_inside_a_report_and_reports_of_subsets_fill_one_row(report):
    part = SubsetMetrics(accuracy=report.accuracy, faces=3)
    whole = report.model_copy(update={"subsets": {"profile": part}})
    frontal = report.model_copy(update={"subset": "frontal", "subsets": {}})
    row = with_reports(published_table(8), [whole, frontal]).rows[-1]
    value = report.accuracy["box"].nme.value
    assert row.values[:4] == (value, value, None, value)


def test_auc_of_wflw_is_a_fraction(report):
    mine = report.model_copy(update={"dataset": "wflw", "subset": "all"})
    row = with_reports(published_table(7), [mine]).rows[-1]
    expected = report.accuracy["interocular"].auc[10].value / 100
    assert row.values[1] == pytest.approx(expected)


def test_printing(report):
    table = with_reports(published_table(13), [report.model_copy(update={"dataset": "wflw"})])
    blocks = printed_blocks(table)
    assert [title for title, _, _ in blocks] == [
        "NME inter-ocular (%) ↓", "AUC 10 % ↑", "FR 10 % (%) ↓",
    ]  # fmt: skip
    assert all(method != "HR-Net" for method, _ in blocks[1][2])  # it has nothing there
    assert blocks[0][2][-1][0] == "mine †"
    text = table_markdown(published_table(4))
    assert "| SAN* | 2.86 | 2.95 | 3.50 | 59.7 | 61.9 | 51.9 |" in text and "| KDN |" in text
    assert table_json(table)["rows"][-1]["quoted"] is False


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
