"""Confidence: features that do not depend on place and size, convex fits, honest numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from luvli.errors import InputError
from luvli.evaluation.confidence import confidence_bins, confidence_metrics, gain_share
from luvli.faces import FaceLandmarks
from luvli.markup import get_markup
from luvli.network.face_features import (
    FEATURES,
    SCORE,
    best_turn,
    feature_table,
    many_features,
    normalised,
    pose_kind,
    score_features,
)
from luvli.network.trust_tables import ConfidenceTable, basis, expected_log
from luvli.trust.confidence import (
    BEND,
    KNOTS,
    LIMIT,
    NEAR_RIDGE,
    RIDGE,
    SPREAD,
    UNUSUAL,
    fit_confidence,
    fit_logistic,
    fit_mean,
    fit_shape,
)

from .trust_faces import labelled_points, measured_faces, predicted_face


@pytest.fixture(scope="module")
def measured():
    return measured_faces(300)


@pytest.fixture(scope="module")
def table(measured):
    return fit_confidence(measured.faces, measured.error, ~measured.plain)


def test_features_do_not_depend_on_place_and_size(table) -> None:
    rng = np.random.default_rng(0)
    face = predicted_face(labelled_points(rng), 3.0, rng)
    moved = face.transform([[2.5, 0.0, -40.0], [0.0, 2.5, 17.0]])
    assert np.allclose(
        many_features([face], table.shape)[0], many_features([moved], table.shape)[0]
    )
    turned = face.transform([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])  # upside down
    tilt = FEATURES.index("tilt")
    one, other = (many_features([f], table.shape)[0][tilt] for f in (face, turned))
    assert one + other == pytest.approx(np.pi)


def test_features_of_many_faces_are_those_of_each(table) -> None:
    """Spreads against numpy's weighted means; and faces do not disturb each other."""
    rng = np.random.default_rng(7)
    faces = [predicted_face(labelled_points(rng), 1.0 + i, rng) for i in range(4)]
    faces.insert(2, FaceLandmarks.empty("ibug68"))
    features = many_features(faces, table.shape)
    assert np.isnan(features[2]).all()
    groups = [list(group) for group in get_markup("ibug68").groups.values()]
    for face, row in zip(faces, features, strict=True):
        if face.is_empty:
            continue
        assert np.allclose(row, many_features([face], table.shape)[0])
        size = np.sqrt(np.prod(face.box[2:] - face.box[:2]))
        sigma, weight = face.uncertainty / size, face.visibility + 0.05
        means = [np.average(sigma[group], weights=weight[group]) for group in groups]
        middle = np.average(sigma, weights=weight)
        uneven = np.sqrt(np.average(np.log(sigma / middle) ** 2, weights=weight))
        assert np.allclose(row[:4], [np.log(middle), np.log(means[0]), np.log(max(means)), uneven])


def test_turns_are_measured_clockwise() -> None:
    rng = np.random.default_rng(1)
    shape = normalised(labelled_points(rng))
    angle = 0.4
    clockwise = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    assert best_turn(shape @ clockwise.T, shape) == pytest.approx(angle)


def test_shape_model_knows_its_own_and_doubts_others() -> None:
    rng = np.random.default_rng(2)
    model = fit_shape([labelled_points(rng) for _ in range(200)])
    own = [model.compare(labelled_points(rng)) for _ in range(50)]
    wild = model.compare(rng.uniform(0, 100, (68, 2)))
    assert max(residual for residual, _, _ in own) < 0.02
    assert wild[0] > 0.3
    assert np.mean([distance for _, distance, _ in own]) < 1.5
    modes = np.array(model.modes).reshape(len(model.deviations), -1)
    assert np.allclose(modes @ modes.T, np.eye(len(modes)), atol=1e-2)


