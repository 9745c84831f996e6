"""Which prediction belongs to which label, what is said about it, and what `--data` reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scored_files import error, expected, listed, mmpose_annotations

from luvli.data.formats import write_json, write_pts
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation import plots
from luvli.evaluation.match import read_faces
from luvli.evaluation.metrics import compute_metrics
from luvli.faces import FaceLandmarks, Faces
from luvli.likelihood import family
from luvli.prediction.rows import Row
from luvli.prediction.settings import SUFFIXES
from luvli.prediction.writers import write_results

ORDER = np.random.default_rng(0).permutation(12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("{:03d}.jpg", "{:03d}.jpg"), ("a/set/{}.png", "elsewhere/set/{}.jpg"),
        # ibug has an "image_092 _01.jpg", which most lists write without the space
        ("ibug/image_{:03d} _01.jpg", "ibug/image_{:03d}_01.png"),
        ("{:04d}.png", "testset/{}.png"), ("9" * 300 + "{}.jpg", "9" * 300 + "{}.jpg"),
    ],
)  # fmt: skip
def test_faces_are_matched_by_the_names_of_their_images(tmp_path, few, ours, theirs):
    predicted, truth = few
    result = read_faces(
        listed(tmp_path / "p.json", predicted[ORDER], [ours.format(i) for i in ORDER]),
        listed(tmp_path / "t.json", truth, [theirs.format(i) for i in range(12)]),
    )
    assert np.array_equal(result.points, predicted) and result.notes == ()
    with pytest.raises(InputError, match="no image of these faces was found"):
        plots.draw_plot("faces", [result])


def test_the_key_with_most_names_in_common_matches(tmp_path, few):
    """One face id that happens to be equal must not outweigh all the image names."""
    for name, points, same in (("p", few[0], 7), ("t", few[1], 0)):
        faces = [
            {"image": f"{i}.jpg", "face_id": "same" if i == same else f"{name}{i}",
             "points": face.tolist()} for i, face in enumerate(points)
        ]  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps(faces))
    result = read_faces(tmp_path / "p.json", tmp_path / "t.json")
    assert np.array_equal(result.points, few[0])


def test_faces_without_prediction_are_failures_with_a_note(tmp_path, few):
    predicted, truth = few
    names = [f"{i}.jpg" for i in range(8)] + ["stranger.jpg"]
    result = read_faces(
        listed(tmp_path / "p.json", predicted[:9], names), listed(tmp_path / "t.json", truth)
    )
    assert result.failed.tolist() == [False] * 8 + [True] * 4
    assert "4 of 12 faces have no prediction" in result.notes[0]
    assert "1 predictions have no label" in result.notes[1]


def test_several_faces_of_one_image_find_their_own_labels(tmp_path, few):
    predicted, truth = few
    result = read_faces(
        listed(tmp_path / "p.json", predicted[[2, 0, 1]], ["group.jpg"] * 3),
        listed(tmp_path / "t.json", truth[:2], ["group.jpg"] * 2),
    )
    assert np.array_equal(result.points, predicted[:2])
    assert "1 predictions have no label" in result.notes[0]


def test_without_names_the_order_counts_unless_it_is_absurd(tmp_path, few):
    predicted, truth = few
    (tmp_path / "p.json").write_text(json.dumps(predicted.tolist()))
    np.savez(tmp_path / "t.npz", points=truth)
    result = read_faces(tmp_path / "p.json", tmp_path / "t.npz")
    assert error(result) == pytest.approx(expected(few))
    assert "matched by their ORDER" in result.notes[0]
    (tmp_path / "p.json").write_text(json.dumps(predicted[::-1].tolist()))
    with pytest.raises(InputError, match=r"matched by their order the median error is \d+ %"):
        read_faces(tmp_path / "p.json", tmp_path / "t.npz")
    forced = read_faces(tmp_path / "p.json", tmp_path / "t.npz", by_order=True)
    assert "ORDER" in forced.notes[0]


def test_boxes_of_the_label_file_only_when_asked(tmp_path, few):
    predicted, truth = few
    records = [
        FaceRecord(points=p, visibility=np.ones(68), box=[0.0, 0, 50, 50], dataset=f"set {i % 2}")
        for i, p in enumerate(truth)
    ]
    write_json(tmp_path / "t.json", records)
    np.savez(tmp_path / "p.npz", points=predicted)
    plain = read_faces(tmp_path / "p.npz", tmp_path / "t.json")
    assert plain.label_boxes is None
    assert plain.dataset == ""  # labels of several sets have no name of one
    given = read_faces(tmp_path / "p.npz", tmp_path / "t.json", given_boxes=True)
    assert given.label_boxes.tolist() == [[0, 0, 50, 50]] * 12


def test_reports_keep_images_where_they_can_be_found_again(tmp_path, few, monkeypatch):
    predicted, truth = few
    for i in range(12):
        write_pts(tmp_path / f"faces/f{i}.pts", truth[i])
        (tmp_path / f"faces/f{i}.png").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    np.savez("p.npz", points=predicted, names=np.array([f"f{i}" for i in range(12)]))
    result = read_faces("p.npz", "faces")
    assert all(Path(image).is_absolute() and Path(image).is_file() for image in result.images)


# --- pixels that count from 1 ------------------------------------------------------------


@pytest.mark.parametrize(("side", "option"), [("predictions", "one"), ("labels", "truth-one")])
def test_a_pixel_between_the_two_sides_is_said_aloud(tmp_path, few, luvli, side, option):
    predicted, truth = few
    own = np.array([0.5, -0.2])  # a method's own habit does not hide it
    extra = {"predictions": (1, 0), "labels": (0, 1)}[side]
    mine = listed(tmp_path / "p.json", predicted + extra[0] + own * (1 if extra[0] else -1))
    labels = listed(tmp_path / "t.json", truth + extra[1])
    said = luvli("score", mine, "--truth", labels)
    assert said.exit_code == 0
    assert f"do the {side} count pixels from 1? Then say --{option}-based." in said.output
    mended = luvli("score", mine, "--truth", labels, f"--{option}-based")
    assert mended.exit_code == 0 and "count pixels" not in mended.output
    flag = {"one_based": True} if side == "predictions" else {"truth_one_based": True}
    assert error(read_faces(mine, labels, **flag)) < error(read_faces(mine, labels))


def test_no_pixel_between_the_sides_is_no_note(tmp_path, few):
    labels = listed(tmp_path / "t.json", few[1])
    for shift in ([0.0, 0.0], [1.2, 0.0], [0.4, 0.4], [6.0, 6.0], [1.0, -1.0]):
        mine = listed(tmp_path / "p.json", few[0] + np.array(shift))
        assert read_faces(mine, labels).notes == ()


# --- data sets as the labels -------------------------------------------------------------


def test_a_data_set_as_the_labels(tmp_path, few, luvli):
    """The COFW68 benchmark's text files against its own annotations."""
    from scipy.io import savemat

    predicted, truth = few
    (tmp_path / "cofw/test_annotations").mkdir(parents=True)
    for i, p in enumerate(truth, start=1):
        arrays = {"Points": p + 1, "Occ": np.zeros((68, 1))}
        savemat(tmp_path / f"cofw/test_annotations/{i}_points.mat", arrays)
    lines = []
    for i in ORDER:
        lines += [f"{i + 1} ", *(" ".join(f"{v:.3f}" for v in xy) for xy in (predicted[i] + 1).T)]
        lines.append(" ".join(["0"] * 68))
    (tmp_path / "CFSS_CFOW68.txt").write_text("\n".join(lines) + "\n")
    result = read_faces(tmp_path / "CFSS_CFOW68.txt", data=("cofw68", tmp_path / "cofw"))
    assert error(result) == pytest.approx(expected(few), abs=1e-3)
    assert result.dataset == "cofw68" and result.notes == ()
    order = ("score", tmp_path / "CFSS_CFOW68.txt", "--data", "cofw68", tmp_path / "cofw", "--json")
    done = luvli(*order)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["metrics"]["nme_box"]["value"] == pytest.approx(error(result))


