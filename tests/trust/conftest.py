"""One fit for all tests of this folder: it takes a few seconds."""

from __future__ import annotations

import pytest

from luvli.models import find_model
from luvli.network.config import NetworkConfig
from luvli.trust.fit_tables import fit_tables

from .trust_faces import measured_faces

CONFIG = NetworkConfig(landmarks=68, input_size=128, visibility_trained=True)


@pytest.fixture(scope="session")
def measured():
    return measured_faces(650, seed=1, spoilt=1)


@pytest.fixture(scope="session")
def fitted(measured):
    return fit_tables(measured, CONFIG)


@pytest.fixture(scope="session")
def calibrated(fitted, tmp_path_factory):
    """The shipped model with the tables of `fitted`."""
    onnx = pytest.importorskip("onnx")
    from luvli.prediction.predictor import load

    source = find_model("luvli-68", "onnx")
    info = load(source).info.model_copy(update={"trust": fitted.trust})
    proto = onnx.load(source)
    onnx.helper.set_model_props(proto, info.to_metadata())
    target = tmp_path_factory.mktemp("model") / "calibrated.onnx"
    onnx.save(proto, target)
    return target
