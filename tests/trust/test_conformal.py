"""Conformal regions: exact coverage on exchangeable draws, whatever the law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from luvli.errors import InputError
from luvli.network.trust_tables import ALL_POSES
from luvli.trust.conformal import (
    coverage_by,
    face_quantile,
    face_quantiles,
    faces_needed,
    fit_regions,
    largest_radius,
    split_quantile,
)


def _faces(rng: np.random.Generator, n: int, m: int, shared: float = 0.7) -> np.ndarray:
    """Heavy-tailed radii whose landmarks share a factor; some landmarks are missing."""
    radii = np.abs(rng.standard_t(3, (n, m))) * np.exp(rng.normal(0, shared, (n, 1)))
    radii[rng.random((n, m)) < 0.3] = np.nan
    return radii


def _binomial_limits(p: float, n: int) -> tuple[float, float]:
    return tuple(stats.binom.ppf((1e-4, 1 - 1e-4), n, p) / n)


@pytest.mark.parametrize(("n", "coverage"), [(19, 0.9), (40, 0.8), (99, 0.95)])
def test_split_quantile_covers_exactly(n: int, coverage: float) -> None:
    rng = np.random.default_rng(n)
    draws = 4000
    scores = rng.standard_cauchy((draws, n + 1))
    inside = [row[-1] <= split_quantile(row[:-1], coverage) for row in scores]
    # for continuous scores the coverage is exactly ceil((n + 1) c) / (n + 1)
    exact = np.ceil((n + 1) * coverage - 1e-9) / (n + 1)
    low, high = _binomial_limits(float(exact), draws)
    assert low <= np.mean(inside) <= high
    assert exact >= coverage


def test_pooled_landmarks_of_a_face_keep_the_promise() -> None:
    """A landmark drawn from a new face is covered, by finite regions, however alike its
    face's landmarks are."""
    rng = np.random.default_rng(1)
    draws, n, m, coverage = 1500, 12, 20, 0.9
    inside, radii = 0, []
    for _ in range(draws):
        faces = _faces(rng, n + 1, m, shared=2.0)
        new = faces[-1][np.isfinite(faces[-1])]
        one = new[rng.integers(len(new))]
        radii.append(face_quantile(faces[:-1], coverage))
        inside += one <= radii[-1]
    assert inside / draws >= _binomial_limits(coverage, draws)[0]
    assert np.isfinite(radii).all()


def test_quantiles_by_hand() -> None:
    # three faces, weight 1/4 each: (1, 3) give 1/8 each, (2) gives 1/4, (5, 5) 1/8 each
    radii = [[1.0, 3.0], [2.0, np.nan], [5.0, 5.0], [np.nan, np.nan]]
    wanted = {0.1: 1.0, 0.3: 2.0, 0.45: 3.0, 0.6: 5.0, 0.75: 5.0, 0.8: np.inf}
    assert face_quantiles(radii, list(wanted)).tolist() == list(wanted.values())
    assert largest_radius(radii).tolist()[:3] == [3.0, 2.0, 5.0]
    assert np.isnan(largest_radius(radii)[3])


def test_faces_needed_is_where_radii_become_finite() -> None:
    for coverage in (0.5, 0.8, 0.9, 0.95, 0.99):
        n = faces_needed(coverage)
        assert np.isfinite(split_quantile(np.arange(n, dtype=float), coverage))
        assert np.isinf(split_quantile(np.arange(n - 1, dtype=float), coverage))


def test_mondrian_classes_are_covered_each() -> None:
    """Profiles four times as far off as frontal faces: both classes hold, as does the joint."""
    rng = np.random.default_rng(3)
    groups = {"eyes": [0, 1], "jaw": [2, 3, 4, 5]}
    kinds = ("frontal", "profile")
    held = {(pose, joint): [] for pose in kinds for joint in (False, True)}
    for _ in range(60):
        parts = {}
        for pose, factor in zip(kinds, (1.0, 4.0), strict=True):
            parts[pose] = _faces(rng, 400, 6) * factor * np.array([1, 1, 2, 2, 2, 2])
        radii = np.concatenate([parts[pose][:200] for pose in kinds])
        table = fit_regions(radii, groups, ["frontal"] * 200 + ["profile"] * 200)
        for pose in kinds:
            new = parts[pose][200:]
            held[pose, False].append(coverage_by(new, table.radius(pose, 0.9))[0])
            joint = table.radius(pose, 0.9, joint=True)
            inside = (np.nan_to_num(new) <= joint).all(axis=1)
            held[pose, True].append(inside.mean())
    for shares in held.values():
        error = 4 * np.std(shares) / np.sqrt(len(shares))
        assert 0.9 - error <= np.mean(shares) <= 0.92 + error


def test_few_faces_fall_back_on_all_poses() -> None:
    rng = np.random.default_rng(0)
    radii = _faces(rng, 130, 3)
    table = fit_regions(radii, {"all": [0, 1, 2]}, ["frontal"] * 120 + ["profile"] * 10)
    assert "profile" not in table.radii
    assert table.faces["profile"] == 10
    assert (table.radius("profile", 0.9) == table.radius(ALL_POSES, 0.9)).all()
    assert np.isfinite(table.radius("frontal", 0.99)).all()
    small = fit_regions(radii[:20], {"all": [0, 1, 2]}, ["frontal"] * 20)
    assert np.isinf(small.radius("frontal", 0.99)).all()  # 99 faces are needed


def test_levels_between_take_the_higher() -> None:
    rng = np.random.default_rng(0)
    table = fit_regions(_faces(rng, 300, 2), {"all": [0, 1]}, ["frontal"] * 300)
    assert (table.radius("frontal", 0.905) == table.radius("frontal", 0.91)).all()
    assert (table.radius("frontal", 0.9) < table.radius("frontal", 0.91)).all()
    assert np.isinf(table.radius("frontal", 0.995)).all()


def test_bad_input() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        split_quantile([1.0], 1.0)
    with pytest.raises(InputError, match="each of the 3 landmarks once"):
        fit_regions(np.ones((5, 3)), {"a": [0, 1]}, ["all"] * 5)
    with pytest.raises(InputError, match="shape"):
        fit_regions(np.ones((5, 3)), {"a": [0, 1, 2]}, ["all"] * 4)
