"""Human disagreement: pooled covariances of drawn annotators, and a model that knows them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scored_files import changed

from luvli.errors import InputError
from luvli.evaluation.annotators import compare_with_annotators, human_table, read_annotators
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.markup import get_markup

SHAPE = get_markup("ibug68").schematic
EYES = get_markup("ibug68").outer_eye_corners
LANDMARKS = (*EYES, 30, 8)


def turned(points, angle, size):
    """Points as a face turned in the plane, of another size."""
    c, s = np.cos(angle), np.sin(angle)
    return points @ (size * np.array([[c, -s], [s, c]])).T + 200.0


@pytest.fixture
def scene(tmp_path):
    """400 faces by three people whose spread is known, and a model that predicts it exactly."""
    rng = np.random.default_rng(0)
    unit = np.linalg.norm(SHAPE[EYES[1]] - SHAPE[EYES[0]])
    spread = np.zeros((68, 2, 2))
    spread[:] = np.diag([0.02, 0.01]) ** 2 * unit**2
    spread[30] = np.diag([0.01, 0.03]) ** 2 * unit**2
    faces, points, covariance = {}, [], []
    for i in range(400):
        angle, size = rng.uniform(-0.6, 0.6), rng.uniform(40, 90)
        noise = rng.normal(size=(3, 68, 2)) * np.sqrt(np.diagonal(spread, axis1=1, axis2=2))
        votes = [turned(SHAPE + noise[w], angle, size)[list(LANDMARKS)] for w in range(3)]
        faces[f"f{i}"] = {
            "workers": {
                f"w{w}": {"points": votes[w].tolist(), "visibility": [0] * 4} for w in range(3)
            }
        }
        c, s = np.cos(angle), np.sin(angle)
        turn = size * np.array([[c, -s], [s, c]])
        points.append(turned(SHAPE, angle, size))
        covariance.append(turn @ spread @ turn.T)
    content = {
        "points": [{"index": i, "name": str(j), "ibug68": j} for i, j in enumerate(LANDMARKS)],
        "faces": faces,
    }
    (tmp_path / "people.json").write_text(json.dumps(content))
    points = np.array(points)
    return LabelledFaces.from_arrays(points, points, covariance=np.array(covariance)), content


def test_pooled_disagreement_is_that_of_the_people(tmp_path, scene):
    found = read_annotators(tmp_path / "people.json")
    assert found.landmarks == list(LANDMARKS) and found.people == 3 and min(found.faces) == 400
    assert found.covariance[2] == pytest.approx(np.diag([1e-4, 9e-4]), rel=0.2, abs=3e-5)
    assert found.covariance[3] == pytest.approx(np.diag([4e-4, 1e-4]), rel=0.2, abs=3e-5)


def test_a_model_that_knows_them_agrees(tmp_path, scene):
    faces, _ = scene
    found = compare_with_annotators(faces, read_annotators(tmp_path / "people.json"))
    # people's own eye corners turn the faces, so theirs spread less than they were drawn
    human, model = found.deviations[:, 2:]
    assert model / human == pytest.approx(1, abs=0.06)
    assert (found.angle[2:] < 5).all() and (found.divergence[2:] < 0.01).all()
    wide = changed(faces, covariance=4 * faces.covariance)
    doubled = compare_with_annotators(wide, found.annotators)
    assert doubled.deviations == pytest.approx(found.deviations * [[1], [2]])
    assert "Ratio of deviations" in human_table(found).text()


def test_slips_and_hidden_points_are_left_out(tmp_path, scene):
    _, content = scene
    first, second = content["faces"]["f0"]["workers"], content["faces"]["f1"]["workers"]
    first["w1"]["points"][2][0] += 1000
    second["w2"]["visibility"][2] = 1
    (tmp_path / "people.json").write_text(json.dumps(content))
    assert read_annotators(tmp_path / "people.json").faces == [400, 400, 398, 400]


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"points": [], "faces": {}}', '{"points": 3, "faces": 1}', "x"]
)
def test_other_files_are_one_sentence(luvli, tmp_path, content):
    (tmp_path / "people.json").write_text(content)
    with pytest.raises(InputError, match=r"people\.json"):
        read_annotators(tmp_path / "people.json")


def test_the_figure_is_drawn_and_its_table_printed(luvli, tmp_path, scene):
    from luvli.evaluation.labelled_parquet import write_predictions

    write_predictions(tmp_path / "p.parquet", scene[0])
    order = ("paper", "figure", "human", "--predictions", tmp_path / "p.parquet")
    done = luvli(*order, "--annotators", tmp_path / "people.json", "--out", tmp_path / "h.png")
    assert done.exit_code == 0, done.output
    assert "30 nose tip" in done.output and (tmp_path / "h.png").read_bytes()[1:4] == b"PNG"
    refused = luvli(*order, "--out", tmp_path / "h.png")
    assert refused.exit_code == 2 and "needs --annotators" in refused.output


def test_the_report_has_a_section_about_people(tmp_path, scene):
    from luvli.evaluation.report import write_report

    few = scene[0][np.arange(12)]
    write_report(tmp_path / "r", few, annotators=tmp_path / "people.json", resamples=5)
    page = (tmp_path / "r/report.html").read_text()
    assert '<h2 id="People and model">' in page and "30 nose tip" in page
    assert "| 30 nose tip | 400 |" in (tmp_path / "r/report.md").read_text()
