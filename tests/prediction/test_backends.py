"""ONNX and PyTorch agree; files say what they are; export refuses what it cannot stand for."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import luvli
from luvli.errors import InputError
from luvli.network.config import NetworkConfig
from luvli.network.description import Description
from luvli.network.model_info import ModelInfo
from luvli.prediction.onnx_backend import OnnxBackend

from .conftest import scatter_statistics


def noise(count: int, size: int = 64) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def test_backends_agree_in_image_pixels(tiny: dict[str, Path]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    boxes = [[100.0, 40.0, 180.0, 130.0], [10.0, 10.0, 60.0, 70.0]]
    onnx = luvli.load(tiny["onnx"]).predict(image, boxes)
    torch = luvli.load(tiny["torch"], backend="torch").predict(image, boxes)
    for one, other in zip(onnx, torch, strict=True):
        assert np.abs(one.points - other.points).max() < 1e-3
        size = np.abs(other.covariance).max(axis=(1, 2), keepdims=True)
        assert (np.abs(one.covariance - other.covariance) / size).max() < 1e-3
        assert np.abs(one.visibility - other.visibility).max() < 1e-4
        np.testing.assert_allclose(one.box, other.box)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"unets": 3, "order": 2},
        {"unets": 3, "order": 0},
        {"mean_estimator": "softmax"},
        {"mean_estimator": "tau-softmax", "tau": 0.5},
        {"mean_estimator": "direct"},
        {"reference": True},
        {"landmarks": 5, "markup": "mine5", "likelihood": "gauss"},
        {"occlusion": True},
        {"failure_head": 6, "unets": 2},
        {"failure_head": 6, "occlusion": True},
    ],
    ids=lambda change: ",".join(change) or "default",
)
def test_graph_stands_for_every_configuration(change: dict, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    from luvli.network import build
    from luvli.network.inference import CropPredictor
    from luvli.prediction.export import check, export_network

    torch.manual_seed(3)
    small = {"unets": 1, "channels": 8, "bn_size": 1, "growth": 4, "input_size": 64}
    config = NetworkConfig(**(small | change))
    network = build(config).eval()
    scatter_statistics(network)
    info = ModelInfo(name="one", config=config)
    export_network(network, info, tmp_path / "one.onnx")
    found = check(CropPredictor(network, info), OnnxBackend(tmp_path / "one.onnx"), noise(7))
    assert found.pixels < 1e-3
    assert found.covariance < 1e-4
    assert found.visibility < 1e-5
    assert found.failure_logit < 1e-4
    logits = OnnxBackend(tmp_path / "one.onnx")(noise(3)).failure_logit
    assert np.isnan(logits).all() == (not config.failure_head)


def test_a_wrong_graph_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    from luvli.network import build, onnx_graph
    from luvli.prediction import export

    torch.manual_seed(3)
    network = build(NetworkConfig(unets=1, channels=8, bn_size=1, growth=4, input_size=64)).eval()
    monkeypatch.setattr(onnx_graph, "STRIDE", 4.01)
    with pytest.raises(InputError, match="ONNX and PyTorch differ"):
        export.export_network(
            network, ModelInfo(name="one", config=network.config), tmp_path / "one.onnx"
        )
    assert list(tmp_path.iterdir()) == []


def test_batches_of_any_size_and_threads(tiny: dict[str, Path]) -> None:
    crops = noise(11)
    one, two = OnnxBackend(tiny["onnx"], threads=1), OnnxBackend(tiny["onnx"], threads=3)
    alone = [one(crop[None]) for crop in crops]
    together = two(crops)
    expected = np.concatenate([answer.points for answer in alone])
    np.testing.assert_allclose(together.points, expected, atol=2e-3)
    with ThreadPoolExecutor(4) as pool:  # one predictor, many callers
        for answer in pool.map(two, [crops] * 8):
            np.testing.assert_allclose(answer.points, together.points, atol=2e-3)


def test_metadata_tells_all(tiny: dict[str, Path]) -> None:
    model = luvli.load(tiny["onnx"])
    assert (model.info.enlarge, model.info.licence, model.info.version) == (1.25, "for tests", "7")
    assert model.info.config.input_size == 64
    assert model.info == luvli.load(tiny["torch"], backend="torch").info
    props = model.backend.session.get_modelmeta().custom_metadata_map
    about = Description.model_validate_json(props["description"])
    assert (about.markup, about.crop.size, about.crop.enlarge) == ("ibug68", 64, 1.25)
    assert about.visibility_trained and about.calibration is not None
    session = model.backend.session
    described = {name: tensor.shape for name, tensor in (about.inputs | about.outputs).items()}
    assert described == {t.name: t.shape for t in (*session.get_inputs(), *session.get_outputs())}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda tiny, folder: luvli.load(tiny["torch"], backend="onnx"), "luvli export .* --onnx"),
        (lambda tiny, folder: luvli.load(tiny["onnx"], backend="torch"), "is for ONNX Runtime"),
        (lambda tiny, folder: luvli.load("no-such-model"), "'no-such-model'.*luvli-68.*onnx or"),
        (lambda tiny, folder: luvli.load(folder / "missing.onnx"), "does not exist"),
        (lambda tiny, folder: luvli.load(tiny["onnx"], backend="tensorflow"), "one of onnx, torch"),
        (lambda tiny, folder: luvli.load(tiny["onnx"], threads=0), "threads must be at least 1"),
        (lambda tiny, folder: luvli.load(tiny["onnx"], providers=["tpu"]), "one of cpu, cuda"),
    ],
)
def test_wrong_requests_get_one_sentence(
    make: object, message: str, tiny: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        make(tiny, tmp_path)  # type: ignore[operator]


def test_prediction_needs_no_torch_and_imports_quickly(
    tiny: dict[str, Path], tmp_path: Path
) -> None:
    script = f"""
import sys, time
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "safetensors", "scipy", "onnx", "onnxscript"):
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import luvli
import numpy as np
image = np.random.default_rng(0).integers(0, 256, (120, 120, 3), dtype=np.uint8)
face = luvli.load({str(tiny["onnx"])!r}).predict(image, [[20, 20, 90, 90]])[0]
assert face.points.shape == (68, 2)
from typer.testing import CliRunner
from luvli.cli import app
from luvli.image.write import write_image
write_image("noise.png", image)
for format in ("json", "csv", "coco", "pts", "parquet"):
    done = CliRunner().invoke(
        app, ["predict", "noise.png", "--model", {str(tiny["onnx"])!r}, "--format", format])
    assert done.exit_code == 0, done.output
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout.strip() == "fine", done.stderr
