"""One fit for all tests of this folder: it takes a few seconds."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn (extra calibrate)")

from luvli.calibration.calibrate import fit_trust
from luvli.models import find_model
from luvli.network.config import NetworkConfig

from .drawn_faces import measured_faces

CONFIG = NetworkConfig(landmarks=68, input_size=128, visibility_trained=True)


@pytest.fixture(scope="session")
def measured():
    return measured_faces(650, seed=1)


@pytest.fixture(scope="session")
def fitted(measured):
    return fit_trust(measured, CONFIG)


@pytest.fixture(scope="session")
def calibrated(fitted, tmp_path_factory):
    """The shipped model with the trust of `fitted`."""
    from dataclasses import replace

    from luvli.calibration.model_file import ModelFile

    model = ModelFile.read(find_model("luvli-68", "onnx"))
    target = tmp_path_factory.mktemp("model") / "calibrated.onnx"
    replace(model, info=model.info.model_copy(update={"trust": fitted.trust})).write(target)
    return target