def test_confidence_finds_failures_and_means_what_it_says(table) -> None:
    new = measured_faces(300, seed=5)
    sure, expected = table.judge_features(feature_table(new.faces, table.shape))
    found = confidence_metrics(sure, new.error, 5.0, expected)
    assert found["auroc"] > 0.97
    assert found["calibration_error"] < 0.05
    assert found["expected_error"] == pytest.approx(found["error"], rel=0.1)
    one = table.judge(new.faces[3])
    assert one == pytest.approx((sure[3], expected[3]))


def test_the_surer_face_is_the_one_with_the_smaller_expected_error(table) -> None:
    new = measured_faces(300, seed=6)
    sure, expected = table.judge_features(feature_table(new.faces, table.shape))
    order = np.argsort(expected)
    below = expected[order] < table.largest_error  # beyond it all are the same
    assert below.sum() > 500
    errors_apart = np.diff(expected[order][below]) > 1e-9
    assert (np.diff(sure[order][below])[errors_apart] < 0).all()
    assert sure[order[0]] > 0.9 and sure[order[-1]] < 0.1


def test_faces_without_a_score_have_a_model_of_their_own(measured, table) -> None:
    from dataclasses import replace

    face = replace(measured.faces[0], score=1.0)
    assert np.isnan(score_features([1.0])).all()
    assert 0 < table.judge(face)[0] < 1
    assert table.judge(FaceLandmarks.empty("ibug68")) == (0.0, table.largest_error)


def test_logistic_fit_is_the_minimum() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 2))
    y = rng.random(300) < 1 / (1 + np.exp(-(x[:, 0] - np.maximum(x[:, 1], 0))))
    weight = rng.uniform(0.5, 1.5, 300)
    fitted = fit_logistic(x, y, weight, ["a", "b"])
    terms = basis(x, fitted.centre, fitted.spread, KNOTS)
    penalty = np.full(terms.shape[1], RIDGE)
    penalty[-1] = 0

    def cost(beta):
        odds = terms @ beta
        return weight @ (np.logaddexp(0, odds) - y * odds) + penalty @ beta**2 / 2

    best = optimize.minimize(cost, np.zeros(terms.shape[1]), method="BFGS")
    ours = np.append(np.ravel(fitted.slopes), fitted.constant)
    assert cost(ours) <= best.fun + 1e-4
    assert np.allclose(fitted(x), terms @ ours)


def test_mean_fit_adds_up() -> None:
    """A Gamma regression with a constant: fitted means sum to the observed ones."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(500, 1))
    errors = np.exp(0.5 * x[:, 0]) * rng.gamma(3.0, 1 / 3.0, 500)
    fitted = fit_mean(x, np.log(errors), np.ones(500), ["a"], ridge=1e-6)
    ratio = errors / np.exp(fitted(x))
    assert ratio.mean() == pytest.approx(1.0, abs=1e-3)


def test_mean_fit_is_the_minimum_and_straight_among_ordinary_faces() -> None:
    """Its cost against BFGS's; and no bend where the usual faces lie, though the truth has one."""
    rng = np.random.default_rng(6)
    usual = np.arange(400) < 300
    x = np.where(usual, rng.normal(size=400), rng.uniform(3, 9, 400))[:, None]
    errors = np.exp(0.2 * np.abs(x[:, 0])) * rng.gamma(3.0, 1 / 3.0, 400)
    fitted = fit_mean(x, np.log(errors), np.ones(400), ["a"], usual)
    assert fitted.centre[0] == pytest.approx(0.0, abs=0.2)
    assert fitted.spread[0] == pytest.approx(1.0, abs=0.2)
    inside = fitted.centre[0] + fitted.spread[0] * np.linspace(-2.99, 1.99, 7)[:, None]
    assert np.allclose(np.diff(fitted(inside), n=2), 0.0, atol=1e-6)
    assert len(set(np.diff(fitted(np.arange(3.0, 9.0)[:, None])).round(6))) > 1
    terms = basis(x, fitted.centre, fitted.spread, UNUSUAL, LIMIT)
    penalty = np.array([NEAR_RIDGE, *[BEND] * len(UNUSUAL), 0.0])

    def cost(beta):
        line = terms @ beta
        return (line + errors * np.exp(-line)).sum() + penalty @ beta**2 / 2

    best = optimize.minimize(cost, np.zeros(len(penalty)), method="BFGS")
    assert cost(np.append(np.ravel(fitted.slopes), fitted.constant)) <= best.fun + 1e-4


