"""Triage of results: Parquet gives what JSON gives, and the report shows the least confident."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result as Ran

from luvli.calibration import triage_results as module
from luvli.calibration.measure import with_calibration
from luvli.calibration.shift import WORDS, compare_features, fit_reference, shift_of
from luvli.calibration.triage_results import faces_of_rows, risk_curve
from luvli.drawing.faces import RED, YELLOW, draw
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image.write import write_image
from luvli.prediction.rows import Row
from luvli.prediction.writers import write_results
from luvli.trust.features import FEATURE_COLUMNS, feature_table
from luvli.trust.triage import choose_threshold
from luvli.trust.trust import Trust

from .drawn_faces import labelled_points, measured_faces, predicted_face

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> list[Row]:
    """61 images, one of them without a face, every third face bad."""
    rng = np.random.default_rng(0)
    image = tmp_path_factory.mktemp("images") / "a.png"
    write_image(image, rng.integers(0, 255, (400, 400, 3), dtype=np.uint8))
    faces = [predicted_face(labelled_points(rng), 30.0 if i % 3 == 0 else 1.5, rng)
             for i in range(60)]  # fmt: skip
    rows = [Row(f"{image}", Faces.stack([face])) for face in faces]
    return [*rows, Row("none.jpg", Faces.empty("ibug68"))]


def test_parquet_gives_what_json_gives(
    results: list[Row], calibrated: Path, tmp_path: Path, luvli: Callable[..., Ran]
) -> None:
    write_results(tmp_path / "faces.json", results, "json")
    (tmp_path / "many/part").mkdir(parents=True)
    for start in (0, 20, 40):
        end = None if start == 40 else start + 20
        write_results(tmp_path / f"many/part/{start}.parquet", results[start:end], "parquet")
    options = ("--model", calibrated, "--max-failure-rate", "0.05", "--out")
    first = luvli("triage", tmp_path / "faces.json", *options, tmp_path / "a")
    second = luvli("triage", tmp_path / "many", *options, tmp_path / "b", "--json")
    assert first.exit_code == second.exit_code == 0, first.output + second.output
    with (tmp_path / "a/triage.csv").open() as stream:
        accepted = [bool(int(row["accepted"])) for row in csv.DictReader(stream)]
    counts = json.loads(second.stdout)
    assert (counts["faces"], counts["accepted"]) == (60, sum(accepted))
    bad = np.arange(60) % 3 == 0
    assert not np.array(accepted)[bad].any() and np.array(accepted)[~bad].mean() > 0.8
    rows = json.loads((tmp_path / "a/faces.json").read_text())["faces"]
    assert [row["accepted"] for row in rows] == accepted and rows[0]["image"].endswith("a.png")
    files = sorted((tmp_path / "b/faces/part").glob("*.parquet"))
    table = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert [row["accepted"] for row in table] == [*accepted, None]  # no face, no answer
    for folder in ("a", "b"):
        assert (tmp_path / folder / "rejected.jpg").stat().st_size > 1000
        assert (tmp_path / folder / "risk-coverage.png").exists()
    words = " ".join(first.output.split())
    assert f"accepted {sum(accepted)} (" in words
    assert "differ from the calibration faces, most of all: " in words


def test_the_least_confident_are_listed(
    results: list[Row], fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHOWN", 3)
    write_results(tmp_path / "f.parquet", results, "parquet")
    summary = module.triage_results(tmp_path / "f.parquet", tmp_path / "out", fitted.trust, 0.5)
    rows = pq.read_table(tmp_path / "f.parquet").to_pylist()
    faces = faces_of_rows([row for row in rows if row["status"] == "face"], tmp_path)
    confidence = fitted.trust.assess(faces).confidence
    listed = [face.confidence for face, _ in summary.rejected]
    assert listed == pytest.approx(np.sort(confidence)[:6].tolist())
    assert (summary.faces, summary.accepted) == (60, int((confidence >= 0.5).sum()))
    assert len(summary.sampled()) == 60


def test_a_shift_is_detected_and_no_shift_is_not(results: list[Row], fitted) -> None:
    bad = Faces.stack([face for result in results for face in result.faces])
    shift = shift_of(bad, fitted.trust)
    assert shift is not None and shift.alarm and shift.p_values[shift.worst] < 1e-6
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(150):
        reference = fit_reference(rng.gamma(2.0, size=(700, 13)))
        alarms += compare_features(reference, rng.gamma(2.0, size=(200, 13)), level=0.05).alarm
    assert alarms <= 16  # binomial, 1 in 10,000
    moved = compare_features(reference, rng.gamma(2.6, size=(200, 13)), level=0.05)
    assert moved.alarm and moved.larger[moved.worst]
    assert set(WORDS) == set(FEATURE_COLUMNS)
    assert moved._replace(p_values={"tilt": 0.0}).sentence == "their heads are tilted more"
    plain = with_calibration(measured_faces(150, seed=77, corrupted=0), fitted.calibration)
    table = feature_table(plain.faces, fitted.trust.failure_model.shape)
    assert not compare_features(fitted.trust.reference, table, level=0.001).alarm


def test_bad_results_are_refused(results: list[Row], tmp_path: Path) -> None:
    write_results(tmp_path / "faces.json", results, "json")
    with pytest.raises(InputError, match="no confidence"):
        module.triage_results(tmp_path / "faces.json", tmp_path / "out", Trust(), 0.5)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="luvli predict"):
        module.triage_results(tmp_path / "other.json", tmp_path / "out", Trust(), 0.5)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        module.triage_results(tmp_path / "broken.parquet", tmp_path / "out", Trust(), 0.5)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").rglob("*.*"))


def test_the_curve_ends_at_all_faces(fitted) -> None:
    """And begins at the smallest bound: it never falls, so that no promise looks broken."""
    table = fitted.trust.triage
    share, bound = risk_curve(table, np.linspace(0, 1, 101))
    assert (np.diff(share) >= 0).all() and share[-1] == 1.0
    assert bound[0] == min(table.upper_bound) and bound[-1] == table.upper_bound[-1]
    chosen = choose_threshold(table, 0.05)
    assert chosen.bound in bound and chosen.bound <= 0.05


def test_a_failed_face_is_drawn_red() -> None:
    rng = np.random.default_rng(0)
    face = predicted_face(labelled_points(rng), 1.0, rng)
    canvas = np.full((420, 420, 3), 90, np.uint8)

    def painted(shown, colour) -> int:
        drawn = draw(canvas, [shown]).astype(int)
        return int((np.abs(drawn - np.array(colour)).sum(axis=2) < 60).sum())

    for trusted in ({}, {"confidence": 0.9}, {"confidence": 0.2, "accepted": True}):
        shown = replace(face, **trusted)
        assert painted(shown, RED) == 0 and painted(shown, YELLOW) > 50
    for failed in ({"confidence": 0.2}, {"confidence": 0.9, "accepted": False}):
        shown = replace(face, **failed)
        assert painted(shown, RED) > 300 and painted(shown, YELLOW) == 0
