"""`luvli calibrate`: a model of its own, of either kind, and guarantees that hold on new faces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from luvli.calibration import calibrate as module
from luvli.calibration.calibrate import calibrate_model, check_faces, fit_calibration, in_first_part
from luvli.calibration.measure import face_errors, is_plain, label_radii, with_calibration
from luvli.calibration.model_file import ModelFile
from luvli.calibration.photographs import (
    are_packed,
    pack_names,
    photograph_name,
    refuse_training_faces,
)
from luvli.calibration.report import sample_in_use
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.models import find_model
from luvli.prediction.predictor import load
from luvli.trust.triage import choose_threshold

from .drawn_faces import labelled_points, measured_faces, record


def test_guarantees_hold_on_new_faces(fitted) -> None:
    new = with_calibration(measured_faces(900, seed=9), fitted.calibration)
    radii = label_radii(new[is_plain(new)])
    regions = fitted.trust.conformal.of_poses(["frontal"])
    for coverage in (0.8, 0.9):
        assert (radii <= regions.at(coverage)[0]).mean() == pytest.approx(coverage, abs=0.03)
        inside = (radii <= regions.at(coverage, joint=True)[0]).all(axis=1)
        assert inside.mean() == pytest.approx(coverage, abs=0.07)
    used = new[sample_in_use(new)]
    threshold = choose_threshold(fitted.trust.triage, 0.05).threshold
    accepted = fitted.trust.assess(used.faces, threshold).accepted
    assert (face_errors(used)[accepted] >= 5).mean() <= 0.05 and accepted.mean() > 0.4
    np.testing.assert_allclose(fitted.calibration.scale, 1.0, atol=0.3)  # errors as predicted


def test_parts_share_no_photograph(measured) -> None:
    photographs = measured.groups["photograph"]
    first = in_first_part(photographs)
    assert not set(photographs[first]) & set(photographs[~first])
    assert 0.4 < first.mean() < 0.6
    assert np.mean(~is_plain(measured)[sample_in_use(measured)]) == pytest.approx(0.2, abs=0.01)


@pytest.fixture
def quick(measured, monkeypatch: pytest.MonkeyPatch) -> list:
    """Drawn faces in place of photographs; which predictor was asked for them is kept."""
    asked = []

    def measure(predictor, records, *args):
        asked.append(predictor.info)
        return measured

    monkeypatch.setattr(module, "measure_faces", measure)
    return asked


@pytest.mark.parametrize(
    ("source", "target"),
    [("luvli-68-fast", ".onnx"), (".onnx", ".safetensors"), (".safetensors", ".onnx")],
)
def test_a_model_of_either_kind_from_either_kind(
    source: str, target: str, quick: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With covariances fitted anew, without PyTorch, under its own name and version."""
    name = source
    if source.startswith("."):
        name = str(tmp_path / f"copy{source}")
        kind = "onnx" if source == ".onnx" else "torch"
        Path(name).write_bytes(find_model("luvli-68-fast", kind).read_bytes())
    faces = [record(labelled_points(np.random.default_rng(0)), "a")]
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    fitted = calibrate_model(name, faces, tmp_path / f"mine{target}")
    monkeypatch.undo()
    (asked,) = quick  # the model runs over the faces once
    assert asked.calibration is None and asked.trust is None
    model, old = load(tmp_path / f"mine{target}"), load("luvli-68-fast")
    assert (model.info.name, model.info.version) == ("mine", f"{old.info.version}+calibrated")
    for part in ("calibration", "trust", "measures"):
        assert getattr(model.info, part).model_dump() == getattr(fitted, part).model_dump()
    image = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    boxes = [[50, 50, 150, 150]]
    with pytest.warns(UserWarning):
        one, other = model.predict(image, boxes), old.predict(image, boxes)
    np.testing.assert_allclose(one.points, other.points, atol=2e-3)
    calibration = old.info.calibration
    assert calibration is not None
    raw = calibration.undo(other.covariance, other.occlusion, other.points)
    wanted = fitted.calibration.apply(raw, one.occlusion, one.points)
    np.testing.assert_allclose(one.covariance, wanted, rtol=2e-3)
    assert np.isfinite(one[0].region(0.9).half_axes).all()


