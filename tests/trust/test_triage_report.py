"""Triage in use: `predict --max-failure-rate`, `luvli triage`, and the drawing of failed faces."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from luvli.cli.app import app
from luvli.drawing.faces import RED, YELLOW, draw_face
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image.write import write_image
from luvli.models import find_model
from luvli.prediction.parts import Row
from luvli.prediction.predictor import load
from luvli.prediction.writers import write_results
from luvli.trust.shift import find_shift
from luvli.trust.triage import choose_threshold, threshold_of
from luvli.trust.triage_report import curve, judge, read_predicted_faces, shift_of

from .trust_faces import labelled_points, measured_faces, predicted_face


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results file of 60 faces, every third of them bad, all on one image."""
    folder = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(0)
    image = folder / "a.png"
    write_image(image, rng.integers(0, 255, (400, 400, 3), dtype=np.uint8))
    faces = tuple(
        predicted_face(labelled_points(rng), 30.0 if i % 3 == 0 else 1.5, rng) for i in range(60)
    )
    write_results(folder / "faces.json", [Row(str(image), Faces.stack(faces))], "json")
    return folder / "faces.json"


def test_command_accepts_the_good_ones(results, calibrated, tmp_path) -> None:
    out = tmp_path / "out"
    ran = CliRunner().invoke(
        app, ["triage", str(results), "--model", str(calibrated), "--out", str(out),
              "--max-failure-rate", "0.05"]
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    rows = list(csv.DictReader((out / "triage.csv").open()))
    verdicts = np.array([int(row["accepted"]) for row in rows])
    bad = np.arange(60) % 3 == 0
    assert verdicts[bad].sum() == 0
    assert verdicts[~bad].mean() > 0.8
    judged = json.loads((out / "faces.json").read_text())["faces"]
    assert [face["accepted"] for face in judged] == verdicts.astype(bool).tolist()
    assert judged[0]["image"].endswith("a.png")
    assert (out / "rejected.jpg").stat().st_size > 1000
    assert (out / "risk-coverage.png").exists()


def test_shift_of_spoilt_faces_is_noticed(results, fitted) -> None:
    """A third of these faces is far worse than any calibration face."""
    shift = shift_of(read_predicted_faces(results), fitted.trust)
    assert shift.alarm
    same = measured_faces(150, seed=77).calibrated(fitted.calibration)
    plain = same.take(same.plain)
    from luvli.network.face_features import FEATURE_COLUMNS, feature_table

    table = feature_table(plain.faces, fitted.trust.confidence.shape)
    features = {name: table[:, i] for i, name in enumerate(FEATURE_COLUMNS)}
    assert not find_shift(fitted.trust.shift, features, level=0.001).alarm


def test_predictor_marks_faces(calibrated) -> None:
    predictor = load(calibrated)
    chosen = threshold_of(predictor.info, 0.05)
    image = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    assert predictor.predict(image, [[50, 50, 150, 150]])[0].accepted is None
    strict = predictor.with_accept_threshold(chosen.threshold)
    face = strict.predict(image, [[50, 50, 150, 150]])[0]
    assert face.accepted == (face.confidence >= chosen.threshold)
    assert type(face).from_dict(face.to_dict()) == face


def test_promises_that_cannot_be_kept_are_refused(calibrated, results, fitted) -> None:
    info = load(calibrated).info
    with pytest.raises(InputError, match="cannot promise"):
        threshold_of(info, 0.0001)
    plain = load(find_model("luvli-68", "onnx")).info.model_copy(update={"trust": None})
    with pytest.raises(InputError, match="luvli calibrate"):
        threshold_of(plain, 0.05)
    with pytest.raises(InputError, match="no confidence"):
        judge(read_predicted_faces(results), None, 0.5)
    with pytest.raises(InputError, match="luvli predict"):
        read_predicted_faces(calibrated.with_name("none.json"))


def test_curve_ends_at_the_whole(fitted) -> None:
    table = fitted.trust.triage
    share, rate = curve(table)
    assert (np.diff(share) >= 0).all()
    chosen = choose_threshold(table, 0.05)
    assert rate[np.argmin(np.abs(share - chosen.accepted / table.faces))] <= 0.05


def test_a_failed_face_looks_failed() -> None:
    rng = np.random.default_rng(0)
    face = predicted_face(labelled_points(rng), 1.0, rng)
    canvas = np.full((420, 420, 3), 90, np.uint8)

    def painted(shown, colour) -> int:
        drawn = draw_face(canvas, shown).astype(int)
        return int((np.abs(drawn - np.array(colour)).sum(axis=2) < 60).sum())

    for trusted in (
        face,
        replace(face, confidence=0.9),
        replace(face, confidence=0.2, accepted=True),
    ):
        assert painted(trusted, RED) == 0 and painted(trusted, YELLOW) > 50
    for failed in (replace(face, confidence=0.2), replace(face, confidence=0.9, accepted=False)):
        assert painted(failed, RED) > 300 and painted(failed, YELLOW) == 0
