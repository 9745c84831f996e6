"""The dictionary of all metrics: agreement with the single functions, and every edge case."""

from __future__ import annotations

import numpy as np
import pytest
from scored_files import changed

from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation import accuracy, uncertainty
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metric_records import EvaluationMetrics, SubsetMetrics, find_metric
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.report_file import read_parquet, write_parquet
from luvli.faces import FaceLandmarks, Faces


def test_numbers_are_those_of_the_single_functions(faces):
    result = compute_metrics(faces, resamples=50)
    for kind in accuracy.NORMALIZERS:
        errors = accuracy.nme(faces.points, faces.labels, kind)
        block = result.accuracy[kind]
        assert block.nme.value == pytest.approx(errors.mean())
        for cutoff in (7, 8, 10):
            assert block.auc[cutoff].value == pytest.approx(accuracy.auc(errors, cutoff))
            assert block.failure_rate[cutoff].value == pytest.approx(
                accuracy.failure_rate(errors, cutoff)
            )
            assert block.auc_polyline[cutoff] == pytest.approx(
                accuracy.auc(errors, cutoff, "polyline")
            )
        seen = accuracy.nme(faces.points, faces.labels, kind, average="visible")
        assert block.nme_visible.value == pytest.approx(seen.mean())
    nll = uncertainty.negative_log_likelihood(faces.points, faces.covariance, faces.labels)
    assert result.uncertainty.nll.laplace.pixel.value == pytest.approx(np.nanmean(nll))
    published = uncertainty.negative_log_likelihood(
        faces.points, faces.covariance, faces.labels, scale=faces.paper_pixel * 4, constant=False
    )
    assert result.uncertainty.nll.published.value == pytest.approx(np.nanmean(published))


def test_subsets_are_measured_as_sets_of_their_own(faces):
    result = compute_metrics(faces, resamples=50)
    alone = compute_metrics(faces[faces.subsets["odd"]], resamples=50)
    assert result.subsets["odd"].faces == 20
    assert result.subsets["odd"].accuracy == alone.accuracy


def test_true_predictions_look_true(faces, make_faces):
    result = compute_metrics(make_faces(300), resamples=20)
    assert result.uncertainty.coverage.error < 0.01 and abs(result.uncertainty.kl) < 0.01
    assert result.uncertainty.coverage.at["0.9"] == pytest.approx(0.9, abs=0.01)
    doubled = make_faces(300)
    doubled = changed(doubled, covariance=doubled.covariance / 4)
    wrong = compute_metrics(doubled, resamples=20)
    assert wrong.uncertainty.coverage.bias < -0.1 and wrong.uncertainty.kl > 0.2


def test_spread_in_pixels_of_the_network_input(faces):
    result = compute_metrics(faces, resamples=10).classes["unoccluded"]
    chosen = faces.label_visibility == 1
    unit = np.broadcast_to(faces.paper_pixel[:, None] ** 2, chosen.shape)
    roots = np.sqrt(np.linalg.det(faces.covariance))
    assert result.spread_paper == pytest.approx((roots / unit)[chosen].mean())
    assert result.spread_pixel == pytest.approx(roots[chosen].mean())


def test_points_alone_are_enough(make_faces):
    bare = changed(make_faces(5), covariance=None, visibility=None, paper_pixel=None)
    result = compute_metrics(bare, resamples=10)
    assert result.accuracy["box"].nme.value > 0
    assert result.uncertainty is None and result.visibility is None and not result.selective


def test_missing_predictions_are_named_and_counted(make_faces):
    faces = make_faces(10)
    predicted = faces.points.copy()
    predicted[4] = np.nan
    covariance = faces.covariance.copy()
    covariance[4] = np.nan
    result = compute_metrics(changed(faces, points=predicted, covariance=covariance), resamples=10)
    assert result.failed == ("face_004",)
    before = compute_metrics(faces, resamples=10)
    block = result.accuracy["box"]
    rest = accuracy.nme(np.delete(faces.points, 4, 0), np.delete(faces.labels, 4, 0))
    assert block.nme.value == pytest.approx((rest.sum() + 100) / 10)
    assert block.nme_predicted == pytest.approx(rest.mean())
    assert block.failure_rate[10].value == pytest.approx(
        before.accuracy["box"].failure_rate[10].value + 10
    )
    assert np.isfinite(result.selective["face"].aurc)
    assert EvaluationMetrics.model_validate_json(result.to_json()).to_json() == result.to_json()


def test_a_face_without_visible_landmarks_is_named(make_faces):
    faces = make_faces(6)
    truth, classes = faces.labels.copy(), faces.label_visibility.copy()
    truth[2], classes[2] = np.nan, 0
    result = compute_metrics(changed(faces, labels=truth, label_visibility=classes), resamples=10)
    assert result.unmeasurable == ("face_002",) and result.failed == ()
    rest = accuracy.nme(np.delete(faces.points, 2, 0), np.delete(faces.labels, 2, 0))
    assert result.accuracy["box"].nme.value == pytest.approx(rest.mean())


def test_nothing_measurable_at_all(make_faces):
    faces = make_faces(2)
    gone = changed(
        faces,
        labels=np.full_like(faces.labels, np.nan),
        label_visibility=np.zeros_like(faces.label_visibility),
    )
    result = compute_metrics(gone, resamples=10)
    assert result.accuracy == {} and len(result.unmeasurable) == 2
    assert EvaluationMetrics.model_validate_json(result.to_json()).to_json() == result.to_json()


