"""Confidence and regions of predicted faces are found out when somebody asks, once for a batch."""

from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import replace

import pytest

from luvli.faces import JUDGED, FaceLandmarks
from luvli.models import model_names
from luvli.network.trust_tables import TrustTables
from luvli.prediction.predictor import Predictor, load

from .conftest import disc_image

if "luvli-68" not in model_names():
    pytest.skip("this copy has no weights", allow_module_level=True)


@pytest.fixture(scope="module")
def model() -> Predictor:
    return load("luvli-68", threads=1)


@pytest.fixture
def faces(model: Predictor) -> list[FaceLandmarks]:
    crops = [disc_image([(x, 100, 60)], (200, 200)) for x in (90, 100, 110)]
    return model.predict_crops(crops)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many faces the tables were asked about, each time."""
    times: list[int] = []
    plain = TrustTables.tell

    def noted(self: TrustTables, faces, accept_from=None):  # type: ignore[no-untyped-def]
        times.append(len(faces.scores))
        return plain(self, faces, accept_from)

    monkeypatch.setattr(TrustTables, "tell", noted)
    return times


def test_nobody_asks_nothing_is_judged(asked: list[int], faces: list[FaceLandmarks]) -> None:
    assert [face.points.shape for face in faces] == [(68, 2)] * 3
    assert asked == []
    assert faces[1].confidence is not None
    assert asked == [3]
    assert all(face.expected_error is not None and face.regions is not None for face in faces)
    assert asked == [3]


def test_the_same_as_judged_at_once(model: Predictor, faces: list[FaceLandmarks]) -> None:
    assert model.info.trust is not None
    for face in faces:
        again = model.info.trust.apply(face)
        for name in ("confidence", "expected_error"):
            assert getattr(face, name) == pytest.approx(getattr(again, name), rel=1e-12)
        assert face.regions is again.regions and face.accepted is None


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, replace, lambda face: pickle.loads(pickle.dumps(face))],
    ids=["copy", "deepcopy", "replace", "pickle"],
)
def test_copies_are_judged(again, faces: list[FaceLandmarks]) -> None:  # type: ignore[no-untyped-def]
    made = again(faces[0])
    assert all(name in vars(made) for name in JUDGED) and "_judge" not in vars(made)
    assert made == faces[0]


def test_triage_is_asked_of_the_predictor(model: Predictor) -> None:
    image = disc_image([(100, 100, 60)], (200, 200))
    sure = model.predict_crops([image])[0].confidence
    assert sure is not None
    for threshold, verdict in ((sure / 2, True), (min(1.0, sure + 1e-6), False)):
        strict = copy.copy(model)
        strict.accept_from = threshold
        assert strict.predict_crops([image])[0].accepted is verdict


def test_many_threads_ask_at_once(model: Predictor) -> None:
    image = disc_image([(100, 100, 60)], (200, 200))
    for _ in range(20):
        face = model.predict_crops([image])[0]
        found: list[object] = []
        gate = threading.Barrier(4)

        def ask(face: FaceLandmarks = face, gate: threading.Barrier = gate) -> None:
            gate.wait()
            found.append((face.confidence, face.expected_error, face.accepted))  # noqa: B023

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [(face.confidence, face.expected_error, None)] * 4


def test_other_attributes_are_still_missing(faces: list[FaceLandmarks]) -> None:
    with pytest.raises(AttributeError, match="no attribute 'confidense'"):
        _ = faces[0].confidense  # type: ignore[attr-defined]
