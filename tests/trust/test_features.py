"""Features do not depend on place and size, and are those of each face alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError
from tests.calibration.drawn_faces import labelled_points, predicted_face

from luvli.faces import FaceLandmarks, Faces
from luvli.markup import get_markup
from luvli.models import find_model
from luvli.prediction.predictor import load
from luvli.trust.failure_model import FailureModel, sigmoid
from luvli.trust.features import FEATURES, feature_table, predicted_poses
from luvli.trust.trust import Trust


@pytest.fixture(scope="module")
def trust() -> Trust:
    trust = load(find_model("luvli-68", "onnx"), threads=1).info.trust
    assert trust is not None
    return trust


def faces(count: int, seed: int = 7) -> Faces:
    rng = np.random.default_rng(seed)
    return Faces.stack([predicted_face(labelled_points(rng), 1.0 + i, rng) for i in range(count)])


def test_features_do_not_depend_on_place_and_size(trust: Trust) -> None:
    shape = trust.failure_model.shape
    some = faces(3)
    moved = some.transform([[2.5, 0.0, -40.0], [0.0, 2.5, 17.0]])
    np.testing.assert_allclose(feature_table(some, shape), feature_table(moved, shape), atol=1e-9)
    turned = some.transform([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])  # upside down
    tilt = FEATURES.index("tilt")
    both = feature_table(some, shape)[:, tilt] + feature_table(turned, shape)[:, tilt]
    np.testing.assert_allclose(both, np.pi)


def test_features_are_those_of_each_face(trust: Trust) -> None:
    """Spreads against numpy's weighted means; and faces do not disturb each other."""
    shape = trust.failure_model.shape
    some = faces(4)
    mixed = Faces.stack([some[0], FaceLandmarks.empty("ibug68"), *some[1:]])
    table = feature_table(mixed, shape)
    assert np.isnan(table[1, : len(FEATURES)]).all()
    groups = [list(group) for group in get_markup("ibug68").groups.values()]
    for i in (0, 2, 3, 4):
        face = mixed[i]
        np.testing.assert_allclose(table[i], feature_table(Faces.stack([face]), shape)[0])
        size = np.sqrt(np.prod(face.box[2:] - face.box[:2]))
        sigma, weight = face.uncertainty / size, face.visibility + 0.05
        means = [np.average(sigma[group], weights=weight[group]) for group in groups]
        middle = np.average(sigma, weights=weight)
        uneven = np.sqrt(np.average(np.log(sigma / middle) ** 2, weights=weight))
        wanted = [np.log(middle), np.log(means[0]), np.log(max(means)), uneven]
        np.testing.assert_allclose(table[i, :4], wanted)


def test_rotations_are_clockwise(trust: Trust) -> None:
    shape = trust.failure_model.shape
    cos, sin = np.cos(0.4), np.sin(0.4)
    turned = np.array(shape.mean) @ np.array([[cos, sin], [-sin, cos]])
    assert shape.compare(turned) == pytest.approx((0.0, 0.0, 0.4), abs=1e-4)


def test_many_faces_are_assessed_as_each_alone(trust: Trust) -> None:
    some = faces(5)
    some = Faces.stack([*some, FaceLandmarks.empty("ibug68")])
    assessed = trust.assess(some, accept_threshold=0.5)
    for i, face in enumerate(some):
        alone = trust.assess(Faces.stack([face]), accept_threshold=0.5)
        assert alone.confidence[0] == pytest.approx(assessed.confidence[i])
        assert alone.accepted[0] == assessed.accepted[i] == (assessed.confidence[i] >= 0.5)
        np.testing.assert_array_equal(alone.regions.radii[0], assessed.regions.radii[i])
    assert assessed.confidence[-1] == 0.0  # no location
    assert assessed.expected_error[-1] == trust.failure_model.max_error
    assert len(trust.assess(some[:0])) == 0
    assert trust.assess(some).accepted is None
    assert Trust().assess(some) is not some and np.isnan(Trust().assess(some).confidence).all()


def test_poses_of_other_points_are_by_hidden_ones() -> None:
    rng = np.random.default_rng(0)
    visibility = np.repeat([[0.99], [0.85], [0.5]], 20, axis=1)
    points = rng.normal(size=(3, 20, 2))
    some = Faces(points, np.tile(np.eye(2), (3, 20, 1, 1)), visibility, markup="mine20")
    assert predicted_poses(some).tolist() == ["frontal", "half-profile", "profile"]
    assert set(predicted_poses(replace(some, visibility_trained=False))) == {"all"}


def test_unknown_features_are_refused(trust: Trust) -> None:
    data = trust.failure_model.model_dump()
    data["detected"]["failure"]["features"][3] = "aura"
    with pytest.raises(ValidationError, match="no feature is called 'aura'"):
        FailureModel.model_validate(data)
    assert sigmoid(np.array([0.0, 1e9])).tolist() == pytest.approx([0.5, 1.0])


def test_a_predictor_with_triage_is_another_predictor() -> None:
    predictor = load("luvli-68", threads=1)
    strict = predictor.with_triage(0.05)
    image = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    boxes = [[50, 50, 150, 150]]
    assert predictor.predict(image, boxes).accepted is None
    result = strict.predict(image, boxes)
    assert result.accepted.tolist() == (result.confidence >= strict.accept_threshold).tolist()
