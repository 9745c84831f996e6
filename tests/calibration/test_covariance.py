"""The calibration finds known factors, and what it promises holds on other faces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from luvli.calibration.covariance import (
    LEVELS,
    coverage_by_level,
    fit_convention,
    fit_covariance,
    in_one_convention,
)
from luvli.calibration.measure import label_radii, with_calibration
from luvli.errors import InputError
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.likelihood import Laplace, family
from luvli.markup import get_markup
from luvli.network.calibration import Calibration


def world(name: str, true_scale: np.ndarray, faces: int, seed: int) -> LabelledFaces:
    """Predictions of a Laplacian whose true covariance is `true_scale` times the predicted one, of
    the distribution `name`."""
    rng = np.random.default_rng(seed)
    k = len(true_scale)
    root = rng.normal(size=(faces, k, 2, 2))
    predicted = root @ root.transpose(0, 1, 3, 2) + 0.3 * np.eye(2)
    predicted *= rng.uniform(0.5, 20, (faces, 1, 1, 1))  # faces of many sizes
    mean = rng.normal(0, 50, (faces, k, 2))
    truth = family(name).from_covariance(mean, predicted * true_scale[:, None, None]).sample(1, rng)
    return LabelledFaces.from_arrays(mean, truth[0], None, predicted)


def held(faces: LabelledFaces, fitted: Calibration, levels: Any = LEVELS) -> np.ndarray:
    calibrated = with_calibration(faces, fitted)
    shares = coverage_by_level(label_radii(calibrated), calibrated.likelihood, levels)
    return np.array(list(shares.values()))


@pytest.mark.parametrize(("name", "factor"), [("laplace", 0.25), ("gauss", 6.0)])
def test_one_factor_is_found_and_a_right_likelihood_stays(name: str, factor: float) -> None:
    faces = world(name, np.full(5, factor), 800, 0).with_predictions(likelihood=name)
    fitted = fit_covariance(faces)
    np.testing.assert_allclose(fitted.scale, factor, rtol=0.15)
    assert fitted.likelihood == name


def test_factors_of_landmarks_are_found_and_hold_on_other_faces() -> None:
    groups = get_markup("ibug68").groups
    true_scale = np.empty(68)
    for factor, members in zip((4.0, 0.5, 1.0, 2.0, 9.0), groups.values(), strict=True):
        true_scale[list(members)] = factor
    fitted = fit_covariance(world("laplace", true_scale, 250, 1))
    np.testing.assert_allclose(np.log(fitted.scale), np.log(true_scale), atol=0.35)
    other = world("laplace", true_scale, 250, 2)
    np.testing.assert_allclose(held(other, fitted), LEVELS, atol=0.02)
    assert (
        abs(coverage_by_level(label_radii(other))["0.5"] - 0.5) > 0.05
    )  # there was something to mend
    radii = label_radii(with_calibration(other, fitted))
    for members in groups.values():  # not only on average
        assert coverage_by_level(radii[:, list(members)])["0.8"] == pytest.approx(0.8, abs=0.05)


def photographs(side: float, faces: int, seed: int) -> LabelledFaces:
    """Labels that are a pixel off whatever the image's size, which the predictions know."""
    rng = np.random.default_rng(seed)
    mean = rng.uniform(0, side, (faces, 10, 2))
    predicted = np.broadcast_to((0.01 * side) ** 2 * np.eye(2), (faces, 10, 2, 2))
    truth = Laplace.from_covariance(mean, 2.0 * predicted + 0.8**2 * np.eye(2)).sample(1, rng)
    words = {"source": np.full(faces, f"{side} pixels")}
    return LabelledFaces.from_arrays(mean, truth[0], None, predicted, groups=words)


def test_the_worth_of_a_pixel_is_found_and_small_images_hold_what_large_ones_do() -> None:
    both = LabelledFaces.concatenate([photographs(60, 300, 5), photographs(250, 300, 6)])
    fitted = fit_covariance(both)
    np.testing.assert_allclose(fitted.scale, 2.0, rtol=0.2)
    np.testing.assert_allclose(np.sqrt(fitted.pixel_variance), 0.8, rtol=0.15)
    for side, seed in ((60, 7), (250, 8), (120, 9)):  # other faces, and a size between
        np.testing.assert_allclose(held(photographs(side, 300, seed), fitted), LEVELS, atol=0.03)


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": [1.0, -1.0]},
        {"scale": [1.0, float("nan")]},
        {"scale": [1.0, 1.0], "pixel_variance": [0.1]},
        {"scale": [1.0], "pixel_variance": [-0.1]},
        {"scale": [1.0], "likelihood": "cauchy"},
        {"scale": [1.0], "occlusion": -1.0},
        {"scale": [1.0], "convention_variance": [0.1, 0.1]},
    ],
)
def test_a_calibration_that_makes_no_covariance_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"scale|pixel|likelihood|occlusion|convention"):
        Calibration(**wrong)


@pytest.mark.parametrize("name", ["student-6", "gauss"])
def test_the_error_distribution_is_found_and_holds_on_other_faces(name: str) -> None:
    """Errors that no factor makes Laplacian: at some level it would miss by points."""
    fitted = fit_covariance(world(name, np.full(10, 3.0), 1500, 3))
    assert fitted.likelihood is not None and fitted.likelihood.startswith("student-")
    if name != "gauss":  # the limit of many degrees of freedom
        nu = float(fitted.likelihood.removeprefix("student-"))
        assert nu == pytest.approx(float(name.removeprefix("student-")), rel=0.3)
    np.testing.assert_allclose(fitted.scale, 3.0, rtol=0.15)
    levels = (0.3, 0.5, 0.68, 0.8, 0.95)
    shares = held(world(name, np.full(10, 3.0), 1500, 4), fitted, levels)
    np.testing.assert_allclose(shares, levels, atol=0.015)


