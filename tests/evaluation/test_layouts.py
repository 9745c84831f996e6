"""Files of public projects: each written here after the real ones, their names and order kept.

Real files (SPIGA's results, the COFW68 benchmark's, HRNet's lists of 300-W, the lists of the
paper's published code) were scored with the same readers and give the figures that their projects
print; they may not be passed on, so their shape is kept here.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scored_files import error, expected, mmpose_annotations

from luvli.data.formats import write_pts
from luvli.data.formats.mediapipe import MESH_TO_IBUG68
from luvli.errors import InputError
from luvli.evaluation import plots
from luvli.evaluation.match import read_faces
from luvli.evaluation.metrics import compute_metrics

SPIGA_IDS = [101, 102, 103]  # the first of its names of landmarks; not read


def names(count: int = 12) -> list[str]:
    return [f"images/private/indoor/indoor_{i:03d}.png" for i in range(count)]


def write_spiga(path: Path, points, order=None) -> Path:
    box = [1.0, 2.0, 30.0, 40.0]
    faces = [
        {"imgpath": names()[i], "bbox": box, "headpose": [0.0] * 6, "ids": SPIGA_IDS,
         "landmarks": points[i].tolist(), "visible": [1.0] * 68}
        for i in (range(12) if order is None else order)
    ]  # fmt: skip
    path.write_text(json.dumps(faces))
    return path


def test_spiga_results_are_matched_by_imgpath_in_any_order(tmp_path, few):
    predicted, truth = few
    order = np.random.default_rng(0).permutation(12)
    results = write_spiga(tmp_path / "results_300wprivate_test.json", predicted, order)
    result = read_faces(results, write_spiga(tmp_path / "test.json", truth))
    assert error(result) == pytest.approx(expected(few))
    assert result.notes == ()


def test_an_order_that_gives_absurd_errors_is_refused(tmp_path, few):
    predicted, truth = few
    np.savez(tmp_path / "p.npz", points=predicted[::-1])
    np.savez(tmp_path / "t.npz", points=truth)
    with pytest.raises(InputError, match=r"matched by their order the median error is \d+ %"):
        read_faces(tmp_path / "p.npz", tmp_path / "t.npz")
    forced = read_faces(tmp_path / "p.npz", tmp_path / "t.npz", by_order=True)
    assert "ORDER" in forced.notes[0]


def openface_header() -> list[str]:
    """FeatureExtraction's columns, with the blanks that it writes after commas."""
    head = ["frame", " face_id", " timestamp", " confidence", " success"]
    head += [f" gaze_{eye}_{axis}" for eye in (0, 1) for axis in "xyz"]
    head += [f" eye_lmk_{axis}_{j}" for axis in "xy" for j in range(56)]
    head += [f" eye_lmk_{axis}_{j}" for axis in "XYZ" for j in range(56)]
    head += [f" pose_{name}" for name in ("Tx", "Ty", "Tz", "Rx", "Ry", "Rz")]
    head += [f" {axis}_{j}" for axis in "xy" for j in range(68)]
    head += [f" {axis}_{j}" for axis in "XYZ" for j in range(68)]
    return [*head, " p_scale", " p_0", " AU01_r", " AU01_c"]


def openface_row(points, frame: int, success: int = 1) -> list[str]:
    fill = dict.fromkeys(openface_header(), "7.5")
    fill |= {"frame": str(frame), " face_id": "0", " success": str(success)}
    fill |= {f" x_{j}": repr(float(x)) for j, (x, _) in enumerate(points)}
    fill |= {f" y_{j}": repr(float(y)) for j, (_, y) in enumerate(points)}
    return list(fill.values())