def test_an_error_is_proportional_to_sigma_unless_faces_say_otherwise() -> None:
    """Against BFGS with the pull towards a slope of 1; nothing but the pull, and nothing of it."""
    rng = np.random.default_rng(7)
    x = np.column_stack([rng.normal(-4, 0.3, 300), rng.normal(size=300)])
    errors = np.exp(0.5 * x[:, 0] + 0.2 * x[:, 1] + 3) * rng.gamma(3.0, 1 / 3.0, 300)
    names, weight = [SPREAD, "b"], np.ones(300)
    fitted = fit_mean(x, np.log(errors), weight, names)
    terms = basis(x, fitted.centre, fitted.spread, UNUSUAL, LIMIT)
    penalty = np.array([*[NEAR_RIDGE, *[BEND] * len(UNUSUAL)] * 2, 0.0])
    prior = np.zeros(len(penalty))
    prior[0] = fitted.spread[0]

    def cost(beta):
        line = terms @ beta
        return (line + errors * np.exp(-line)).sum() + penalty @ (beta - prior) ** 2 / 2

    best = optimize.minimize(cost, prior, method="BFGS")
    assert cost(np.append(np.ravel(fitted.slopes), fitted.constant)) <= best.fun + 1e-4

    def slope(ridge: float) -> float:
        lines = fit_mean(x, np.log(errors), weight, names, ridge=ridge, bend=ridge)
        low, high = lines([[-4.1, 0.0], [-3.9, 0.0]])
        return float(high - low) / 0.2

    assert slope(1e7) == pytest.approx(1.0, abs=0.05)
    assert slope(1e-3) == pytest.approx(0.5, abs=0.2)
    assert slope(1e-3) < slope(NEAR_RIDGE) < slope(1e7)


def test_too_few_faces_are_refused(measured) -> None:
    few = measured.take(np.arange(40))
    with pytest.raises(InputError, match="at least 100"):
        fit_confidence(few.faces, few.error, ~few.plain)


@pytest.mark.parametrize(
    ("yaw", "kind"), [(0, "frontal"), (15, "frontal"), (-32, "half-profile"), (65, "profile")]
)
def test_pose_is_told_by_the_nose(yaw: float, kind: str) -> None:
    from luvli.measures.head_pose import mean_head, rotation_matrix

    turned = mean_head().mean @ rotation_matrix(yaw, 0, 0).T
    face = FaceLandmarks(
        points=turned[:, :2] * (10, -10) + 300, covariance=np.tile(np.eye(2), (68, 1, 1)),
        visibility=np.ones(68), box=[200, 200, 400, 400],
    )  # fmt: skip
    assert pose_kind(face) == kind
    upside_down = face.transform([[-1.0, 0.0, 600.0], [0.0, -1.0, 600.0]])
    assert pose_kind(upside_down) == kind


def test_pose_of_other_points_is_told_by_hidden_ones() -> None:
    for hidden, kind in ((0, "frontal"), (3, "half-profile"), (10, "profile")):
        visibility = np.ones(20)
        visibility[:hidden] = 0.0
        fields = {"points": np.random.default_rng(0).normal(size=(20, 2)), "markup": "mine20",
                  "covariance": np.tile(np.eye(2), (20, 1, 1)), "box": [0, 0, 9, 9]}  # fmt: skip
        assert pose_kind(FaceLandmarks(visibility=visibility, **fields)) == kind
        unknown = FaceLandmarks(visibility=visibility, visibility_trained=False, **fields)
        assert pose_kind(unknown) == "all"


