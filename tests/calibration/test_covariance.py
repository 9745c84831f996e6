"""The calibration finds known factors, and what it promises holds on other faces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from luvli.calibration.covariance import LEVELS, coverage, fit_convention, fit_covariance
from luvli.errors import InputError
from luvli.evaluation.uncertainty import radii
from luvli.likelihood import Gauss, Laplace, family
from luvli.markup import get_markup
from luvli.network.calibration import Calibration


def world(
    name: str, true_scale: np.ndarray, faces: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions whose true covariance is `true_scale` times the predicted one."""
    rng = np.random.default_rng(seed)
    k = len(true_scale)
    root = rng.normal(size=(faces, k, 2, 2))
    predicted = root @ root.transpose(0, 1, 3, 2) + 0.3 * np.eye(2)
    predicted *= rng.uniform(0.5, 20, (faces, 1, 1, 1))  # faces of many sizes
    mean = rng.normal(0, 50, (faces, k, 2))
    truth = family(name).from_covariance(mean, predicted * true_scale[:, None, None]).sample(1, rng)
    return mean, predicted, truth[0]


@pytest.mark.parametrize("name", ["laplace", "gauss"])
@pytest.mark.parametrize("factor", [0.25, 1.0, 6.0])
def test_one_factor_is_found(name: str, factor: float) -> None:
    mean, covariance, truth = world(name, np.full(5, factor), 800, 0)
    fitted = fit_covariance(mean, covariance, truth, likelihood=name)
    np.testing.assert_allclose(fitted.scale, factor, rtol=0.15)


def test_factors_of_landmarks_are_found_and_hold_on_other_faces() -> None:
    groups = get_markup("ibug68").groups
    true_scale = np.empty(68)
    for factor, members in zip((4.0, 0.5, 1.0, 2.0, 9.0), groups.values(), strict=True):
        true_scale[list(members)] = factor
    fitted = fit_covariance(*world("laplace", true_scale, 250, 1), groups=groups)
    np.testing.assert_allclose(np.log(fitted.scale), np.log(true_scale), atol=0.35)
    mean, covariance, truth = world("laplace", true_scale, 250, 2)
    before = coverage(radii(mean, covariance, truth))
    after = coverage(radii(mean, fitted.apply(covariance), truth))
    for level in LEVELS:
        assert after[f"{level:g}"] == pytest.approx(level, abs=0.02)
    assert abs(before["0.5"] - 0.5) > 0.05  # there was something to mend
    for members in groups.values():  # not only on average
        some = list(members)
        held = coverage(radii(mean[:, some], fitted.apply(covariance)[:, some], truth[:, some]))
        assert held["0.8"] == pytest.approx(0.8, abs=0.05)


