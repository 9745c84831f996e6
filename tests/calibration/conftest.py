"""One fit for all tests of this folder: it takes a few seconds."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn (extra calibrate)")

from luvli.calibration.calibrate import fit_trust
from luvli.calibration.model_file import ModelFile
from luvli.models import find_model

from .drawn_faces import measured_faces


@pytest.fixture(scope="session")
def measured():
    return measured_faces(650, seed=1)


@pytest.fixture(scope="session")
def fitted(measured):
    return fit_trust(measured)


@pytest.fixture(scope="session")
def calibrated(fitted, tmp_path_factory):
    """The shipped model with the trust of `fitted`."""
    model = ModelFile.read(find_model("luvli-68", "onnx"))
    target = tmp_path_factory.mktemp("model") / "calibrated.onnx"
    model.with_info(trust=fitted.trust).write(target)
    return target
