"""Files of our own and of public projects, as predictions and as labels.

Real files (SPIGA's results, the COFW68 benchmark's, HRNet's lists of 300-W, the lists of the
paper's published code) were scored with the same readers and give the figures that their projects
print; they may not be passed on, so their names and order are kept here.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from scored_files import error, expected, listed, mmpose_annotations

from luvli.data.formats import write_json, write_pts
from luvli.data.formats.mediapipe import MESH_TO_IBUG68
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation.labelled_parquet import write_predictions
from luvli.evaluation.match import read_faces
from luvli.evaluation.metrics import compute_metrics

NAMES = [f"images/private/indoor/indoor_{i:03d}.png" for i in range(12)]


@pytest.fixture
def truth_json(tmp_path, faces):
    records = [
        FaceRecord(
            points=faces.labels[i], visibility=faces.label_visibility[i], face_id=faces.names[i],
            attributes={"subsets": ["odd"] if i % 2 else []},
        )
        for i in range(len(faces))
    ]  # fmt: skip
    write_json(tmp_path / "truth.json", records)
    return tmp_path / "truth.json"


def same(result, faces):
    assert np.array_equal(result.points, faces.points, equal_nan=True)
    assert np.array_equal(result.labels, faces.labels, equal_nan=True)
    assert np.array_equal(result.label_visibility, faces.label_visibility)
    assert result.names == faces.names


# --- arrays, JSON, CSV, parquet ----------------------------------------------------------


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
    flat = faces.points.reshape(len(faces), -1).tolist()
    pyarrow.parquet.write_table(pyarrow.table({"points": flat}), tmp_path / "p.parquet")
    same(read_faces(tmp_path / "p.parquet", truth_json), faces)


def test_covariance_and_cholesky_and_visibility(tmp_path, faces, truth_json):
    factor = np.linalg.cholesky(faces.covariance)
    three = np.stack([factor[..., 0, 0], factor[..., 1, 0], factor[..., 1, 1]], axis=-1)
    for name, value in (("covariance", faces.covariance), ("cholesky", factor),
                        ("cholesky", three)):  # fmt: skip
        visibility = faces.visibility[..., None]
        np.savez(tmp_path / "p.npz", points=faces.points, visibility=visibility, **{name: value})
        result = read_faces(tmp_path / "p.npz", truth_json)
        assert result.covariance == pytest.approx(faces.covariance)
        assert np.array_equal(result.visibility, faces.visibility)


@pytest.mark.parametrize("kind", ["npz", "npy folder"])
def test_the_arrays_of_the_published_evaluation(tmp_path, faces, kind):
    """Multiplied by visibility, in crop pixels; they hold the labels too."""
    v = np.where(faces.label_visibility > 0, 1.0, 1e-5)[..., None]
    arrays = {
        "ground_truth": np.nan_to_num(faces.labels, nan=100.0) * v, "means": faces.points * v,
        "cholesky": np.linalg.cholesky(faces.covariance), "vis_estimated": faces.visibility,
        "vis_gt": faces.label_visibility.astype(float),
    }  # fmt: skip
    path = tmp_path / "run.npz" if kind == "npz" else tmp_path
    if kind == "npz":
        np.savez(path, **arrays)
    else:
        for name, value in arrays.items():
            np.save(tmp_path / f"{name}.npy", value)
    result, visible = read_faces(path), faces.label_visibility > 0
    assert np.array_equal(result.labels, faces.labels, equal_nan=True)
    assert np.array_equal(result.points[visible], faces.points[visible])
    assert np.array_equal(result.label_visibility, faces.label_visibility)
    assert result.paper_pixel.tolist() == [1.0] * len(faces)


@pytest.mark.parametrize("trained", [True, False])
def test_json_of_predictions_keeps_what_the_model_calls_hidden(
    tmp_path, faces, truth_json, trained
):
    listed = [
        {
            "face_id": name, "markup": "ibug68", "points": faces.points[i].tolist(),
            "covariance": faces.covariance[i].tolist(), "visibility": [0.1] * 68,
            "visibility_trained": trained, "covariance_trained": trained,
            "confidence": [0.5] * 68, "time": "noon",  # of another program: not read
        }
        for i, name in enumerate(faces.names)
    ]  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps({"faces": listed[::-1]}))
    result = read_faces(tmp_path / "p.json", truth_json)
    same(result, faces)
    assert not result.failed.any() and (result.visibility is None) != trained
    if trained:
        assert result.covariance == pytest.approx(faces.covariance)
    else:
        assert result.covariance is None
        assert compute_metrics(result, resamples=2).missing == ("covariance", "visibility")


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
            numbers = map(repr, faces.points[i].ravel().tolist())
            writer.writerow([f"some/folder/{name}.png", *numbers])
    same(read_faces(tmp_path / "p.csv", truth_json), faces)


def test_parquet_alone_and_against_other_truth(tmp_path, faces, truth_json):
    write_predictions(tmp_path / "p.parquet", faces)
    alone = read_faces(tmp_path / "p.parquet", method="again", likelihood="gauss")
    same(alone, faces)
    assert (alone.method, alone.likelihood) == ("again", "gauss")
    result = read_faces(tmp_path / "p.parquet", truth_json)
    same(result, faces)
    assert np.array_equal(result.paper_pixel, faces.paper_pixel)
    same(read_faces(truth_json, tmp_path / "p.parquet"), read_faces(truth_json, truth_json))


def test_what_a_model_calls_hidden_has_no_place_in_pts(tmp_path, few):
    """`luvli predict --format pts` writes -1 -1."""
    hidden = np.ones(68, np.int8)
    hidden[3] = 0
    for i, (guess, label) in enumerate(zip(*few, strict=True)):
        write_pts(tmp_path / f"p/{i}.pts", guess, hidden if i == 0 else None)
        write_pts(tmp_path / f"t/{i}.pts", label)
    result = read_faces(tmp_path / "p", tmp_path / "t")
    assert np.isnan(result.points[0, 3]).all() and np.isfinite(result.points[1:]).all()
    assert "1 landmarks are called self-occluded" in result.notes[0]


# --- public projects ---------------------------------------------------------------------


def joined(values, separator: str = ",") -> str:
    return separator.join(map(repr, np.ravel(values).tolist()))


def of_json(face):
    """A list of what `face` says of a name and points."""

    def write(path: Path, points, order=range(12)) -> Path:
        path.write_text(json.dumps([face(NAMES[i], points[i]) for i in order]))
        return path

    return write


def of_lines(head: str, line, end: str = ""):
    """A text of the line of each name and points."""

    def write(path: Path, points) -> Path:
        lines = [line(name, face) for name, face in zip(NAMES, points, strict=True)]
        path.write_text("\n".join([*filter(None, [head]), *lines, end]))
        return path

    return write


def star_line(name: str, points) -> str:
    place = f".\\rawImages\\{Path(name).name}\t{','.join(['1.0'] * 10)}"
    return f"{place}\t{joined(points)}\t0.5\t200.0\t210.0\t0,1,0,0,0,0"


def dlib_image(name: str, points) -> str:
    parts = [
        f"<part name='{j:02d}' x='{x!r}' y='{y!r}'/>" for j, (x, y) in enumerate(points.tolist())
    ]
    box = f"<box top='10' left='20' width='90' height='95'>{''.join(parts)}</box>"
    return f"<image file='{name}'>{box}</image>"


def published_face(name: str, points) -> dict:
    """The lists of the paper's code: the numbers of .pts files, here one landmark covered."""
    raw = points + 1
    raw[3] *= -1
    return {"objpos_det": [182.4, 273.3], "dataset": "300W_indoor", "scale_provided_det": 1.08,
            "width_height_det": [204.5, 216.5], "pts": raw.tolist(), "isValidation": True,
            "img_paths": f"./bigdata1/{name}", "pts_paths": f"./bigdata1/{name}.pts"}  # fmt: skip