def photographs(side: float, faces: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels that are a pixel off whatever the image's size, which the predictions know."""
    rng = np.random.default_rng(seed)
    mean = rng.uniform(0, side, (faces, 10, 2))
    predicted = np.broadcast_to((0.01 * side) ** 2 * np.eye(2), (faces, 10, 2, 2))
    truth = Laplace.from_covariance(mean, 2.0 * predicted + 0.8**2 * np.eye(2)).sample(1, rng)
    return mean, predicted, truth[0]


def test_the_worth_of_a_pixel_is_found_and_small_images_hold_what_large_ones_do() -> None:
    small, large = photographs(60, 300, 5), photographs(250, 300, 6)
    both = [np.concatenate(pair) for pair in zip(small, large, strict=True)]
    fitted = fit_covariance(*both, sources=["small"] * 300 + ["large"] * 300)
    np.testing.assert_allclose(fitted.scale, 2.0, rtol=0.2)
    np.testing.assert_allclose(np.sqrt(fitted.pixel_variance), 0.8, rtol=0.15)
    one = fit_covariance(*both)  # of one source: a factor alone, which fits neither
    assert one.pixel_variance == []
    for side, seed in ((60, 7), (250, 8), (120, 9)):  # other faces, and a size between
        mean, covariance, truth = photographs(side, 300, seed)
        held = coverage(radii(mean, fitted.apply(covariance), truth))
        for level in LEVELS:
            assert held[f"{level:g}"] == pytest.approx(level, abs=0.03)
        alone = coverage(radii(mean, one.apply(covariance), truth))["0.5"]
        assert side == 120 or abs(alone - 0.5) > 0.04


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


@pytest.mark.parametrize("name", ["student-6", "student-9", "gauss"])
def test_the_error_distribution_is_found_and_holds_on_other_faces(name: str) -> None:
    """Errors that no factor makes Laplacian: at some level it would miss by points."""
    mean, covariance, truth = world(name, np.full(10, 3.0), 1500, 3)
    fitted = fit_covariance(mean, covariance, truth, likelihood="laplace")
    assert fitted.likelihood is not None and fitted.likelihood.startswith("student-")
    if name != "gauss":  # the limit of many degrees of freedom
        nu = float(fitted.likelihood.removeprefix("student-"))
        assert nu == pytest.approx(float(name.removeprefix("student-")), rel=0.3)
    np.testing.assert_allclose(fitted.scale, 3.0, rtol=0.15)
    mean, covariance, truth = world(name, np.full(10, 3.0), 1500, 4)
    radius = radii(mean, fitted.apply(covariance), truth)
    levels = (0.3, 0.5, 0.68, 0.8, 0.95)
    held = coverage(radius, fitted.likelihood, levels)
    assert max(abs(value - float(level)) for level, value in held.items()) < 0.015
    factors = np.geomspace(0.5, 2, 60)
    laplacian = [coverage(radius / factor, "laplace", levels) for factor in factors]
    gaps = [max(abs(value - float(p)) for p, value in held.items()) for held in laplacian]
    assert min(gaps) > 0.02  # there was something to find


@pytest.mark.parametrize("name", ["laplace", "gauss"])
def test_a_right_likelihood_stays(name: str) -> None:
    fitted = fit_covariance(*world(name, np.full(10, 2.0), 300, 9), likelihood=name)
    assert fitted.likelihood == name


def covered_world(amount: float, seed: int) -> tuple[np.ndarray, ...]:
    """Labels that lie further away where something covers the landmark, which only the
    occlusion tells: (mean, covariance, truth, occlusion)."""
    mean, covariance, _ = world("laplace", np.ones(8), 600, seed)
    rng = np.random.default_rng(seed + 100)
    occlusion = np.where(rng.random((600, 8)) < 0.3, rng.random((600, 8)), 0.0)
    true = covariance * (2 * np.exp(amount * occlusion))[..., None, None]
    return (
        mean,
        covariance,
        family("student-8").from_covariance(mean, true).sample(1, rng)[0],
        (occlusion),
    )


def test_how_much_less_sure_covered_landmarks_are_is_found() -> None:
    mean, covariance, truth, occlusion = covered_world(1.0, 1)
    fitted = fit_covariance(mean, covariance, truth, occlusion=occlusion)
    assert fitted.occlusion == pytest.approx(1.0, abs=0.2)
    np.testing.assert_allclose(fitted.scale, 2.0, rtol=0.2)
    mean, covariance, truth, occlusion = covered_world(1.0, 2)
    calibrated = fitted.apply(covariance, occlusion)
    hidden = np.where(occlusion > 0.5, radii(mean, calibrated, truth), np.nan)
    assert fitted.likelihood is not None
    assert coverage(hidden, fitted.likelihood)["0.8"] == pytest.approx(0.8, abs=0.04)
    without = np.where(occlusion > 0.5, radii(mean, fitted.apply(covariance), truth), np.nan)
    assert coverage(without, fitted.likelihood)["0.8"] < 0.72
    np.testing.assert_allclose(fitted.undo(calibrated, occlusion), covariance)
    assert fit_covariance(*covered_world(0.0, 3)[:3], occlusion=occlusion).occlusion <= 0.1
    unknown = np.full(occlusion.shape, np.nan)  # a model that does not estimate it
    assert fit_covariance(mean, covariance, truth, occlusion=unknown).occlusion == 0


def test_rare_landmarks_lean_on_their_group() -> None:
    mean, covariance, truth = world("laplace", np.full(6, 4.0), 400, 5)
    visible = np.ones((400, 6), bool)
    visible[3:, 2] = False  # seen three times, and then wildly off
    truth[:3, 2] = mean[:3, 2] + 1000
    fitted = fit_covariance(mean, covariance, truth, visible)
    np.testing.assert_allclose(np.delete(fitted.scale, 2), 4.0, rtol=0.3)
    assert 3.0 < fitted.scale[2] < 12.0
    truth[~visible] = np.nan  # no location is as good as not visible
    np.testing.assert_allclose(fit_covariance(mean, covariance, truth).scale, fitted.scale)


def test_units_cancel() -> None:
    mean, covariance, truth = world("laplace", np.full(4, 2.0), 100, 6)
    small = fit_covariance(mean / 7, covariance / 49, truth / 7)
    np.testing.assert_allclose(
        small.scale, fit_covariance(mean, covariance, truth).scale, rtol=1e-6
    )


def test_coverage_is_the_share_inside() -> None:
    radius = np.concatenate([Laplace.radius_quantile(np.linspace(0.0005, 0.9995, 1000)), [np.nan]])
    for level, held in coverage(radius).items():
        assert held == pytest.approx(float(level), abs=0.001)
    assert coverage(radius, "gauss")["0.5"] > 0  # another distribution, another answer
    assert coverage(np.zeros(3), "gauss", [0.5]) == {"0.5": 1.0}
    assert Gauss.radius_quantile(0.5) < 2


def test_survives_json_and_refuses_nonsense() -> None:
    fitted = Calibration(scale=[1.0, 2.0], likelihood="student-8", faces=3, before={"0.5": 0.4})
    assert Calibration.model_validate_json(fitted.model_dump_json()) == fitted
    with pytest.raises(InputError, match=r"\(\.\.\., 2, 2, 2\), got \(3, 2, 2\)"):
        fitted.apply(np.zeros((3, 2, 2)))
    mean, covariance, truth = world("laplace", np.ones(3), 5, 7)
    with pytest.raises(InputError, match="none is visible"):
        fit_covariance(mean, covariance, truth, np.zeros((5, 3)))
    with pytest.raises(InputError, match="covariance has"):
        fit_covariance(mean, covariance[:, :2], truth)
    with pytest.raises(InputError, match="each of the 3 landmarks once"):
        fit_covariance(mean, covariance, truth, groups={"some": [0, 1]})


def labelled_source(offset: np.ndarray, faces: int, rng: np.random.Generator):
    """Predictions (n, 4, 2) of faces of many sizes, and labels of one convention with noise."""
    size = rng.uniform(50, 500, (faces, 1, 1))
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]) * size
    return points, points + size * (offset + rng.normal(0, 0.02, (faces, 4, 2)))