@pytest.mark.parametrize("kind", ["pts", "mmpose"])
def test_a_folder_of_ones_own_as_the_labels(tmp_path, few, kind):
    """All of it: most folders have no part that is called test."""
    predicted, truth = few
    folder = tmp_path / "annotations"
    folder.mkdir()
    for i, points in enumerate(truth if kind == "pts" else []):
        write_pts(folder / f"image{i}.pts", points)
    if kind == "mmpose":
        content = json.dumps(mmpose_annotations(truth))
        (folder / "face_landmarks_300w_test.json").write_text(content)
    mine = listed(tmp_path / "p.json", predicted, [f"images/image{i}.jpg" for i in range(12)])
    assert error(read_faces(mine, data=("folder", folder))) == pytest.approx(expected(few))


# --- `luvli predict --format X`, then `luvli score` --------------------------------------


@pytest.fixture
def scene(tmp_path, make_faces):
    """Eight images with a labelled face each; the model also finds a stranger in two of them,
    and calls a tenth of the landmarks hidden."""
    faces = make_faces(8)
    truth = np.where(np.isnan(faces.labels), faces.points, faces.labels)
    records, results = [], []
    for i in range(8):
        image = f"photos/p{i}.jpg"
        records.append(FaceRecord(points=truth[i], visibility=np.ones(68), image=Path(image)))
        seen = np.where(np.arange(68) % 10 == i, 0.1, 0.9)
        face = FaceLandmarks(
            points=faces.points[i], covariance=faces.covariance[i], visibility=seen,
            box=[0, 0, 9, 9],
        )  # fmt: skip
        stranger = face.transform([[1, 0, 900], [0, 1, 0]])
        results.append(Row(image, Faces.stack([face, stranger] if i in (2, 5) else [face])))
    write_json(tmp_path / "truth.json", records)
    return results, faces, tmp_path