def test_missing_packages_are_named_before_faces_are_detected(
    quick: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(InputError, match=r"onnx.*luvli\[calibrate\]"):
        calibrate_model("luvli-68-fast", [], tmp_path / "mine.onnx")
    assert not quick and not list(tmp_path.iterdir())


def test_training_photographs_are_refused() -> None:
    names = [f"w300/image_{i}.png" for i in range(300)]
    photographs = pack_names(names)
    assert are_packed(names, photographs).all() and not are_packed(names, "").any()
    assert not are_packed([f"w300/other_{i}.png" for i in range(3000)], photographs).any()
    own = FaceRecord(points=np.ones((68, 2)), visibility=np.ones(68), dataset="w300")
    trained = [own.with_changes(image=Path(f"image_{i}.png")) for i in range(100)]
    with pytest.raises(InputError, match="100 of 100 faces are on photographs"):
        refuse_training_faces(trained, photographs)
    refuse_training_faces([r.with_changes(dataset="wflw") for r in trained], photographs)
    with pytest.raises(InputError, match="damaged"):
        are_packed(names, "!")
    assert photograph_name(record(np.ones((68, 2)), "f")) == "drawn/f"
    people = [own.with_changes(image=Path(f"{i}/01.jpg"), dataset="cfp", face_id=f"cfp-{i}_01")
              for i in range(9)]  # fmt: skip
    refuse_training_faces(people[:4], pack_names(map(photograph_name, people[4:])))


def test_faces_that_cannot_be_used_are_refused(measured) -> None:
    with pytest.raises(InputError, match=r"at least 300 labelled faces, got \d+"):
        check_faces(measured[:100])
    points = measured.points.copy()
    points[:, 30] = points[:, 45]  # the nose at the left eye: profiles
    with pytest.raises(InputError, match="no visibility"):
        check_faces(measured.with_predictions(points=points))


def test_sources_that_differ_widen_the_covariances(measured) -> None:
    """Labels of a second source lie elsewhere: the convention's variance says by how much, and the
    factors are those of the errors within a source."""
    plain, other = measured[is_plain(measured)], measured_faces(100, seed=4, corrupted=0)
    words = other.groups | {"source": np.full(100, "elsewhere")}
    moved = replace(other, labels=other.labels + np.array([3.0, 0.0]), groups=words)
    for fitted in (
        fit_calibration(plain, moved),
        fit_calibration(type(plain).concatenate([plain, moved])),
    ):
        deviation = np.sqrt(fitted.convention_variance)
        # two sources 3 % apart in x: variance 0.03^2 / 2 in x, none in y, for one more source
        np.testing.assert_allclose(deviation.mean(), np.sqrt(0.03**2 / 4 * 1.5), rtol=0.25)
        assert np.mean(fitted.scale) == pytest.approx(1.0, abs=0.1)
    assert fit_calibration(plain).convention_variance == []


def test_the_command_refuses_without_writing(luvli, tmp_path: Path) -> None:
    for arguments, words in (
        (["luvli-68"], "--data NAME PATH"),
        (["luvli-68", "--data", "w301", tmp_path], "w300"),
        (["luvli-69", "--data", "folder", tmp_path], ""),
    ):
        ran = luvli("calibrate", *arguments, "--out", tmp_path / "new.onnx")
        assert ran.exit_code == 2 and words in ran.output
    with pytest.raises(InputError, match=r"must end in .onnx or .safetensors"):
        calibrate_model("luvli-68", [], tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())


def test_older_or_quantized_files_are_refused(tmp_path: Path) -> None:
    model = ModelFile.read(find_model("luvli-68-fast", "onnx"))
    model.with_info(precision="int8").write(tmp_path / "small.onnx")
    with pytest.raises(InputError, match=r"calibrate its \.safetensors"):
        ModelFile.read(tmp_path / "small.onnx")
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a whole model file"):
        ModelFile.read(tmp_path / "bad.safetensors")
