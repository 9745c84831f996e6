"""The one affine algebra, against plain loops and by its own laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from luvli.errors import InputError
from luvli.image import affine

numbers = st.floats(-50, 50)


@st.composite
def affines(draw: st.DrawFn, batch: tuple[int, ...] = ()) -> np.ndarray:
    """Turn, two different stretches, perhaps a mirror, and a shift: never near singular."""
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    angle, lean = rng.uniform(-np.pi, np.pi, (2, *batch))
    long, short = rng.uniform(0.2, 5.0, (2, *batch)) * rng.choice([-1, 1], (2, *batch))

    def turn(angle: np.ndarray) -> np.ndarray:
        c, s = np.cos(angle), np.sin(angle)
        return np.moveaxis(np.array([[c, -s], [s, c]]), (0, 1), (-2, -1))

    stretch = np.stack([long, short], axis=-1)[..., None] * np.eye(2)
    shift = rng.uniform(-100, 100, (*batch, 2, 1))
    return np.concatenate([turn(angle) @ stretch @ turn(lean), shift], axis=-1)


points = arrays.arrays(np.float64, (5, 2), elements=numbers)
covariances = arrays.arrays(np.float64, (5, 2, 2), elements=numbers).map(
    lambda factor: factor @ factor.swapaxes(-1, -2) + 0.1 * np.eye(2)
)


@given(affines(), points, covariances)
def test_apply_and_push_are_the_written_out_sums(
    a: np.ndarray, points: np.ndarray, covariances: np.ndarray
) -> None:
    moved, pushed = affine.apply(a, points), affine.push_covariance(a, covariances)
    for n in range(5):
        for i in range(2):
            expected = a[i, 0] * points[n, 0] + a[i, 1] * points[n, 1] + a[i, 2]
            assert moved[n, i] == pytest.approx(expected, rel=1e-12, abs=1e-9)
            for j in range(2):
                total = sum(
                    a[i, p] * covariances[n, p, q] * a[j, q] for p in range(2) for q in range(2)
                )
                assert pushed[n, i, j] == pytest.approx(total, rel=1e-9, abs=1e-8)
    assert np.array_equal(pushed, pushed.swapaxes(-1, -2))


@given(st.floats(0.01, 50), points, covariances)
def test_a_zoom_alone_is_the_matrix_product_to_the_last_digit(
    factor: float, points: np.ndarray, covariances: np.ndarray
) -> None:
    """Upright crops, the way of nearly every face, go by products of numbers."""
    zoomed = affine.zoom(factor, about=(3.0, -4.0))
    product = points @ zoomed[:, :2].T + zoomed[:, 2]
    np.testing.assert_array_equal(affine.apply(zoomed, points), product)
    both = zoomed[:, :2] @ covariances @ zoomed[:, :2].T
    both[:, 1, 0] = both[:, 0, 1]
    np.testing.assert_array_equal(affine.push_covariance(zoomed, covariances), both)


@given(affines(), points, covariances)
def test_there_and_back(a: np.ndarray, points: np.ndarray, covariances: np.ndarray) -> None:
    back = affine.invert(a)
    np.testing.assert_allclose(affine.apply(back, affine.apply(a, points)), points, atol=1e-8)
    there = affine.push_covariance(a, covariances)
    np.testing.assert_allclose(
        affine.push_covariance(back, there), covariances, rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(affine.compose(back, a), np.eye(2, 3), atol=1e-8)
    assert affine.scale(back) * affine.scale(a) == pytest.approx(1)


@given(affines(), affines(), points, covariances)
def test_a_composition_is_one_after_the_other(
    outer: np.ndarray, inner: np.ndarray, points: np.ndarray, covariances: np.ndarray
) -> None:
    both = affine.compose(outer, inner)
    one_by_one = affine.apply(outer, affine.apply(inner, points))
    np.testing.assert_allclose(affine.apply(both, points), one_by_one, atol=1e-8)
    pushed = affine.push_covariance(outer, affine.push_covariance(inner, covariances))
    np.testing.assert_allclose(
        affine.push_covariance(both, covariances), pushed, rtol=1e-8, atol=1e-6
    )
    assert affine.is_mirrored(both) == (affine.is_mirrored(outer) != affine.is_mirrored(inner))
    assert affine.scale(both) == pytest.approx(affine.scale(outer) * affine.scale(inner))


@given(affines((3,)), affines((3,)), st.integers(0, 100))
def test_a_stack_is_one_after_another(a: np.ndarray, b: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, factor = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4, 2, 2))
    covariances = factor @ factor.swapaxes(-1, -2)
    for stacked, single in (
        (affine.apply(a, points), affine.apply),
        (affine.push_covariance(a, covariances), affine.push_covariance),
    ):
        given_ = points if single is affine.apply else covariances
        for i in range(3):
            np.testing.assert_allclose(stacked[i], single(a[i], given_[i]), rtol=1e-9)
    for i in range(3):
        np.testing.assert_allclose(affine.invert(a)[i], affine.invert(a[i]))
        np.testing.assert_allclose(affine.compose(a, b)[i], affine.compose(a[i], b[i]))
        assert affine.is_mirrored(a)[i] == affine.is_mirrored(a[i])
        assert affine.scale(a)[i] == pytest.approx(affine.scale(a[i]))


def test_mirror_and_zoom_keep_what_they_should() -> None:
    ends = [[0.0, 3.0], [99.0, 3.0], [49.5, 3.0]]
    assert affine.apply(affine.mirror(100), ends).tolist() == [ends[1], ends[0], ends[2]]
    grown = affine.zoom((2.0, 3.0), about=(10.0, 20.0))
    assert affine.apply(grown, [[10.0, 20.0], [11.0, 21.0]]).tolist() == [[10, 20], [12, 23]]


def test_one_point_and_one_covariance_need_no_list() -> None:
    shifted = affine.as_affine([[1, 0, 5], [0, 1, 6], [0, 0, 1]])
    assert affine.apply(shifted, (1.0, 2.0)).tolist() == [6, 8]
    assert affine.push_covariance(shifted, np.eye(2)).tolist() == np.eye(2).tolist()


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
