"""Predictions of other programs: every format, matching, and what is refused."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow.parquet
import pytest

from luvli.data.formats import write_csv, write_json, write_pts
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation.match import read_faces
from luvli.evaluation.report_file import write_predictions


def records(faces, order=None):
    return [
        FaceRecord(
            points=faces.labels[i], visibility=faces.label_visibility[i], face_id=faces.names[i],
            markup="ibug68", attributes={"subsets": ["odd"] if i % 2 else []},
        )
        for i in (order if order is not None else range(len(faces)))
    ]  # fmt: skip


@pytest.fixture
def truth_json(tmp_path, faces):
    write_json(tmp_path / "truth.json", records(faces))
    return tmp_path / "truth.json"


def same(result, faces):
    assert np.array_equal(result.points, faces.points)
    assert np.array_equal(result.labels, faces.labels, equal_nan=True)
    assert np.array_equal(result.label_visibility, faces.label_visibility)
    assert result.names == faces.names


@pytest.mark.parametrize("key", ["points", "landmarks", "pred", "means", "Predictions"])
def test_npz_under_obvious_names(tmp_path, faces, truth_json, key):
    np.savez(tmp_path / "p.npz", **{key: faces.points, "names": np.array(faces.names)})
    result = read_faces(tmp_path / "p.npz", truth_json)
    same(result, faces)
    assert result.covariance is None and result.visibility is None
    assert result.subsets["odd"].sum() == 20


def test_flat_coordinates_and_one_array_of_any_name(tmp_path, faces, truth_json):
    np.savez(tmp_path / "p.npz", anything=faces.points.reshape(len(faces), -1))
    same(read_faces(tmp_path / "p.npz", truth_json), faces)
    np.save(tmp_path / "p.npy", faces.points)
    same(read_faces(tmp_path / "p.npy", truth_json), faces)


def test_covariance_and_cholesky_and_visibility(tmp_path, faces, truth_json):
    factor = np.linalg.cholesky(faces.covariance)
    three = np.stack([factor[..., 0, 0], factor[..., 1, 0], factor[..., 1, 1]], axis=-1)
    for name, value in (("covariance", faces.covariance), ("cholesky", factor),
                        ("cholesky", three)):  # fmt: skip
        np.savez(
            tmp_path / "p.npz", points=faces.points, visibility=faces.visibility[..., None],
            **{name: value},
        )  # fmt: skip
        result = read_faces(tmp_path / "p.npz", truth_json)
        assert result.covariance == pytest.approx(faces.covariance)
        assert np.array_equal(result.visibility, faces.visibility)


def published_arrays(faces):
    """As the published evaluation saves them: multiplied by visibility, in crop pixels."""
    v = np.where(faces.label_visibility > 0, 1.0, 1e-5)[..., None]
    factor = np.linalg.cholesky(faces.covariance)
    return {
        "ground_truth": np.nan_to_num(faces.labels, nan=100.0) * v,
        "means": faces.points * v,
        "cholesky": factor,
        "vis_gt": faces.label_visibility.astype(float),
        "vis_estimated": faces.visibility,
    }


@pytest.mark.parametrize("kind", ["npz", "npy folder"])
def test_the_arrays_of_the_published_evaluation(tmp_path, faces, kind):
    arrays = published_arrays(faces)
    if kind == "npz":
        np.savez(tmp_path / "run.npz", **arrays)
        result = read_faces(tmp_path / "run.npz")
    else:
        for name, value in arrays.items():
            np.save(tmp_path / f"{name}.npy", value)
        result = read_faces(tmp_path)
    assert np.array_equal(result.labels, faces.labels, equal_nan=True)
    assert np.array_equal(
        result.points[faces.label_visibility > 0], faces.points[faces.label_visibility > 0]
    )
    assert np.array_equal(result.label_visibility, faces.label_visibility)
    assert result.paper_pixel.tolist() == [1.0] * len(faces)


def test_json_of_predictions_keeps_what_the_model_calls_hidden(tmp_path, faces, truth_json):
    listed = [
        {
            "face_id": name, "markup": "ibug68", "points": faces.points[i].tolist(),
            "covariance": faces.covariance[i].tolist(), "visibility": [0.1] * 68,
        }
        for i, name in enumerate(faces.names)
    ]  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps({"faces": listed[::-1]}))
    result = read_faces(tmp_path / "p.json", truth_json)
    same(result, faces)
    assert result.covariance == pytest.approx(faces.covariance) and not result.failed.any()


@pytest.mark.parametrize("form", ["mapping", "list"])
def test_plain_json_of_points(tmp_path, faces, truth_json, form):
    pairs = [(f"a/{n}.jpg", faces.points[i].tolist()) for i, n in enumerate(faces.names)]
    content = dict(pairs) if form == "mapping" else [
        {"image": name, "landmarks": points} for name, points in pairs
    ]  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps(content))
    same(read_faces(tmp_path / "p.json", truth_json), faces)


def test_the_key_with_most_names_in_common_matches(tmp_path, faces):
    """One face id that happens to be equal must not outweigh all the image names."""
    labels = [
        r.with_changes(image=f"{i}.jpg", face_id="same" if i == 0 else f"t{i}")
        for i, r in enumerate(records(faces))
    ]
    write_json(tmp_path / "t.json", labels)
    listed = [
        {"image": f"{i}.jpg", "face_id": "same" if i == 7 else f"p{i}", "points": points.tolist()}
        for i, points in enumerate(faces.points)
    ]
    (tmp_path / "p.json").write_text(json.dumps(listed))
    result = read_faces(tmp_path / "p.json", tmp_path / "t.json")
    assert np.array_equal(result.points, faces.points)


def test_json_with_untrained_visibility(tmp_path, faces, truth_json):
    listed = [
        {"face_id": n, "points": faces.points[i].tolist(), "visibility": [0.5] * 68,
         "visibility_trained": False}
        for i, n in enumerate(faces.names)
    ]  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps({"faces": listed}))
    assert read_faces(tmp_path / "p.json", truth_json).visibility is None


@pytest.mark.parametrize(
    ("style", "first"),
    [("A_{}", 0), ("A{}", 0), ("A_{}", 1), ("point_A_{}", 0), ("landmark_{}_A", 1), ("{}_A", 0)],
)
def test_csv_of_predictions(tmp_path, faces, truth_json, style, first):
    with (tmp_path / "p.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        numbers = range(first, first + 68)
        axes = [style.format(j).replace("A", axis) for j in numbers for axis in "xy"]
        writer.writerow(["image", *axes])
        for i, name in enumerate(faces.names):
            writer.writerow(
                [f"some/folder/{name}.png", *map(repr, faces.points[i].ravel().tolist())]
            )
    same(read_faces(tmp_path / "p.csv", truth_json), faces)


def test_our_own_csv_carries_covariance_and_visibility(tmp_path, faces, truth_json):
    predictions = [
        FaceRecord(
            points=faces.points[i], visibility=np.ones(68), face_id=faces.names[i],
            covariance=faces.covariance[i], visibility_probability=faces.visibility[i],
        )
        for i in range(len(faces))
    ]  # fmt: skip
    write_csv(tmp_path / "p.csv", predictions)
    result = read_faces(tmp_path / "p.csv", truth_json)
    same(result, faces)
    assert result.covariance == pytest.approx(faces.covariance)
    assert np.array_equal(result.visibility, faces.visibility)


def test_pts_folders_on_both_sides(tmp_path, faces):
    for i, name in enumerate(faces.names):
        write_pts(tmp_path / "p" / f"{name}.pts", faces.points[i])
        write_pts(tmp_path / "t" / f"{name}.pts", faces.labels[i], faces.label_visibility[i])
    result = read_faces(tmp_path / "p", tmp_path / "t")
    assert result.points == pytest.approx(faces.points, abs=1e-9)
    assert np.array_equal(result.label_visibility, faces.label_visibility)
    assert result.labels[faces.label_visibility > 0] == pytest.approx(
        faces.labels[faces.label_visibility > 0]
    )


def test_parquet_alone_and_against_other_truth(tmp_path, faces, truth_json):
    write_predictions(tmp_path / "p.parquet", faces)
    same(read_faces(tmp_path / "p.parquet", method="again"), faces)
    assert read_faces(tmp_path / "p.parquet", method="again").method == "again"
    result = read_faces(tmp_path / "p.parquet", truth_json)
    same(result, faces)
    assert np.array_equal(result.paper_pixel, faces.paper_pixel)


@pytest.mark.parametrize("column", ["points", "truth", "covariance", "visibility_class"])
def test_rows_of_a_report_that_do_not_fit_together_are_one_sentence(tmp_path, faces, column):
    write_predictions(tmp_path / "p.parquet", faces)
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    rows = table[column].to_pylist()
    rows[1], rows[2] = rows[1][:-4], rows[2] + rows[1][-4:]  # as many values as before
    index = table.column_names.index(column)
    kind = table.schema.field(column).type
    damaged = table.set_column(index, column, pyarrow.array(rows, kind))
    pyarrow.parquet.write_table(damaged, tmp_path / "p.parquet")
    with pytest.raises(InputError, match=f"rows of '{column}' that do not fit together"):
        read_faces(tmp_path / "p.parquet")


def test_counting_from_one(tmp_path, faces, truth_json):
    np.savez(tmp_path / "p.npz", points=faces.points + 1, names=np.array(faces.names))
    result = read_faces(tmp_path / "p.npz", truth_json, one_based=True)
    assert result.points == pytest.approx(faces.points)


def test_faces_are_matched_by_name_not_by_order(tmp_path, faces):
    order = np.random.default_rng(0).permutation(len(faces))
    write_json(tmp_path / "t.json", records(faces, order))
    np.savez(tmp_path / "p.npz", points=faces.points, names=np.array(faces.names))
    result = read_faces(tmp_path / "p.npz", tmp_path / "t.json")
    assert result.names == tuple(faces.names[i] for i in order)
    assert np.array_equal(result.points, faces.points[order])


def test_faces_without_prediction_are_failures_with_a_note(tmp_path, faces, truth_json):
    names = np.array([*faces.names[:30], "stranger"])
    points = np.concatenate([faces.points[:30], faces.points[:1]])
    np.savez(tmp_path / "p.npz", points=points, names=names)
    result = read_faces(tmp_path / "p.npz", truth_json)
    assert result.failed.tolist() == [False] * 30 + [True] * 10
    assert "10 of 40 faces have no prediction" in result.notes[0]
    assert "1 predictions have no label" in result.notes[1]


def test_without_names_the_order_counts_and_a_note_says_so(tmp_path, faces):
    np.savez(tmp_path / "p.npz", points=faces.points)
    np.savez(tmp_path / "t.npz", points=faces.labels)
    result = read_faces(tmp_path / "p.npz", tmp_path / "t.npz")
    assert np.array_equal(result.points, faces.points)
    assert "matched by their ORDER" in result.notes[0]
    assert (result.label_visibility == -1).sum() == np.isnan(faces.labels[..., 0]).sum()


def test_boxes_of_the_label_file_only_when_asked(tmp_path, faces):
    boxed = [r.with_changes(box=np.array([0.0, 0, 50, 50])) for r in records(faces)]
    write_json(tmp_path / "t.json", boxed)
    np.savez(tmp_path / "p.npz", points=faces.points)
    assert read_faces(tmp_path / "p.npz", tmp_path / "t.json").label_boxes is None
    given = read_faces(tmp_path / "p.npz", tmp_path / "t.json", given_boxes=True)
    assert given.label_boxes.tolist() == [[0, 0, 50, 50]] * len(faces)


def broken(name, content):
    def make(tmp_path, faces):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path, faces)
        return path

    return make


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda tmp, f: tmp / "nowhere.npz", "does not exist"),
        (broken("p.npz", b"not a zip"), "not a readable numpy file"),
        (broken("p.npz", lambda p, f: np.savez(p, a=np.ones(3), b=np.ones(3))), "name it 'points'"),
        (broken("p.npz", lambda p, f: np.savez(p, points=np.ones((4, 3, 3)))), "shape \\(n, k, 2"),
        (broken("p.npz", lambda p, f: np.savez(p, points=f.points[:7])), "7 faces and .* 40"),
        (broken("p.npz", lambda p, f: np.savez(p, points=f.points[:, :19])), "19 landmarks"),
        (
            broken("p.npz", lambda p, f: np.savez(
                p, points=f.points, names=np.array([f"x{i}" for i in range(40)]))),
            "name them alike",
        ),
        (
            broken("p.npz", lambda p, f: np.savez(
                p, points=f.points, covariance=np.ones((40, 68, 3)))),
            "covariance must have shape",
        ),
        (broken("p.csv", b"a,b\n1,2\n"), "no columns x_0"),
        (broken("p.csv", b""), "no columns x_0"),
        (broken("p.csv", b"x_0,y_0\n1,two\n"), "line 2: could not convert"),
        (broken("p.json", b'{"faces": 3}'), "not a JSON of faces"),
        (broken("p.json", b"nonsense"), "not valid JSON"),
        (broken("p.txt", b"1 2 3 a"), "pairs of coordinates"),
        (broken("p.doc", b"1 2 3"), "is not npz, npy, csv, tsv, json"),
        (broken("p.npy", lambda p, f: np.save(p, np.array([{}], dtype=object))), "not a readable"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_sentence(tmp_path, faces, truth_json, make, sentence):
    with pytest.raises(InputError, match=sentence):
        read_faces(make(tmp_path, faces), truth_json)


def test_labels_must_come_from_somewhere(tmp_path, faces):
    np.savez(tmp_path / "p.npz", points=faces.points)
    with pytest.raises(InputError, match="give them with --truth"):
        read_faces(tmp_path / "p.npz")


def test_an_empty_folder(tmp_path, truth_json):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no \.pts"):
        read_faces(tmp_path / "empty", truth_json)


@pytest.mark.parametrize("signs", [True, False])
def test_what_a_model_calls_hidden_has_no_place_in_pts(tmp_path, few, signs):
    """`luvli predict --format pts` writes -1 -1; with --no-signs, too, that is no location."""
    predicted, truth = few
    hidden = np.ones(68, np.int8)
    hidden[3] = 0
    for i, (guess, label) in enumerate(zip(predicted, truth, strict=True)):
        write_pts(tmp_path / f"p/{i}.pts", guess, hidden if i == 0 else None)
        write_pts(tmp_path / f"t/{i}.pts", label)
    result = read_faces(tmp_path / "p", tmp_path / "t", signs=signs)
    assert np.isnan(result.points[0, 3]).all() and np.isfinite(result.points[1:]).all()
    assert "1 landmarks are called self-occluded" in result.notes[0]
