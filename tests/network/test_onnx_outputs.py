"""The last nodes of an ONNX file give what NumPy gives: calibrated covariances, confidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luvli
from luvli.image import affine
from luvli.network.backend import Windows, faces_in_crops
from luvli.network.calibration import Calibration
from luvli.network.config import NetworkConfig
from luvli.network.description import Description
from luvli.network.model_info import ModelInfo
from luvli.onnx_runtime import onnx_runtime
from luvli.prediction.crops import inner
from luvli.prediction.onnx_backend import OnnxBackend

CALIBRATION = Calibration(
    scale=np.linspace(0.5, 3.0, 68).tolist(),
    pixel_variance=np.linspace(0.2, 2.0, 68).tolist(),
    convention_variance=np.linspace(0.001, 0.0002, 68).tolist(),
    occlusion=0.7,
)


def windows_of(count: int, size: int) -> Windows:
    """Crops of faces far from the image's corner, turned every way, half of them detected."""
    rng = np.random.default_rng(3)
    affines = []
    for angle in np.linspace(0, 330, count):
        radians, scale = np.deg2rad(angle), rng.uniform(0.2, 3)
        turn = scale * np.array(
            [[np.cos(radians), np.sin(radians)], [-np.sin(radians), np.cos(radians)]]
        )
        centre = rng.uniform(500, 3000, 2)
        affines.append(np.column_stack([turn, (size - 1) / 2 - turn @ centre]))
    stacked = np.stack(affines)
    middle = np.array([[size * 0.2, size * 0.15, size * 0.8, size * 0.85]])
    boxes = affine.box_around(affine.invert(stacked), np.repeat(middle, count, axis=0))
    return Windows(stacked, boxes, np.where(np.arange(count) % 2, 1.0, rng.uniform(0.3, 1, count)))


@pytest.mark.parametrize(
    "config", [{"occlusion": True, "failure_head": 4}, {"visibility_trained": False}]
)
def test_covariance_and_confidence_are_those_of_numpy(
    config: dict[str, Any], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch to build a network")
    from luvli.network import build
    from luvli.network.inference import CropPredictor
    from luvli.prediction.export import export_network

    torch.manual_seed(0)
    small = {"unets": 1, "channels": 8, "bn_size": 1, "growth": 4, "input_size": 64}
    network = build(NetworkConfig(**small, **config))
    trust = luvli.load("luvli-68").info.trust
    info = ModelInfo(name="m", config=network.config, calibration=CALIBRATION, trust=trust)
    export_network(network, info, tmp_path / "m.onnx")
    crops = np.random.default_rng(1).integers(0, 256, (12, 64, 64, 3), dtype=np.uint8)
    windows = windows_of(12, 64)
    wanted = CropPredictor(network, info)(crops, windows)
    got = OnnxBackend(tmp_path / "m.onnx")(crops, windows)
    np.testing.assert_allclose(got.points, wanted.points, atol=1e-3)
    np.testing.assert_allclose(got.covariance, wanted.covariance, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got.confidence, wanted.confidence, atol=1e-4)
    np.testing.assert_allclose(got.expected_error, wanted.expected_error, rtol=1e-3)
    assert np.ptp(wanted.confidence) > 0.01 or np.ptp(wanted.expected_error) > 0.1
    # by hand: the network's covariance, grown and widened in the image
    plain = CropPredictor(network, info.model_copy(update={"calibration": None}))(crops)
    in_image = plain.transform(affine.invert(windows.affines))
    occlusion = plain.occlusion if config.get("occlusion") else None
    by_hand = CALIBRATION.apply(in_image.covariance, occlusion, in_image.points)
    moved = got.transform(affine.invert(windows.affines)).covariance
    np.testing.assert_allclose(moved, by_hand, rtol=2e-3, atol=1e-4 * by_hand.max())


def test_a_shipped_file_alone_gives_what_prediction_gives(astronaut: np.ndarray) -> None:
    """Only the tensors that docs/reference/model-file.md names, no code of ours after them."""
    model = luvli.load("luvli-68")
    cropped = model.preprocess(astronaut)
    crop = inner(cropped.pixels[0], model.info.config.input_size)
    session = onnx_runtime().InferenceSession(str(luvli.models.FOLDER / "luvli-68.onnx"))
    inputs = cropped.windows.inputs(crop[None])
    outputs = session.run(None, inputs)
    named = dict(zip([output.name for output in session.get_outputs()], outputs, strict=True))
    (face,) = faces_in_crops(named, model.info).transform(cropped.crops[0].inverse)
    wanted = model.predict(astronaut)[0]
    np.testing.assert_allclose(face.points, wanted.points, atol=1e-6)
    np.testing.assert_allclose(face.covariance, wanted.covariance, rtol=1e-6)
    assert face.confidence == pytest.approx(wanted.confidence, abs=1e-6)


def test_the_schema_of_the_documentation_is_that_of_the_files() -> None:
    page = Path(__file__).parents[2] / "docs/reference/model-file.schema.json"
    schema = json.loads(page.read_text())
    assert schema.pop("$schema") and schema == Description.model_json_schema()
    session = onnx_runtime().InferenceSession(str(luvli.models.FOLDER / "luvli-68-fast.onnx"))
    text = session.get_modelmeta().custom_metadata_map["description"]
    about = Description.model_validate_json(text)
    assert about.crop.enlarge == 1.3 and about.radii["0.5"] < about.radii["0.95"]