def covered_world(amount: float, seed: int) -> LabelledFaces:
    """Labels that lie further away where something covers the landmark, which only the occlusion
    tells."""
    faces = world("laplace", np.ones(8), 600, seed)
    rng = np.random.default_rng(seed + 100)
    occlusion = np.where(rng.random((600, 8)) < 0.3, rng.random((600, 8)), 0.0)
    true = faces.faces.covariance * (2 * np.exp(amount * occlusion))[..., None, None]
    labels = family("student-8").from_covariance(faces.points, true).sample(1, rng)[0]
    return LabelledFaces.from_arrays(
        faces.points, labels, None, faces.faces.covariance
    ).with_predictions(occlusion=occlusion)


def test_how_much_less_sure_covered_landmarks_are_is_found() -> None:
    fitted = fit_covariance(covered_world(1.0, 1))
    assert fitted.occlusion == pytest.approx(1.0, abs=0.2)
    np.testing.assert_allclose(fitted.scale, 2.0, rtol=0.2)
    other = covered_world(1.0, 2)
    covered = other.faces.occlusion > 0.5
    for calibration, low, high in (
        (fitted, 0.76, 0.84),
        (fitted.model_copy(update={"occlusion": 0.0}), 0.0, 0.72),
    ):
        radii = label_radii(with_calibration(other, calibration))[covered]
        assert low <= coverage_by_level(radii, fitted.likelihood)["0.8"] <= high
    calibrated = with_calibration(other, fitted).faces
    undone = fitted.undo(calibrated.covariance, calibrated.occlusion)
    np.testing.assert_allclose(undone, other.faces.covariance)
    assert fit_covariance(covered_world(0.0, 3)).occlusion <= 0.1
    unknown = other.with_predictions(occlusion=None)  # a model that does not estimate it
    assert fit_covariance(unknown).occlusion == 0


def test_rare_landmarks_lean_on_their_group() -> None:
    faces = world("laplace", np.full(6, 4.0), 400, 5)
    labels = faces.labels.copy()
    labels[:3, 2] = faces.points[:3, 2] + 1000  # seen three times, and then wildly off
    labels[3:, 2] = np.nan
    fitted = fit_covariance(
        LabelledFaces.from_arrays(faces.points, labels, None, faces.faces.covariance)
    )
    np.testing.assert_allclose(np.delete(fitted.scale, 2), 4.0, rtol=0.3)
    assert 3.0 < fitted.scale[2] < 12.0


def test_survives_json_and_refuses_other_shapes() -> None:
    fitted = Calibration(scale=[1.0, 2.0], likelihood="student-8", faces=3, before={"0.5": 0.4})
    assert Calibration.model_validate_json(fitted.model_dump_json()) == fitted
    with pytest.raises(InputError, match=r"\(\.\.\., 2, 2, 2\), got \(3, 2, 2\)"):
        fitted.apply(np.zeros((3, 2, 2)))
    faces = world("laplace", np.ones(3), 5, 7)
    unlabelled = LabelledFaces.from_arrays(faces.points, np.full_like(faces.points, np.nan))
    with pytest.raises(InputError):
        fit_covariance(unlabelled)


def labelled_source(offset: np.ndarray, faces: int, rng: np.random.Generator) -> LabelledFaces:
    """Predictions (n, 4, 2) of faces of many sizes, and labels of one convention with noise."""
    size = rng.uniform(50, 500, (faces, 1, 1))
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]) * size
    labels = points + size * (offset + rng.normal(0, 0.02, (faces, 4, 2)))
    words = {"source": np.full(faces, str(offset))}
    return LabelledFaces.from_arrays(points, labels, groups=words)


def test_the_variance_of_the_convention_is_that_between_sources() -> None:
    """Pooled over the landmarks of a group; the labels are the same without it."""
    rng = np.random.default_rng(1)
    deviation = np.array([0.0, 0.01, 0.02, 0.03])
    estimates = []
    for _ in range(30):
        offsets = rng.normal(0, 1, (6, 4, 2)) * deviation[:, None]
        faces = LabelledFaces.concatenate([labelled_source(o, 200, rng) for o in offsets])
        estimates.append(fit_convention(faces))
    own = deviation**2 * (1 + 1 / 6)  # of one more source, whose mean is not known either
    expected = (own + own.mean()) / 2
    np.testing.assert_allclose(np.mean(estimates, axis=0), expected, rtol=0.3, atol=3e-6)
    assert fit_convention(in_one_convention(faces)).max() < 3e-6
    assert not fit_convention(labelled_source(np.zeros((4, 2)), 200, rng)).any()  # one source


def test_the_convention_is_added_in_units_of_the_box() -> None:
    calibration = Calibration(scale=[1.0, 1.0], convention_variance=[0.0, 0.01])
    points = np.array([[[0.0, 0.0], [20.0, 5.0]], [[0.0, 0.0], [40.0, 10.0]]])
    spread = np.tile(np.eye(2), (2, 2, 1, 1))
    calibrated = calibration.apply(spread, points=points)
    np.testing.assert_allclose(calibrated[:, 0], spread[:, 0])
    np.testing.assert_allclose(calibrated[:, 1, 0, 0], [1 + 0.01 * 100, 1 + 0.01 * 400])
    np.testing.assert_allclose(calibration.undo(calibrated, points=points), spread)