def test_all_predictions_missing(make_faces):
    faces = make_faces(3)
    gone = changed(
        faces,
        points=np.full_like(faces.points, np.nan),
        covariance=np.full_like(faces.covariance, np.nan),
    )
    result = compute_metrics(gone, resamples=10)
    assert len(result.failed) == 3
    assert result.accuracy["box"].nme.value == 100
    assert result.accuracy["box"].auc[7].value == 0
    assert EvaluationMetrics.model_validate_json(result.to_json()).to_json() == result.to_json()


def test_one_image_has_values_and_no_intervals(make_faces):
    result = compute_metrics(make_faces(1), resamples=10)
    block = result.accuracy["box"].nme
    assert block.value > 0 and np.isnan([block.low, block.high]).all()


def test_no_images_are_refused(make_faces):
    with pytest.raises(InputError, match="no faces to evaluate"):
        compute_metrics(make_faces(3)[[]])


def test_unknown_markup_has_boxes_only(make_faces):
    faces = make_faces(4)
    odd = LabelledFaces.from_arrays(
        faces.points[:, :7], faces.labels[:, :7], faces.label_visibility[:, :7]
    )
    assert set(compute_metrics(odd, resamples=10).accuracy) == {"box", "diagonal"}


def test_the_data_sets_own_normaliser_is_reported_too(faces):
    own = changed(faces, lengths={"box_size": np.full(len(faces), 50.0)})
    value = compute_metrics(own, resamples=10).accuracy["box_size"].nme.value
    expected = accuracy.nme(faces.points, faces.labels, np.full(len(faces), 50.0)).mean()
    assert value == pytest.approx(expected)


def test_a_metric_is_found_by_the_first_path_that_is_there(faces):
    result = compute_metrics(faces, resamples=10)
    box = result.accuracy["box"]
    assert find_metric(result, "accuracy.box_size.nme|accuracy.box.nme") == box.nme.value
    assert find_metric(result, "accuracy.box.auc.7") == box.auc[7].value
    assert find_metric(result, "uncertainty.kl") == result.uncertainty.kl
    bare = SubsetMetrics(faces=3, accuracy={})
    assert find_metric(bare, "accuracy.box.nme") is None
    with pytest.raises(AttributeError):
        find_metric(result, "accuracy.box.nmw")


def test_parquet_keeps_everything(tmp_path, faces):
    full = changed(
        faces, label_boxes=np.tile([0.0, 0, 9, 9], (len(faces), 1)), notes=("one", "two"),
        lengths={"box_size": np.arange(1.0, len(faces) + 1)}, images=("a.jpg",) * len(faces),
    )  # fmt: skip
    write_parquet(tmp_path / "p.parquet", full)
    back = read_parquet(tmp_path / "p.parquet")
    for name in ("points", "labels", "label_visibility", "covariance", "visibility", "label_boxes",
                 "paper_pixel"):  # fmt: skip
        assert np.array_equal(getattr(back, name), getattr(full, name), equal_nan=True), name
    for name in ("names", "images", "markup", "method", "dataset", "subset", "notes"):
        assert getattr(back, name) == getattr(full, name), name
    assert np.array_equal(back.subsets["odd"], full.subsets["odd"])
    assert np.array_equal(back.lengths["box_size"], full.lengths["box_size"])


def test_parquet_of_points_alone(tmp_path, make_faces):
    bare = changed(make_faces(3), covariance=None, visibility=None, paper_pixel=None, subsets={})
    write_parquet(tmp_path / "p.parquet", bare)
    back = read_parquet(tmp_path / "p.parquet")
    assert back.covariance is None and np.array_equal(back.points, bare.points)


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense", b"plain text"])
def test_broken_parquet_is_one_sentence(tmp_path, content):
    path = tmp_path / "p.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a readable parquet file"):
        read_parquet(path)


def test_records_and_predictions_become_arrays(make_faces):
    faces = make_faces(3)
    records = [
        FaceRecord(
            points=faces.labels[i], visibility=faces.label_visibility[i], face_id=f"r{i}",
            attributes={"subsets": ["even"] if i % 2 == 0 else [], "box_size": 10.0 + i},
        )
        for i in range(3)
    ]  # fmt: skip
    predictions = [
        FaceLandmarks(
            points=faces.points[i], covariance=faces.covariance[i],
            visibility=faces.visibility[i], box=[0, 0, 1, 1],
        )
        for i in range(2)
    ] + [FaceLandmarks.empty("ibug68")]  # fmt: skip
    result = LabelledFaces.from_records(records, Faces.stack(predictions), method="m")
    assert result.names == ("r0", "r1", "r2") and result.failed.tolist() == [False, False, True]
    assert result.subsets["even"].tolist() == [True, False, True]
    assert result.lengths["box_size"].tolist() == [10, 11, 12]
    assert np.array_equal(result.labels, faces.labels, equal_nan=True)
    with pytest.raises(InputError, match="one prediction for each face"):
        LabelledFaces.from_records(records, Faces.stack(predictions[:2]))


def test_untrained_visibility_is_not_evaluated(make_faces):
    faces = make_faces(1)
    record = FaceRecord(points=faces.labels[0], visibility=faces.label_visibility[0])
    prediction = FaceLandmarks(
        points=faces.points[0], covariance=faces.covariance[0], visibility=faces.visibility[0],
        box=[0, 0, 1, 1], visibility_trained=False,
    )  # fmt: skip
    assert LabelledFaces.from_records([record], Faces.stack([prediction])).visibility is None
