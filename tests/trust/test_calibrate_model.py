"""`luvli calibrate`: tables in the model file, guarantees on new faces, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from luvli.cli.app import app
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.models import find_model
from luvli.prediction.predictor import load
from luvli.trust import calibrate_model as module
from luvli.trust.conformal import coverage_by
from luvli.trust.fit_tables import check_measured, in_first_part, in_use
from luvli.trust.seen import Seen, photograph_name
from luvli.trust.triage import choose_threshold

from .conftest import CONFIG
from .trust_faces import labelled_points, measured_faces, record


def test_guarantees_hold_on_new_faces(fitted) -> None:
    new = measured_faces(900, seed=9).calibrated(fitted.calibration)
    plain = new.take(new.plain)
    radii = plain.radii()
    for coverage in (0.8, 0.9):
        limits = fitted.trust.regions.radius("frontal", coverage)
        share, _ = coverage_by(radii, limits)
        assert share == pytest.approx(coverage, abs=0.03)
        joint = fitted.trust.regions.radius("frontal", coverage, joint=True)
        assert (radii <= joint).all(axis=1).mean() == pytest.approx(coverage, abs=0.07)
    chosen = choose_threshold(fitted.trust.triage, 0.05)
    used = new.take(in_use(new))
    sure = np.array([fitted.trust.assess(Faces.stack([face])).confidence[0] for face in used.faces])
    accepted = sure >= chosen.threshold
    assert (used.error[accepted] >= 5).mean() <= 0.05
    assert accepted.mean() > 0.4


def test_scale_makes_the_model_honest(measured, fitted) -> None:
    """Laplacian errors of the said covariance need no scale."""
    assert np.allclose(fitted.calibration.scale, 1.0, atol=0.3)


def test_parts_share_no_photograph(measured) -> None:
    first = in_first_part(measured.photograph, 0.5)
    assert not set(measured.photograph[first]) & set(measured.photograph[~first])
    assert 0.4 < first.mean() < 0.6
    used = in_use(measured)
    assert np.mean(~measured.plain[used]) == pytest.approx(0.2, abs=0.01)


def test_tables_travel_in_the_model_file(measured, fitted, tmp_path, monkeypatch) -> None:
    pytest.importorskip("onnx")
    text = Seen.of(["d/t"]).to_text()
    known = fitted._replace(trust=fitted.trust.model_copy(update={"trained_on": text}))
    monkeypatch.setattr(module, "measure_faces", lambda *args: measured)
    monkeypatch.setattr(module, "fit_tables", lambda *args: known)
    source = find_model("luvli-68", "onnx")
    target = tmp_path / "better.onnx"
    faces = [record(labelled_points(np.random.default_rng(0)), "a")]
    trained = [
        FaceRecord(points=np.ones((68, 2)), visibility=np.ones(68), face_id="t", dataset="d")
    ]
    module.calibrate_model(source, faces, target, trained_on=trained)
    predictor = load(target)
    trust = predictor.info.trust
    assert trust == known.trust
    assert "d/t" in Seen.from_text(trust.trained_on)
    image = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    face = predictor.predict(image, [[50, 50, 150, 150]])[0]
    assert 0 <= face.confidence <= 1 and face.expected_error > 0
    assert np.isfinite(face.region(0.9).half_axes).all()
    assert face.confidence == pytest.approx(trust.confidence.judge(face)[0])
    again = type(face).from_dict(face.to_dict())
    assert again.confidence == face.confidence
    with pytest.raises(InputError, match="trained on"):
        module.calibrate_model(target, trained, tmp_path / "other.onnx")
    assert not (tmp_path / "other.onnx").exists()


def test_networks_learn_before_they_are_calibrated(measured, fitted, tmp_path, monkeypatch) -> None:
    """From the faces that are given for it; without any, they keep what they have."""
    pytest.importorskip("torch")
    from luvli.network import load_model
    from luvli.network.heads import AstrayEstimator
    from luvli.trust import learn_astray

    taught = []

    def learn(network, info, records, track):
        taught.append((info.config, len(records)))
        config = network.config
        estimator = AstrayEstimator(config.unets * config.bottleneck_size, 3)
        return learn_astray.with_estimator(learn_astray.without_astray(network), estimator)

    monkeypatch.setattr(learn_astray, "learn_astray", learn)
    monkeypatch.setattr(module, "measure_faces", lambda *args: measured)
    monkeypatch.setattr(module, "fit_tables", lambda *args: fitted)
    source = find_model("luvli-68", "torch")
    faces = [record(labelled_points(np.random.default_rng(i)), str(i)) for i in range(5)]
    target, onnx = tmp_path / "new.safetensors", tmp_path / "new.onnx"
    module.calibrate_model(source, faces[:1], target, onnx=onnx, learn_from=faces[1:])
    assert [count for _, count in taught] == [4]
    assert load_model(target)[0].config.astray == 3
    assert load(onnx).info.config.astray == 3
    again = tmp_path / "again.safetensors"
    module.calibrate_model(target, faces[:1], again)
    assert len(taught) == 1 and load_model(again)[0].config.astray == 3
    with pytest.raises(InputError, match="learns nothing more"):
        module.calibrate_model(onnx, faces[:1], tmp_path / "no.onnx", learn_from=faces)
    assert not (tmp_path / "no.onnx").exists()


def test_training_photographs_are_refused_in_a_folder_too() -> None:
    """Copied out of their set, they have lost its name; a few of equal names are no proof."""
    seen = Seen.of([f"w300/image_{i}.png" for i in range(300)])
    own = FaceRecord(points=np.ones((68, 2)), visibility=np.ones(68), dataset="folder")
    copied = [own.with_changes(image=Path(f"somewhere/image_{i}.png")) for i in range(100)]
    with pytest.raises(InputError, match="100 of 100 faces have names of photographs"):
        module.refuse_training_faces(copied, seen)
    others = [own.with_changes(image=Path(f"holiday {i}.png")) for i in range(150)]
    module.refuse_training_faces([*copied, *others], seen)
    module.refuse_training_faces([r.with_changes(dataset="wflw") for r in copied], seen)


def test_seen_never_denies_and_seldom_lies() -> None:
    names = [f"set/image{i}.jpg" for i in range(3000)]
    seen = Seen.from_text(Seen.of(names).to_text())
    assert all(name in seen for name in names)
    assert np.mean([f"set/other{i}.jpg" in seen for i in range(5000)]) < 0.02
    assert Seen.from_text("") is None
    with pytest.raises(InputError, match="damaged"):
        Seen.from_text("!")
    assert photograph_name(record(np.ones((68, 2)), "f")) == "drawn/f"


def test_sets_that_cannot_be_used_are_refused(measured) -> None:
    with pytest.raises(InputError, match=r"at least 300 labelled faces, got \d+"):
        check_measured(measured.take(np.arange(100)), CONFIG)
    from dataclasses import replace

    def turn(points):
        moved = points.copy()
        moved[30] = moved[45]  # the nose at the left eye: a profile
        return moved

    turned = tuple(replace(face, points=turn(face.points)) for face in measured.faces)
    with pytest.raises(InputError, match="no visibility"):
        check_measured(replace(measured, faces=turned), CONFIG)


def test_command_refuses_without_writing(tmp_path) -> None:
    run = CliRunner().invoke
    out = tmp_path / "new.onnx"
    model = str(find_model("luvli-68", "onnx"))
    for arguments, words in (
        ([model, "--out", str(out)], "--data NAME PATH"),
        ([model, "--out", str(out), "--data", "w301", str(tmp_path)], "w300"),
        ([model, "--out", str(tmp_path / "a.txt"), "--data", "folder", str(tmp_path)], ""),
    ):
        result = run(app, ["calibrate", *arguments])
        assert result.exit_code == 2
        assert words in result.output + str(result.stderr)
    assert not list(tmp_path.iterdir())
