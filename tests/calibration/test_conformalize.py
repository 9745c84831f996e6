"""Conformal radii: exact coverage on exchangeable draws, whatever the distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from luvli.calibration.guarantees import (
    conformalize,
    face_quantiles,
    faces_needed,
)


def drawn(rng: np.random.Generator, n: int, m: int, shared: float = 0.7) -> np.ndarray:
    """Heavy-tailed radii whose landmarks share a factor; some landmarks are missing."""
    radii = np.abs(rng.standard_t(3, (n, m))) * np.exp(rng.normal(0, shared, (n, 1)))
    radii[rng.random((n, m)) < 0.3] = np.nan
    return radii


def limits(p: float, n: int) -> tuple[float, float]:
    return tuple(stats.binom.ppf((1e-4, 1 - 1e-4), n, p) / n)


@pytest.mark.parametrize(("n", "coverage"), [(19, 0.9), (40, 0.8), (99, 0.95)])
def test_one_score_per_face_is_covered_exactly(n: int, coverage: float) -> None:
    rng = np.random.default_rng(n)
    scores = rng.standard_cauchy((4000, n + 1))
    inside = [row[-1] <= face_quantiles(row[:-1, None], [coverage])[0] for row in scores]
    # for continuous scores the coverage is exactly ceil((n + 1) c) / (n + 1)
    exact = float(np.ceil((n + 1) * coverage - 1e-9) / (n + 1))
    low, high = limits(exact, len(scores))
    assert low <= np.mean(inside) <= high and exact >= coverage


def test_a_landmark_of_a_new_face_is_covered_however_alike_its_landmarks_are() -> None:
    rng = np.random.default_rng(1)
    draws, inside = 1500, 0
    for _ in range(draws):
        faces = drawn(rng, 13, 20, shared=2.0)
        new = faces[-1][np.isfinite(faces[-1])]
        radius = face_quantiles(faces[:-1], [0.9])[0]
        assert np.isfinite(radius)
        inside += new[rng.integers(len(new))] <= radius
    assert inside / draws >= limits(0.9, draws)[0]


def test_quantiles_by_hand() -> None:
    # three faces, weight 1/4 each: (1, 3) give 1/8 each, (2) gives 1/4, (5, 5) 1/8 each
    radii = [[1.0, 3.0], [2.0, np.nan], [5.0, 5.0], [np.nan, np.nan]]
    wanted = {0.1: 1.0, 0.3: 2.0, 0.45: 3.0, 0.6: 5.0, 0.75: 5.0, 0.8: np.inf}
    assert face_quantiles(radii, list(wanted)).tolist() == list(wanted.values())
    for coverage in (0.5, 0.9, 0.99):
        for n, finite in ((faces_needed(coverage), True), (faces_needed(coverage) - 1, False)):
            scores = np.arange(n, dtype=float)[:, None]
            assert np.isfinite(face_quantiles(scores, [coverage])[0]) == finite


def test_each_class_of_pose_is_covered() -> None:
    """Profiles four times as far off as frontal faces: both classes hold, as does the joint."""
    rng = np.random.default_rng(3)
    groups = {"eyes": [0, 1], "jaw": [2, 3, 4, 5]}
    shares: dict[tuple[str, bool], list[float]] = {}
    for _ in range(60):
        scale = np.array([1, 1, 2, 2, 2, 2])
        parts = {"frontal": drawn(rng, 400, 6) * scale, "profile": drawn(rng, 400, 6) * 4 * scale}
        radii = np.concatenate([part[:200] for part in parts.values()])
        table = conformalize(radii, groups, np.repeat(list(parts), 200))
        for pose, part in parts.items():
            new = part[200:][np.isfinite(part[200:]).any(axis=1)]
            known = np.isfinite(new)
            regions = table.of_poses([pose])
            for joint in (False, True):
                inside = np.nan_to_num(new) <= regions.at(0.9, joint)[0]
                held = inside.all(axis=1) if joint else (inside & known).sum(1) / known.sum(1)
                shares.setdefault((pose, joint), []).append(float(np.mean(held)))
    for values in shares.values():
        error = 4 * np.std(values) / np.sqrt(len(values))
        assert 0.9 - error <= np.mean(values) <= 0.92 + error


def test_few_faces_take_the_radii_of_all_poses() -> None:
    radii = drawn(np.random.default_rng(0), 130, 3)
    table = conformalize(radii, {"all": [0, 1, 2]}, ["frontal"] * 120 + ["profile"] * 10)
    assert "profile" not in table.radii and table.faces["profile"] == 10
    profile, every, frontal = (table.of_poses([p]) for p in ("profile", "all", "frontal"))
    assert (profile.radii == every.radii).all() and np.isfinite(frontal.radii).all()
    assert (frontal.at(0.905) == frontal.at(0.91)).all()  # between levels: the higher one
    small = conformalize(radii[:20], {"all": [0, 1, 2]}, ["frontal"] * 20)
    assert np.isinf(small.of_poses(["frontal"]).at(0.99)).all()  # 99 faces are needed