def test_bins_and_gains_by_hand() -> None:
    bins = confidence_bins([0.95, 0.97, 0.05], [True, False, False], bins=10)
    assert bins.faces.tolist() == [1, 2]
    assert bins.success.tolist() == [0.0, 0.5]
    assert bins.error == pytest.approx(0.05 / 3 + 0.46 * 2 / 3)
    assert gain_share([1.0, 2.0, 6.0], [3.0, 2.0, 1.0]) < 0
    assert gain_share([1.0, 2.0, 6.0], [1.0, 1.0, 1.0]) == pytest.approx(0.0)
    with pytest.raises(InputError, match="do not fit"):
        confidence_bins([0.5], [True, False])


def with_words(measured, seed: int = 0):
    """The same faces with what a network might say of each: right, but for some noise, and for
    cats, which look like faces to all but the network."""
    from dataclasses import replace

    rng = np.random.default_rng(seed)
    faces, errors = list(measured.faces), measured.error.copy()
    cats = np.flatnonzero(measured.plain)[::6]
    errors[cats] = np.inf
    for i, face in enumerate(faces):
        word = (6.0 if errors[i] >= 15 else -6.0) + rng.normal(0, 1.5)
        faces[i] = replace(face, failure_logit=word)
    spoilt = ~measured.plain
    spoilt[cats] = True
    return faces, errors, spoilt, cats


def test_the_network_s_word_counts_where_landmarks_look_right(measured) -> None:
    from dataclasses import replace

    faces, errors, spoilt, _ = with_words(measured)
    told = fit_confidence(faces, errors, spoilt)
    assert "astray" in told.astray.features and "astray" not in told.error.features
    assert "astray" in told.astray_unscored.features and told.astray_unscored.features[-1] != SCORE
    new, truth, _, cats = with_words(measured_faces(300, seed=8), seed=1)
    sure, _ = told.judge_features(feature_table(new, told.shape))
    assert np.median(sure[cats]) < 0.1
    mute = [replace(face, failure_logit=None) for face in faces]
    deaf = fit_confidence(mute, errors, spoilt)
    assert "astray" not in deaf.astray.features
    without, _ = deaf.judge_features(feature_table(new, deaf.shape))
    assert np.median(without[cats]) > 0.5
    good = truth < 5
    assert sure[good].mean() > without[good].mean()


def test_a_word_that_is_not_known_counts_as_an_ordinary_one(measured) -> None:
    from dataclasses import replace

    faces, errors, spoilt, _ = with_words(measured)
    told = fit_confidence(faces, errors, spoilt)
    place = told.astray.features.index("astray")
    unknown = replace(faces[0], failure_logit=None)
    ordinary = replace(faces[0], failure_logit=told.astray.centre[place])
    assert told.judge(unknown) == pytest.approx(told.judge(ordinary))
    both, _ = told.judge_features(feature_table([unknown, faces[1]], told.shape))
    assert both[1] == pytest.approx(told.judge(faces[1])[0])


def test_tables_of_features_that_nobody_knows_are_refused(table) -> None:
    data = table.model_dump()
    data["astray"]["features"][3] = "aura"
    with pytest.raises(ValueError, match="no feature is called 'aura'"):
        ConfidenceTable.model_validate(data)


def test_what_went_astray_counts_by_its_chance(table) -> None:
    """The expected error is that of a mixture; tables of older files have one part alone."""
    assert table.astray is not None
    near, odds = np.log([2.0, 2.0, 40.0]), np.array([-40.0, 0.0, 40.0])
    mixed = np.exp(expected_log(near, odds, 15.0, 30.0))
    np.testing.assert_allclose(mixed, [2.0, 16.0, 30.0])
    older = table.model_copy(update={"astray": None, "astray_unscored": None})
    rng = np.random.default_rng(3)
    face = predicted_face(labelled_points(rng), 3.0, rng)
    told = feature_table([face], table.shape)
    alone = np.exp(table.error.of_columns(told))[0]
    assert older.judge(face)[1] == pytest.approx(alone)
    lost = table.astray.of_columns(told)[0]
    share = 1 / (1 + np.exp(-lost))
    wanted = (1 - share) * min(alone, table.astray_from) + share * table.astray_error
    assert table.judge(face)[1] == pytest.approx(wanted)
