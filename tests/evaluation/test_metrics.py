"""Every metric through the registry: agreement with the single functions, and every edge case."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scored_files import changed

from luvli.errors import InputError
from luvli.evaluation import accuracy, registry, uncertainty
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.labelled_parquet import read_report_faces, write_predictions
from luvli.evaluation.metrics import Evaluation, compute_metrics
from luvli.evaluation.report import report_sections, value_table


def test_numbers_are_those_of_the_single_functions(faces):
    result = compute_metrics(faces, resamples=20)
    for kind in accuracy.NORMALIZERS:
        errors = accuracy.nme(faces.points, faces.labels, kind)
        assert result.value(f"nme_{kind}") == pytest.approx(errors.mean())
        for cutoff in (7, 8, 10):
            for name, expected in (
                ("auc{}_{}", accuracy.auc(errors, cutoff)),
                ("fr{}_{}", accuracy.failure_rate(errors, cutoff)),
                ("auc{}_polyline_{}", accuracy.auc(errors, cutoff, "polyline")),
            ):
                assert result.value(name.format(cutoff, kind)) == pytest.approx(expected)
        visible = accuracy.nme(faces.points, faces.labels, kind, average="visible")
        assert result.value(f"nme_vis_{kind}") == pytest.approx(visible.mean())
    given = uncertainty.Residuals.of(faces.points, faces.covariance, faces.labels)
    nll = uncertainty.negative_log_likelihood(given)
    assert result.value("nll_pixel") == pytest.approx(np.nanmean(nll))
    published = uncertainty.negative_log_likelihood(
        given, scale=faces.paper_pixel * 4, constant=False
    )
    assert result.value("nll_published") == pytest.approx(np.nanmean(published))
    right = (faces.visibility > 0.5) == (faces.label_visibility > 0)
    assert result.value("visibility_accuracy") == pytest.approx(right.mean())
    hidden = faces.label_visibility == 0
    assert result.value("accuracy_by_class.self_occluded") == pytest.approx(right[hidden].mean())
    unit = np.broadcast_to(faces.paper_pixel[:, None] ** 2, hidden.shape)
    roots, seen = np.sqrt(np.linalg.det(faces.covariance)), faces.label_visibility == 1
    assert result.value("spread_paper.unoccluded") == pytest.approx((roots / unit)[seen].mean())
    assert result.value("spread_paper.self_occluded") is None
    errors = faces.landmark_errors()
    assert result.value("error_by_part.jaw") == pytest.approx(np.nanmean(errors[:, :17]))
    assert result.value("pck5") == pytest.approx(
        np.nanmean(np.where(np.isnan(errors), np.nan, errors <= 5).T, axis=0).mean() * 100
    )


def test_subsets_are_measured_as_sets_of_their_own(faces):
    result = compute_metrics(faces, resamples=20)
    alone = compute_metrics(faces[faces.subsets["odd"]], resamples=20)
    assert result.subsets["odd"].faces == 20 and alone.subsets == {}
    for name, value in result.subsets["odd"].metrics.items():
        if not name.startswith(("error_by_face", "coverage_by_face")):  # thirds of other faces
            assert value == pytest.approx(alone.metrics[name], nan_ok=True), name


def test_points_alone_are_enough(make_faces):
    bare = changed(make_faces(5), covariance=None, visibility=None, paper_pixel=None)
    result = compute_metrics(bare, resamples=5)
    assert result.value("nme_box") > 0 and result.missing == ("covariance", "visibility")
    sections = {registry.get_metric(name).section for name in result.metrics}
    assert sections == {"Accuracy", "Visibility"}
    box = compute_metrics(make_faces(1), resamples=5).metrics["nme_box"]
    assert box.value > 0 and np.isnan([box.low, box.high]).all()
    with pytest.raises(InputError, match="no faces to evaluate"):
        compute_metrics(bare[[]])


def test_missing_predictions_are_named_and_counted(make_faces):
    faces = make_faces(10)
    points, covariance = faces.points.copy(), faces.covariance.copy()
    points[4], covariance[4] = np.nan, np.nan
    result = compute_metrics(changed(faces, points=points, covariance=covariance), resamples=5)
    assert result.failed == ("face_004",)
    before = compute_metrics(faces, resamples=5)
    rest = accuracy.nme(np.delete(faces.points, 4, 0), np.delete(faces.labels, 4, 0))
    assert result.value("nme_box") == pytest.approx((rest.sum() + 100) / 10)
    assert result.value("nme_predicted_box") == pytest.approx(rest.mean())
    assert result.value("fr10_box") == pytest.approx(before.value("fr10_box") + 10)
    assert np.isfinite(result.value("aurc_face"))


@pytest.mark.parametrize("case", ["no label", "no prediction", "one face without labels"])
def test_what_cannot_be_measured_stands_in_no_mean(tmp_path, make_faces, case):
    faces = make_faces(3)
    points, labels, classes = (
        a.copy() for a in (faces.points, faces.labels, faces.label_visibility)
    )
    rows = slice(None) if case == "no label" else slice(1, 2)
    if case == "no prediction":
        points[:] = np.nan
    else:
        labels[rows], classes[rows] = np.nan, 0
    covariance = np.where(np.isnan(points)[..., None], np.nan, faces.covariance)
    result = compute_metrics(
        changed(
            faces, points=points, labels=labels, label_visibility=classes, covariance=covariance
        ),
        resamples=5,
    )
    (tmp_path / "m.json").write_text(result.to_json())
    assert Evaluation.read(tmp_path / "m.json").to_json() == result.to_json()
    if case == "no prediction":
        assert len(result.failed) == 3
        assert result.value("nme_box") == 100 and result.value("auc7_box") == 0
    elif case == "no label":
        assert result.value("nme_box") is None and len(result.unmeasurable) == 3
    else:
        assert result.unmeasurable == ("face_001",) and result.failed == ()
        rest = accuracy.nme(np.delete(points, 1, 0), np.delete(labels, 1, 0))
        assert result.value("nme_box") == pytest.approx(rest.mean())


def test_unknown_markup_has_boxes_only(make_faces):
    faces = make_faces(4)
    odd = LabelledFaces.from_arrays(faces.points[:, :7], faces.labels[:, :7])
    found = compute_metrics(odd, resamples=5)
    kinds = {registry.get_metric(name).normalizer for name in found.metrics} - {""}
    assert kinds == {"box", "diagonal"}


def test_the_data_sets_own_normaliser_is_reported_too(faces):
    own = replace(faces, lengths={"box_size": np.full(len(faces), 50.0)})
    expected = accuracy.nme(faces.points, faces.labels, np.full(len(faces), 50.0)).mean()
    result = compute_metrics(own, resamples=5)
    assert result.value("nme_box_size|nme_diagonal") == pytest.approx(expected)
    plain = compute_metrics(faces, resamples=5)
    assert plain.value("nme_box_size|nme_diagonal") == plain.value("nme_diagonal")


def test_what_is_quoted_is_a_metric():
    assert len(registry.METRICS) == len(registry._LINES)  # no name stands twice
    assert all(set(names) <= set(registry.METRICS) for names in registry.QUOTED.values())


def test_one_line_puts_a_metric_everywhere(faces, monkeypatch, tmp_path):
    """As CONTRIBUTING says: a function and a line of the registry."""
    from luvli.evaluation import compare

    def largest(faces: LabelledFaces) -> np.ndarray:
        return np.nanmax(faces.landmark_errors(), axis=1)

    line = registry.Metric("largest", "largest error", "% of the box", largest, better="lower")
    monkeypatch.setitem(registry.METRICS, "largest", line)
    result = compute_metrics(faces, resamples=5)
    expected = f"{np.nanmax(faces.landmark_errors(), axis=1).mean():.2f}"
    assert '"largest"' in result.to_json()
    assert expected in value_table(result).text()
    tables = report_sections(result)["Accuracy"]
    assert any(expected in table.html() and expected in table.markdown() for table in tables)
    both = [compare.StoredReport(result, faces), compare.StoredReport(result, faces)]
    for table in compare.Comparison(compare.distinct(both, ["a", "b"])).tables():
        assert "largest error" in table.text()


def test_parquet_keeps_everything(tmp_path, faces):
    full = changed(
        faces, label_boxes=np.tile([0.0, 0, 9, 9], (len(faces), 1)), notes=("one", "two"),
        lengths={"box_size": np.arange(1.0, len(faces) + 1)}, images=("a.jpg",) * len(faces),
    )  # fmt: skip
    write_predictions(tmp_path / "p.parquet", full)
    back = read_report_faces(tmp_path / "p.parquet")
    for name in ("points", "labels", "label_visibility", "covariance", "visibility",
                 "label_boxes", "paper_pixel"):  # fmt: skip
        assert np.array_equal(getattr(back, name), getattr(full, name), equal_nan=True), name
    for name in ("names", "images", "markup", "method", "dataset", "subset", "notes"):
        assert getattr(back, name) == getattr(full, name), name
    assert np.array_equal(back.subsets["odd"], full.subsets["odd"])
    assert np.array_equal(back.lengths["box_size"], full.lengths["box_size"])
    points = full.points.copy()
    points[3], points[5, :4] = np.nan, np.nan  # no prediction, and none of some landmarks
    gaps = changed(full, points=points)
    write_predictions(tmp_path / "p.parquet", gaps)
    again = compute_metrics(read_report_faces(tmp_path / "p.parquet"), resamples=2)
    assert again.to_json() == compute_metrics(gaps, resamples=2).to_json()
    bare = changed(full, covariance=None, visibility=None, paper_pixel=None, subsets={})
    write_predictions(tmp_path / "p.parquet", bare)
    back = read_report_faces(tmp_path / "p.parquet")
    assert back.covariance is None and np.array_equal(back.points, bare.points)