@pytest.mark.parametrize("name", SUFFIXES)
def test_every_format_closes(scene, name):
    results, faces, folder = scene
    path = folder / f"predictions{SUFFIXES[name]}"
    write_results(path, results, name)
    back = read_faces(path, folder / "truth.json")
    # hidden ones too; files of predictions round to a thousandth of a pixel
    assert back.points == pytest.approx(faces.points, abs=5.1e-4)
    assert back.notes == ("2 predictions have no label and are left out.",)
    if name in ("json", "csv", "parquet"):
        assert back.covariance == pytest.approx(faces.covariance, rel=1e-3, abs=1e-3)
        assert back.visibility[2, 2] == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["json", "csv", "parquet"])
def test_the_density_and_what_was_trained_travel(scene, name):
    """Labels drawn from the density fall inside as often as it says, whatever the file."""
    results, faces, folder = scene
    path, law = folder / f"predictions{SUFFIXES[name]}", "student-8"
    untaught = [one._replace(faces=replace(one.faces, covariance_trained=False)) for one in results]
    write_results(path, untaught, name)
    assert read_faces(path, folder / "truth.json").covariance is None
    drawn = [one._replace(faces=replace(one.faces, likelihood=law)) for one in results]
    write_results(path, drawn, name)
    back = read_faces(path, folder / "truth.json")
    assert back.likelihood == law
    assert read_faces(path, folder / "truth.json", likelihood="gauss").likelihood == "gauss"
    rng = np.random.default_rng(0)
    truth = family(law).from_covariance(faces.points, faces.covariance).sample(1, rng)[0]
    scored = replace(back, labels=truth, label_visibility=np.ones((8, 68), np.int8))
    found = compute_metrics(scored, resamples=50)
    assert found.likelihood == law
    assert found.value("coverage_90") == pytest.approx(90, abs=5)
    wanted = family(law).from_covariance(back.points, back.covariance).entropy().mean()
    assert found.value("nll_pixel") == pytest.approx(wanted, abs=0.15)
