"""A network learns to tell when it went astray; all else that it says stays the same."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from luvli.data.boxes import crop_box  # noqa: E402
from luvli.data.record import FaceRecord  # noqa: E402
from luvli.evaluation.visibility import auroc  # noqa: E402
from luvli.image.box import Box  # noqa: E402
from luvli.image.read import read_image  # noqa: E402
from luvli.image.write import write_image  # noqa: E402
from luvli.network import build, load_model  # noqa: E402
from luvli.network.config import NetworkConfig  # noqa: E402
from luvli.network.inference import CropPredictor, network_input  # noqa: E402
from luvli.network.model_info import ModelInfo  # noqa: E402
from luvli.trust import learn_astray as module  # noqa: E402
from luvli.trust.learn_astray import (  # noqa: E402
    fit_estimator,
    learn_astray,
    with_estimator,
    without_astray,
)

SMALL = NetworkConfig(unets=2, channels=8, bn_size=1, growth=4, input_size=64)


def drawn_bottlenecks(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, 20) numbers of any scale, and whether two of them are far apart: no line tells that."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(n, 20))
    astray = np.abs(seen[:, 3] - seen[:, 7]) > 1.5
    scale, offset = np.geomspace(0.01, 100, 20), np.linspace(-50, 50, 20)
    return (seen * scale + offset).astype(np.float32), astray


def test_estimator_learns_what_no_line_tells_from_inputs_of_any_scale() -> None:
    seen, astray = drawn_bottlenecks(6000, 0)
    estimator = fit_estimator(seen, astray, np.ones(len(seen)), units=32)
    new, truth = drawn_bottlenecks(3000, 1)
    with torch.no_grad():
        logits = estimator([torch.from_numpy(new)]).numpy()
    assert auroc(logits, truth) > 0.97
    again = fit_estimator(seen, astray, np.ones(len(seen)), units=32)
    for one, other in zip(estimator.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)  # the same faces teach the same


def test_weights_count_faces() -> None:
    """A class that weighs nothing teaches nothing."""
    seen, astray = drawn_bottlenecks(2000, 2)
    estimator = fit_estimator(seen, astray, np.where(astray, 1.0, 1e-6), units=8)
    with torch.no_grad():
        assert (estimator([torch.from_numpy(seen)]) > 0).float().mean() > 0.99


def test_estimators_come_and_go_and_change_nothing_else() -> None:
    torch.manual_seed(0)
    bare = build(SMALL).eval()
    inputs = SMALL.unets * SMALL.bottleneck_size
    estimator = module.AstrayEstimator(inputs, 5)
    told = with_estimator(bare, estimator)
    assert told.config.astray == 5
    crops = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    one, other = CropPredictor(bare)(crops), CropPredictor(told)(crops)
    assert np.isnan(one.failure_logit).all() and np.isfinite(other.failure_logit).all()
    for name in ("points", "covariance", "visibility"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    again = without_astray(told)
    assert again.config == bare.config
    for name, tensor in bare.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_the_estimator_reads_the_bottlenecks_of_all_unets() -> None:
    """Against NumPy: Flatten, two matrices, a ReLU."""
    torch.manual_seed(1)
    network = build(SMALL.model_copy(update={"astray": 7})).eval()
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        features = network.trunk(images)
        outputs = network(images)
    seen = np.concatenate([f.bottleneck.flatten(1).numpy() for f in features], axis=1)
    hidden, last = network.astray.hidden, network.astray.linear
    middle = np.maximum(seen @ hidden.weight.detach().numpy().T + hidden.bias.detach().numpy(), 0)
    wanted = middle @ last.weight.detach().numpy()[0] + float(last.bias.detach())
    np.testing.assert_allclose(outputs[-1].astray_logit.numpy(), wanted, atol=1e-5)
    assert outputs[0].astray_logit is None


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> list[FaceRecord]:
    """Blobs with labels where the shipped network puts its own landmarks."""
    import luvli

    folder = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(4)
    predictor = luvli.load("luvli-68", threads=1)
    records = []
    for i in range(12):
        coarse = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        image = cv2.resize(coarse, (160, 160), interpolation=cv2.INTER_CUBIC)
        path = folder / f"{i}.png"
        write_image(path, image)
        face = predictor.predict(image, [Box(40, 40, 120, 120)])[0]
        blank = FaceRecord(points=face.points, visibility=np.ones(68, np.int8), face_id=str(i))
        box = np.array([40.0, 40.0, 120.0, 120.0])
        records.append(blank.with_changes(image=path, dataset="drawn", box=box, box_kind="given"))
    return records


def test_a_network_learns_from_faces_and_says_so(
    photographs: list[FaceRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, info = load_model(Path(module.__file__).parents[1] / "models/luvli-68.safetensors")
    about = ModelInfo.from_training("luvli-68", network.config, info)
    few = learn_astray(network, about, photographs)
    assert few.config.astray == 0  # too few faces: nothing is learnt, nothing is claimed
    seen: list[np.ndarray] = []

    def keep(bottlenecks: np.ndarray, astray: np.ndarray, weight: np.ndarray):
        seen.append(bottlenecks)
        assert bottlenecks.shape[1] == network.config.unets * network.config.bottleneck_size
        assert len(bottlenecks) == len(astray) == len(weight) == 5 * len(photographs)
        assert astray.any() and not astray.all()
        assert weight.max() == 1.0 and 0 < weight.min() < 1
        return fit_estimator(bottlenecks, astray, weight)

    monkeypatch.setattr(module, "LEAST", 1)
    monkeypatch.setattr(module, "fit_estimator", keep)
    told = learn_astray(network, about, photographs)
    assert told.config.astray == module.UNITS
    # the recorded bottlenecks are those of the crops that the faces came from
    record = photographs[0]
    crop = about.crop_for(crop_box(record))
    pixels = torch.from_numpy(crop.warp(read_image(record.image))[None]).permute(0, 3, 1, 2)
    with torch.no_grad():
        features = told.trunk(network_input(pixels, told.config))
    wanted = torch.cat([f.bottleneck.flatten(1) for f in features], dim=1)[0].numpy()
    np.testing.assert_allclose(seen[0][0], wanted, atol=1e-4)