def test_openface_takes_the_landmarks_and_not_its_3d_points(tmp_path, few):
    predicted, truth = few
    with (tmp_path / "sequence.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(openface_header())
        rows.writerows(openface_row(p, i + 1, int(i != 4)) for i, p in enumerate(predicted))
    np.savez(tmp_path / "t.npz", points=truth)
    result = read_faces(tmp_path / "sequence.csv", tmp_path / "t.npz")
    assert np.array_equal(result.points[0], predicted[0])
    assert result.failed.tolist() == [i == 4 for i in range(12)]
    assert "1 rows without success" in result.notes[0] and "ORDER" in result.notes[1]


def test_openface_folder_of_one_file_for_each_image(tmp_path, few):
    predicted, truth = few
    for i in range(12):
        with (tmp_path / f"indoor_{i:03d}.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows([openface_header(), openface_row(predicted[i], 1)])
    result = read_faces(tmp_path, write_spiga(tmp_path.parent / "t.json", truth))
    assert error(result) == pytest.approx(expected(few))


def test_several_faces_of_one_image_find_their_own_labels(tmp_path, few):
    predicted, truth = few
    image = [{"image": "group.jpg", "points": p.tolist()} for p in predicted[[2, 0, 1]]]
    (tmp_path / "p.json").write_text(json.dumps(image))
    labels = [{"image": "group.jpg", "points": p.tolist()} for p in truth[:2]]
    (tmp_path / "t.json").write_text(json.dumps(labels))
    result = read_faces(tmp_path / "p.json", tmp_path / "t.json")
    assert np.array_equal(result.points, predicted[:2])
    assert "1 predictions have no label" in result.notes[0]


def test_mmpose_annotations_and_coco_results(tmp_path, few):
    predicted, truth = few
    (tmp_path / "t.json").write_text(json.dumps(mmpose_annotations(truth)))
    results = [
        {"image_id": 3 + i, "category_id": 1, "score": 0.9,
         "keypoints": np.column_stack([predicted[i], np.full(68, 0.7)]).ravel().tolist()}
        for i in np.random.default_rng(1).permutation(12).tolist()
    ]  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps(results))
    result = read_faces(tmp_path / "p.json", tmp_path / "t.json")
    assert error(result) == pytest.approx(expected(few))
    assert (result.label_visibility == 1).all()  # flag 1 everywhere means labelled, not occluded
    assert result.lengths["box_size"].tolist() == [362.0] * 12


def hrnet_csv(path: Path, points) -> Path:
    lines = ["image_name,scale,center_w,center_h," + ",".join(
        f"original_{j}_{axis}" for j in range(68) for axis in "xy")]  # fmt: skip
    lines += [f"{names()[i]},0.5,200.0,210.0," + ",".join(map(repr, (p + 1).ravel().tolist()))
              for i, p in enumerate(points)]  # fmt: skip  # the numbers of 300-W's .pts files
    path.write_text("\n".join(lines) + "\n")
    return path


def star_tsv(path: Path, points) -> Path:
    lines = ["image_path\tlandmarks_5pts\tlandmarks\tscale\tcenter_w\tcenter_h\ttags"]
    for i, p in enumerate(points):
        joined = ",".join(map(repr, p.ravel().tolist()))
        five = ",".join(["1.0"] * 10)
        lines.append(f".\\rawImages\\{Path(names()[i]).name}\t{five}\t{joined}\t0.5\t200.0\t210.0\t"
                     "0,1,0,0,0,0")  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return path


def star_without_header(path: Path, points) -> Path:
    text = star_tsv(path, points).read_text()
    path.write_text(text.partition("\n")[2])  # STAR's evaluate.py takes every line for a face
    return path


def published_list(path: Path, points) -> Path:
    """The lists of the paper's code: the numbers of .pts files, here one landmark covered."""
    faces = []
    for i, p in enumerate(points):
        raw = p + 1
        raw[3] *= -1
        faces.append(
            {"objpos_det": [182.4, 273.3], "dataset": "300W_indoor", "scale_provided_det": 1.08,
             "width_height_det": [204.5, 216.5], "pts": raw.tolist(), "isValidation": True,
             "img_paths": f"./bigdata1/{names()[i]}", "pts_paths": f"./bigdata1/{i}.pts"}
        )  # fmt: skip
    path.write_text(json.dumps(faces))
    return path


def wflw_list(path: Path, points) -> Path:
    path.write_text("".join(
        " ".join(map(repr, p.ravel().tolist())) + f" {names()[i]}\n" for i, p in enumerate(points)
    ))  # fmt: skip
    return path


def csv_table(style: str):
    def write(path: Path, points) -> Path:
        axes = [style.format(j=j, axis=axis) for j in range(68) for axis in "xy"]
        with path.open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(["image_path", *axes])
            rows.writerows([names()[i], *p.ravel().tolist()] for i, p in enumerate(points))
        return path

    return write


def mapping(path: Path, points) -> Path:
    path.write_text(json.dumps({names()[i]: p.tolist() for i, p in enumerate(points)}))
    return path


def dlib_xml(path: Path, points) -> Path:
    faces = "".join(
        f"<image file='{names()[i]}'><box top='10' left='20' width='90' height='95'>"
        + "".join(f"<part name='{j:02d}' x='{x!r}' y='{y!r}'/>"
                  for j, (x, y) in enumerate(p.tolist()))
        + "</box></image>"
        for i, p in enumerate(points)
    )  # fmt: skip
    head = "<?xml version='1.0' encoding='ISO-8859-1'?><?xml-stylesheet type='text/xsl'?>"
    path.write_text(f"{head}<dataset><name>x</name><images>{faces}</images></dataset>")
    return path


def pts_folder(path: Path, points) -> Path:
    for i, p in enumerate(points):  # without header and braces, counted from 1
        file = path / f"{Path(names()[i]).stem}.pts"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(f"{x + 1!r} {y + 1!r}" for x, y in p.tolist()))
    return path