def mapping(path: Path, points) -> Path:
    path.write_text(json.dumps({NAMES[i]: p.tolist() for i, p in enumerate(points)}))
    return path


def pts_folder(path: Path, points) -> Path:
    for i, p in enumerate(points):  # without header and braces, counted from 1
        file = path / f"{Path(NAMES[i]).stem}.pts"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(joined(place + 1, " ") for place in p))
    return path


spiga = of_json(lambda name, points: {
    "imgpath": name, "bbox": [1.0, 2.0, 30.0, 40.0], "headpose": [0.0] * 6, "ids": [101, 102],
    "landmarks": points.tolist(), "visible": [1.0] * 68,
})  # fmt: skip
AXES = ",".join(f"original_{j}_{axis}" for j in range(68) for axis in "xy")
STAR = "image_path\tlandmarks_5pts\tlandmarks\tscale\tcenter_w\tcenter_h\ttags"
DLIB = (
    "<?xml version='1.0' encoding='ISO-8859-1'?><?xml-stylesheet type='text/xsl'?><dataset><images>"
)
LAYOUTS = {
    "spiga.json": spiga, "mapping.json": mapping, "pts": pts_folder,
    "hrnet.csv": of_lines(f"image_name,scale,center_w,center_h,{AXES}", lambda name, points:
                          f"{name},0.5,200.0,210.0,{joined(points + 1)}"),  # as in .pts files
    "star.tsv": of_lines(STAR, star_line), "plain.tsv": of_lines("", star_line),
    "list_98pt_test.txt": of_lines("", lambda name, points: f"{joined(points, ' ')} {name}"),
    "dlib.xml": of_lines(DLIB, dlib_image, "</images></dataset>"),
    "published.json": of_json(published_face),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_on_both_sides(tmp_path, few, layout):
    predicted, truth = few
    (tmp_path / "p").mkdir()
    guess = LAYOUTS[layout](tmp_path / "p" / layout, predicted)
    labels = LAYOUTS[layout](tmp_path / layout, truth)
    assert error(read_faces(guess, labels)) == pytest.approx(expected(few))
    reference = spiga(tmp_path / "reference.json", truth, np.random.default_rng(0).permutation(12))
    assert error(read_faces(guess, reference)) == pytest.approx(expected(few))
    assert error(read_faces(reference, labels)) == pytest.approx(0, abs=1e-9)


def openface(path: Path, points, failed: int = -1) -> None:
    """FeatureExtraction's columns, with the blanks that it writes after commas."""
    head = ["frame", " face_id", " timestamp", " confidence", " success"]
    head += [f" gaze_{eye}_{axis}" for eye in (0, 1) for axis in "xyz"]
    head += [f" eye_lmk_{axis}_{j}" for axis in "xyXYZ" for j in range(56)]
    head += [f" pose_{name}" for name in ("Tx", "Ty", "Tz", "Rx", "Ry", "Rz")]
    head += [f" {axis}_{j}" for axis in "xyXYZ" for j in range(68)] + [" p_scale", " AU01_r"]
    with path.open("w", newline="") as stream:
        rows = csv.DictWriter(stream, head, restval="7.5")
        rows.writeheader()
        for i, face in enumerate(points):
            places = {f" {axis}_{j}": repr(v) for axis, column in zip("xy", face.T, strict=True)
                      for j, v in enumerate(column.tolist())}  # fmt: skip
            about = {"frame": i + 1, " face_id": 0, " success": int(i != failed)}
            rows.writerow(about | places)


def test_openface_takes_the_landmarks_and_not_its_3d_points(tmp_path, few):
    predicted, truth = few
    openface(tmp_path / "sequence.csv", predicted, failed=4)
    np.savez(tmp_path / "t.npz", points=truth)
    result = read_faces(tmp_path / "sequence.csv", tmp_path / "t.npz")
    assert np.array_equal(result.points[0], predicted[0])
    assert result.failed.tolist() == [i == 4 for i in range(12)]
    assert "1 rows without success" in result.notes[0] and "ORDER" in result.notes[1]
    (tmp_path / "folder").mkdir()  # one file for each image
    for i in range(12):
        openface(tmp_path / f"folder/indoor_{i:03d}.csv", predicted[i : i + 1])
    by_image = read_faces(tmp_path / "folder", spiga(tmp_path / "t.json", truth))
    assert error(by_image) == pytest.approx(expected(few))


def test_mmpose_annotations_and_coco_results(tmp_path, few):
    """Copies of HRNet's lists, with its centres, count from one, and so do their results."""
    predicted, truth = few
    for about, first in (({}, 0), ({"center": [50.0, 60.0], "scale": 1.2}, 1)):
        (tmp_path / "t.json").write_text(json.dumps(mmpose_annotations(truth + first, **about)))
        results = [
            {"image_id": 3 + i, "category_id": 1, "score": 0.9,
             "keypoints": np.insert(predicted[i] + first, 2, 0.7, axis=1).ravel().tolist()}
            for i in np.random.default_rng(1).permutation(12).tolist()
        ]  # fmt: skip
        (tmp_path / "p.json").write_text(json.dumps(results))
        result = read_faces(tmp_path / "p.json", tmp_path / "t.json")
        assert error(result) == pytest.approx(expected(few))
        assert (result.label_visibility == 1).all()  # flag 1 everywhere: labelled, not occluded
        assert result.lengths["box_size"].tolist() == [362.0] * 12
        annotations = mmpose_annotations(predicted + first, **about)
        (tmp_path / "p.json").write_text(json.dumps(annotations))
        again = read_faces(tmp_path / "p.json", tmp_path / "t.json")
        assert error(again) == pytest.approx(expected(few))


def test_labels_of_menpo_benchmark(tmp_path, few):
    from scipy.io import savemat

    predicted, truth = few
    cell = np.empty((1, 12), dtype=object)
    for i in range(12):
        cell[0, i] = {"name": f"aflw__face_{i}", "gt": truth[i] + 1}
    savemat(tmp_path / "semifrontal.mat", {"semifrontal": cell})
    mine = listed(tmp_path / "p.json", predicted, [f"aflw__face_{i}.jpg" for i in range(12)])
    assert error(read_faces(mine, tmp_path / "semifrontal.mat")) == pytest.approx(expected(few))


def test_mediapipe_mesh_as_68_points_with_its_caveat(tmp_path, few):
    predicted, truth = few
    mesh = np.zeros((12, 478, 3))
    mesh[:, list(MESH_TO_IBUG68), :2] = predicted
    np.savez(tmp_path / "mesh.npz", landmarks=mesh, imgpath=np.array(NAMES))
    head = ["filename", *(f"{axis}{j}" for j in range(478) for axis in "xyz")]
    rows = [[name, *map(repr, face.ravel().tolist())]
            for name, face in zip(NAMES, mesh, strict=True)]  # fmt: skip
    (tmp_path / "mesh.csv").write_text("\n".join(",".join(row) for row in [head, *rows]))
    labels = pts_folder(tmp_path / "labels", truth)  # which do not say that they are ibug68
    for name in ("mesh.npz", "mesh.csv"):
        result = read_faces(tmp_path / name, labels)
        assert np.array_equal(result.points, predicted) and "jaw" in result.notes[0]
        assert {"nme_box", "nme_interocular"} <= set(compute_metrics(result, resamples=2).metrics)


# --- what cannot be used -----------------------------------------------------------------


def broken(name, content):
    def make(tmp_path, faces):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif callable(content):
            content(path, faces)
        else:
            np.savez(path, **{"points": faces.points} | content)
        return path

    return make


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda tmp, f: tmp / "nowhere.npz", "does not exist"),
        (broken("p.npz", b"not a zip"), "not a readable numpy file"),
        (broken("p.npz", lambda p, f: np.savez(p, a=np.ones(3), b=np.ones(3))), "name it 'points'"),
        (broken("p.npz", {"points": np.ones((4, 3, 3))}), "shape \\(n, k, 2"),
        (broken("p.npz", lambda p, f: np.savez(p, points=f.points[:7])), "7 faces and .* 40"),
        (broken("p.npz", lambda p, f: np.savez(p, points=f.points[:, :19])), "19 landmarks"),
        (broken("p.npz", {"names": np.array([f"x{i}" for i in range(40)])}), "name them alike"),
        (broken("p.npz", {"covariance": np.ones((40, 68, 3))}), "covariance must have shape"),
        (broken("p.npz", {"covariance": np.ones((41, 68, 2, 2))}), "41 entries for 40 faces"),
        (broken("p.npz", {"names": np.array(["x"] * 39)}), "face_id has 39 entries for 40 faces"),
        (broken("p.csv", b"a,b\n1,2\n"), "no columns x_0"),
        (broken("p.csv", b"x_0,y_0\n1,two\n"), "line 2: at points.0.1, .* valid number"),
        (broken("p.json", b'{"faces": 3}'), "not a JSON of faces"),
        (broken("p.json", b"nonsense"), "not valid JSON"),
        (broken("p.txt", b"1 2 3 a"), "pairs of coordinates"),
        (broken("p.doc", b"1 2 3"), "is not npz, npy, csv, tsv, json"),
        (broken("empty", lambda path, _: path.mkdir()), r"holds no \.pts"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(tmp_path, faces, truth_json, make, sentence):
    with pytest.raises(InputError, match=sentence):
        read_faces(make(tmp_path, faces), truth_json)


def test_labels_must_come_from_somewhere(tmp_path, few):
    with pytest.raises(InputError, match="give them with --truth"):
        read_faces(listed(tmp_path / "p.json", few[0]))
