"""The one affine algebra, against plain loops and by its own laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from luvli.errors import InputError
from luvli.image import affine


def random_affines(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, 2, 3) turn, two different stretches, perhaps a mirror, and a shift: never singular."""
    u, _, v = np.linalg.svd(rng.normal(size=(n, 2, 2)))
    stretch = rng.uniform(0.2, 5.0, (n, 1, 2))
    return np.concatenate([u * stretch @ v, rng.uniform(-100, 100, (n, 2, 1))], axis=-1)


@given(st.integers(0, 10_000))
def test_the_algebra_on_random_affines(seed: int) -> None:
    """Stacks of affines: the written-out sums, there and back, one after the other."""
    rng = np.random.default_rng(seed)
    a, b = random_affines(rng, 3), random_affines(rng, 3)
    points, factor = rng.normal(0, 30, (3, 4, 2)), rng.normal(0, 5, (3, 4, 2, 2))
    covariance = factor @ factor.swapaxes(-1, -2) + 0.1 * np.eye(2)
    moved, pushed = affine.apply(a, points), affine.push_covariance(a, covariance)
    linear, shift = a[:, :, :2], a[:, :, 2]
    np.testing.assert_allclose(moved, np.einsum("nij,nkj->nki", linear, points) + shift[:, None])
    expected = np.einsum("nip,nkpq,njq->nkij", linear, covariance, linear)
    np.testing.assert_allclose(pushed, expected, rtol=1e-9, atol=1e-8)
    assert np.array_equal(pushed, pushed.swapaxes(-1, -2))
    for i in range(3):  # each its own
        np.testing.assert_allclose(affine.apply(a[i], points[i]), moved[i])
        np.testing.assert_allclose(affine.push_covariance(a[i], covariance[i]), pushed[i])
    back = affine.invert(a)
    np.testing.assert_allclose(affine.apply(back, moved), points, atol=1e-8)
    np.testing.assert_allclose(affine.push_covariance(back, pushed), covariance, rtol=1e-6)
    both = affine.compose(b, a)
    np.testing.assert_allclose(affine.apply(both, points), affine.apply(b, moved), atol=1e-8)
    np.testing.assert_allclose(
        affine.push_covariance(both, covariance), affine.push_covariance(b, pushed), rtol=1e-6
    )
    mirrors = affine.is_mirrored(a) != affine.is_mirrored(b)
    np.testing.assert_array_equal(affine.is_mirrored(both), mirrors)
    np.testing.assert_allclose(affine.scale(both), affine.scale(a) * affine.scale(b))


def test_mirror_and_zoom_keep_what_they_should() -> None:
    ends = [[0.0, 3.0], [99.0, 3.0], [49.5, 3.0]]
    assert affine.apply(affine.mirror(100), ends).tolist() == [ends[1], ends[0], ends[2]]
    grown = affine.zoom((2.0, 3.0), about=(10.0, 20.0))
    assert affine.apply(grown, [[10.0, 20.0], [11.0, 21.0]]).tolist() == [[10, 20], [12, 23]]
    shifted = affine.as_affine([[1, 0, 5], [0, 1, 6], [0, 0, 1]])
    assert affine.apply(shifted, (1.0, 2.0)).tolist() == [6, 8]


@pytest.mark.parametrize(
    ("matrix", "what"),
    [
        (np.eye(2), "shape"),
        ([[1, 0, 0], [0, 1, 0], [0, 1, 1]], "third row"),
        ([[1, 0, np.nan], [0, 1, 0]], "finite"),
        ([[1, 2, 0], [2, 4, 0]], "invertible"),
    ],
)
def test_what_is_no_affine_is_refused(matrix: object, what: str) -> None:
    with pytest.raises(InputError, match=what):
        affine.as_affine(matrix)  # type: ignore[arg-type]


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(InputError, match=r"\(\.\.\., 2\)"):
        affine.apply(np.eye(2, 3), np.zeros((4, 3)))
    with pytest.raises(InputError, match=r"\(\.\.\., 2, 2\)"):
        affine.push_covariance(np.eye(2, 3), np.zeros((4, 2)))