def test_the_variance_of_the_convention_is_that_between_sources() -> None:
    rng = np.random.default_rng(1)
    deviation = np.array([0.0, 0.01, 0.02, 0.03])
    estimates = []
    for _ in range(30):
        offsets = rng.normal(0, 1, (6, 4, 2)) * deviation[:, None]
        parts = [labelled_source(offset, 200, rng) for offset in offsets]
        points, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        groups = {str(j): [j] for j in range(4)}
        estimates.append(fit_convention(points, labels, np.repeat(np.arange(6), 200), groups))
    expected = deviation**2 * (1 + 1 / 6)  # of one more source, whose mean is not known either
    np.testing.assert_allclose(np.mean(estimates, axis=0), expected, rtol=0.3, atol=3e-6)
    assert not fit_convention(points, labels, np.zeros(len(points))).any()  # one source


def test_the_convention_is_added_in_units_of_the_box() -> None:
    calibration = Calibration(scale=[1.0, 1.0], convention_variance=[0.0, 0.01])
    points = np.array([[[0.0, 0.0], [20.0, 5.0]], [[0.0, 0.0], [40.0, 10.0]]])
    spread = np.tile(np.eye(2), (2, 2, 1, 1))
    calibrated = calibration.apply(spread, points=points)
    np.testing.assert_allclose(calibrated[:, 0], spread[:, 0])
    np.testing.assert_allclose(calibrated[:, 1, 0, 0], [1 + 0.01 * 100, 1 + 0.01 * 400])
    np.testing.assert_allclose(calibration.undo(calibrated, points=points), spread)
