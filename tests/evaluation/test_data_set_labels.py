"""`--data`: the labels of a data set as it lies on disk, for anybody's predictions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scored_files import error, expected, mmpose_annotations
from typer.testing import Result

from luvli.data.formats import write_pts
from luvli.errors import InputError
from luvli.evaluation.match import read_faces


def cofw68_tree(folder: Path, truth) -> Path:
    from scipy.io import savemat

    for i, p in enumerate(truth, start=1):
        (folder / "test_annotations").mkdir(parents=True, exist_ok=True)
        savemat(folder / f"test_annotations/{i}_points.mat",
                {"Points": p + 1, "Occ": np.zeros((68, 1))})  # fmt: skip
    return folder


def cofw68_results(path: Path, predicted, order) -> Path:
    lines = []
    for i in order:
        lines.append(f"{i + 1} ")
        lines += [" ".join(f"{v:.3f}" for v in axis) for axis in (predicted[i] + 1).T]
        lines.append(" ".join(["0"] * 68))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_data_set_as_the_labels(tmp_path, few, luvli):
    """The COFW68 benchmark's text files against its own annotations."""
    predicted, truth = few
    root = cofw68_tree(tmp_path / "COFW68_Data", truth)
    file = cofw68_results(
        tmp_path / "CFSS_CFOW68.txt", predicted, [5, 2, *range(6, 12), 0, 1, 3, 4]
    )
    result = read_faces(file, data=("cofw68", root))
    assert error(result) == pytest.approx(expected(few), abs=1e-3)
    assert result.dataset == "cofw68" and result.notes == ()
    done: Result = luvli("score", file, "--data", "cofw68", root, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["metrics"]["nme_box"]["value"] == pytest.approx(error(result))


def test_a_folder_of_ones_own_as_the_labels(tmp_path, few):
    """All of it: most folders have no part that is called test."""
    predicted, truth = few
    for i, points in enumerate(truth):
        write_pts(tmp_path / f"faces/{i}.pts", points)
    (tmp_path / "mine.json").write_text(
        json.dumps({f"{i}.jpg": points.tolist() for i, points in enumerate(predicted)})
    )
    result = read_faces(tmp_path / "mine.json", data=("folder", tmp_path / "faces"))
    assert error(result) == pytest.approx(expected(few), abs=1e-3)


def spiga_of_cofw(path: Path, points, first: int = 1345) -> Path:
    """SPIGA's files of COFW-68: numbers of the Matlab files, images after the training faces."""
    faces = [{"imgpath": f"images/{first + i:05d}.jpg", "bbox": [1.0, 1.0, 30.0, 30.0],
              "landmarks": (p + 1).tolist(), "visible": [1.0] * 68}
             for i, p in enumerate(points)]  # fmt: skip
    path.write_text(json.dumps(faces[::-1]))
    return path


def test_spiga_and_cofw_number_the_same_faces_differently(tmp_path, few, luvli):
    predicted, truth = few
    root = cofw68_tree(tmp_path / "COFW68_Data", truth)
    results = spiga_of_cofw(tmp_path / "results_cofw68_test.json", predicted)
    result = read_faces(results, data=("cofw68", root))
    assert error(result) == pytest.approx(expected(few))
    assert result.notes == (
        "Faces were matched by their numbers: 1345 to 1356 of the predictions are 1 to 12 of the "
        "labels.",
    )
    annotations = spiga_of_cofw(tmp_path / "test.json", truth)
    assert error(read_faces(results, annotations)) == pytest.approx(expected(few))
    copied = luvli("data", "convert", results, tmp_path / "copy.json", "--to", "spiga")
    assert copied.exit_code == 0, copied.output
    assert error(read_faces(tmp_path / "copy.json", annotations)) == pytest.approx(expected(few))


def test_numbers_that_do_not_fit_are_refused(tmp_path, few):
    predicted, truth = few
    root = cofw68_tree(tmp_path / "COFW68_Data", truth)
    fewer = spiga_of_cofw(tmp_path / "fewer.json", predicted[:11])
    wrong = spiga_of_cofw(tmp_path / "wrong.json", np.roll(predicted, 5, axis=0))
    for results in (fewer, wrong):
        with pytest.raises(InputError, match=r"name them alike \(or say --by-order"):
            read_faces(results, data=("cofw68", root))
    forced = read_faces(wrong, data=("cofw68", root), by_order=True)
    assert "matched by their ORDER, as --by-order asks" in forced.notes[0]


def test_several_faces_of_one_image_in_a_data_set(tmp_path):
    """AFLW-19 and WFLW have them; predictions know images alone."""
    rng = np.random.default_rng(3)
    images = [f"0/image{i // 2:05d}.jpg" for i in range(12)]
    for name, count in (("aflw19", 19), ("wflw", 98)):
        truth = rng.uniform(0, 60, (12, count, 2)) + rng.uniform(100, 900, (12, 1, 2))
        order = rng.permutation(12)
        faces = [
            {"image": images[i], "points": (truth[i] + np.array([2, 0])).tolist()} for i in order
        ]
        (tmp_path / "p.json").write_text(json.dumps(faces))
        root = tmp_path / name
        root.mkdir()
        if name == "wflw":
            rows = [" ".join(map(repr, p.ravel().tolist())) for p in truth]
            text = "".join(f"{row} {image}\n" for row, image in zip(rows, images, strict=True))
            (root / "list_98pt_test.txt").write_text(text)
        else:
            head = [f"original_{j}_{axis}" for j in range(19) for axis in "xy"]
            head = ["image_name", "scale", "box_size", "center_w", "center_h", *head]
            rows = [[image, 0.5, 100.0, 50.0, 50.0, *(p + 1).ravel().tolist()]
                    for image, p in zip(images, truth, strict=True)]  # fmt: skip
            text = "\n".join(",".join(map(str, row)) for row in [head, *rows])
            (root / "face_landmarks_aflw_test.csv").write_text(text)
            (root / "face_landmarks_aflw_test_frontal.csv").write_text(text)
        result = read_faces(tmp_path / "p.json", data=(name, root))
        np.testing.assert_allclose(result.points, truth + np.array([2, 0]))
        assert not np.isnan(result.points).any()


def test_a_tree_of_mmpose_as_the_labels(tmp_path, few):
    predicted, truth = few
    (tmp_path / "annotations").mkdir()
    content = json.dumps(mmpose_annotations(truth + 1))
    (tmp_path / "annotations" / "face_landmarks_300w_test.json").write_text(content)
    faces = [{"image": f"images/image{i}.jpg", "points": predicted[i].tolist()} for i in range(12)]
    (tmp_path / "p.json").write_text(json.dumps(faces[::-1]))
    result = read_faces(tmp_path / "p.json", data=("folder", tmp_path / "annotations"))
    assert error(result) == pytest.approx(expected(few))