LAYOUTS = {
    "spiga.json": write_spiga, "hrnet.csv": hrnet_csv, "star.tsv": star_tsv,
    "list_98pt_test.txt": wflw_list, "plain.csv": csv_table("{axis}_{j}"),
    "landmark.csv": csv_table("landmark_{j}_{axis}"),
    "original.csv": csv_table("original_{j}_{axis}"), "mapping.json": mapping,
    "dlib.xml": dlib_xml, "pts": pts_folder, "plain.tsv": star_without_header,
    "published.json": published_list,
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_on_both_sides(tmp_path, few, layout):
    predicted, truth = few
    (tmp_path / "p").mkdir()
    guess = LAYOUTS[layout](tmp_path / "p" / layout, predicted)
    labels = LAYOUTS[layout](tmp_path / layout, truth)
    assert error(read_faces(guess, labels)) == pytest.approx(expected(few))
    reference = write_spiga(tmp_path / "reference.json", truth)
    assert error(read_faces(guess, reference)) == pytest.approx(expected(few))
    assert error(read_faces(reference, labels)) == pytest.approx(0, abs=1e-9)


def test_a_list_of_lists_is_matched_by_order(tmp_path, few):
    predicted, truth = few
    (tmp_path / "p.json").write_text(json.dumps(predicted.tolist()))
    (tmp_path / "t.json").write_text(json.dumps(truth.tolist()))
    result = read_faces(tmp_path / "p.json", tmp_path / "t.json")
    assert error(result) == pytest.approx(expected(few)) and "ORDER" in result.notes[0]


def test_menpo_benchmark_mat(tmp_path, few, luvli):
    from scipy.io import savemat

    predicted, truth = few
    cell = np.empty((1, 12), dtype=object)
    for i in range(12):
        cell[0, i] = {"name": f"aflw__face_{i}", "gt": truth[i] + 1, "yang": predicted[i] + 1}
    savemat(tmp_path / "semifrontal.mat", {"semifrontal": cell})
    result = read_faces(f"{tmp_path}/semifrontal.mat#yang")
    assert error(result) == pytest.approx(expected(few))
    done = luvli("score", f"{tmp_path}/semifrontal.mat#yang")
    assert done.output.startswith("yang on menpo all")
    with pytest.raises(InputError, match=r"unknown field of .*choose one of gt, yang"):
        read_faces(f"{tmp_path}/semifrontal.mat#he")
    savemat(tmp_path / "curves.mat", {"x": np.zeros(5), "y": np.zeros((5, 4))})
    with pytest.raises(InputError, match="holds no cell of faces"):
        read_faces(tmp_path / "curves.mat", tmp_path / "semifrontal.mat")


def test_mediapipe_mesh_as_68_points_with_its_caveat(tmp_path, few):
    predicted, truth = few
    mesh = np.zeros((12, 478, 3))
    mesh[:, list(MESH_TO_IBUG68), :2] = predicted
    np.savez(tmp_path / "mesh.npz", landmarks=mesh, imgpath=np.array(names()))
    result = read_faces(tmp_path / "mesh.npz", write_spiga(tmp_path / "t.json", truth))
    assert np.array_equal(result.points, predicted)
    assert "jaw" in result.notes[0] and len(set(MESH_TO_IBUG68)) == 68


def test_a_mesh_in_a_table_has_eyes_too(tmp_path, few):
    predicted, truth = few
    mesh = np.zeros((12, 478, 3))
    mesh[:, list(MESH_TO_IBUG68), :2] = predicted
    head = ["filename", *(f"{axis}{j}" for j in range(478) for axis in "xyz")]
    rows = [[name, *map(repr, face.ravel().tolist())]
            for name, face in zip(names(), mesh, strict=True)]  # fmt: skip
    (tmp_path / "mesh.csv").write_text("\n".join(",".join(row) for row in [head, *rows]))
    labels = pts_folder(tmp_path / "labels", truth)  # which do not say that they are ibug68
    result = read_faces(tmp_path / "mesh.csv", labels)
    assert {"nme_box", "nme_interocular"} <= set(compute_metrics(result, resamples=2).metrics)


def test_shares_of_the_image_are_not_taken_for_pixels_in_silence(tmp_path, few):
    predicted, truth = few
    np.savez(tmp_path / "p.npz", points=predicted / 1000, imgpath=np.array(names()))
    result = read_faces(tmp_path / "p.npz", write_spiga(tmp_path / "t.json", truth))
    assert any("look like shares of the image's width" in note for note in result.notes)


def test_mesh_vertices_lie_on_the_curves_that_mediapipe_names():
    """Its own lists of vertices: oval, brows, eyes, lips; points in order along each."""
    vision = pytest.importorskip("mediapipe.tasks.python.vision", reason="needs mediapipe")
    curves = vision.FaceLandmarksConnections
    for part, name in (
        (slice(0, 17), "FACE_OVAL"), (slice(17, 22), "RIGHT_EYEBROW"),
        (slice(22, 27), "LEFT_EYEBROW"), (slice(36, 42), "RIGHT_EYE"),
        (slice(42, 48), "LEFT_EYE"), (slice(48, 68), "LIPS"),
    ):  # fmt: skip
        links = getattr(curves, f"FACE_LANDMARKS_{name}")
        assert set(MESH_TO_IBUG68[part]) <= {
            end for link in links for end in (link.start, link.end)
        }
    oval = {link.start: link.end for link in curves.FACE_LANDMARKS_FACE_OVAL}
    walk = [MESH_TO_IBUG68[16]]
    while oval[walk[-1]] != walk[0]:
        walk.append(oval[walk[-1]])
    places = [walk.index(vertex) for vertex in MESH_TO_IBUG68[16::-1]]
    assert places == sorted(places)


def test_calibrated_parts_that_were_never_trained_are_not_reported(tmp_path, few):
    predicted, truth = few
    faces = [
        {"image": names()[i], "points": p.tolist(), "covariance": [np.eye(2).tolist()] * 68,
         "visibility": [0.5] * 68, "visibility_trained": False, "covariance_trained": False}
        for i, p in enumerate(predicted)
    ]  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps({"faces": faces}))
    result = read_faces(tmp_path / "p.json", write_spiga(tmp_path / "t.json", truth))
    metrics = compute_metrics(result, resamples=5)
    assert metrics.missing == ("covariance", "visibility")
    assert metrics.value("mean_visibility.unoccluded") is None and "nll" not in metrics.metrics


def test_names_that_no_file_can_have_are_names_all_the_same(tmp_path, few, luvli):
    predicted, truth = few
    for side, points in (("p", predicted), ("t", truth)):
        faces = [{"image": "9" * 300 + f"{i}.jpg", "points": p.tolist()}
                 for i, p in enumerate(points)]  # fmt: skip
        (tmp_path / f"{side}.json").write_text(json.dumps(faces))
    result = read_faces(tmp_path / "p.json", tmp_path / "t.json")
    assert error(result) == pytest.approx(expected(few))
    with pytest.raises(InputError, match="no image of these faces was found"):
        plots.draw_plot("faces", [result])
    (tmp_path / "p.json").unlink()
    checked = luvli("data", "check", "folder", tmp_path)
    assert checked.exit_code == 1 and "12 x missing image" in checked.output


def test_reports_keep_images_where_they_can_be_found_again(tmp_path, few, monkeypatch):
    predicted, truth = few
    (tmp_path / "faces").mkdir()
    for i in range(12):
        write_pts(tmp_path / f"faces/f{i}.pts", truth[i])
        (tmp_path / f"faces/f{i}.png").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    np.savez("p.npz", points=predicted, names=np.array([f"f{i}" for i in range(12)]))
    result = read_faces("p.npz", "faces")
    assert all(Path(image).is_absolute() and Path(image).is_file() for image in result.images)
