"""The failure head learns which alignments failed; all other outputs stay the same."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from luvli.calibration import failure_head as module  # noqa: E402
from luvli.calibration.failure_head import fit_failure_head, train_head, with_head  # noqa: E402
from luvli.calibration.model_file import ModelFile  # noqa: E402
from luvli.data.record import FaceRecord  # noqa: E402
from luvli.evaluation.selective import auroc  # noqa: E402
from luvli.image.box import Box  # noqa: E402
from luvli.image.write import write_image  # noqa: E402
from luvli.models import find_model  # noqa: E402


def drawn_bottlenecks(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, 20) numbers of any scale, and whether two of them are far apart: not linear."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 20))
    failed = np.abs(values[:, 3] - values[:, 7]) > 1.5
    scale, offset = np.geomspace(0.01, 100, 20), np.linspace(-50, 50, 20)
    return (values * scale + offset).astype(np.float32), failed


def logits(head: dict[str, np.ndarray], inputs: np.ndarray) -> np.ndarray:
    """Two matrices and a ReLU."""
    hidden = inputs @ head["failure.hidden.weight"].T + head["failure.hidden.bias"]
    return np.maximum(hidden, 0) @ head["failure.linear.weight"][0] + head["failure.linear.bias"]


def test_the_head_learns_from_inputs_of_any_scale() -> None:
    inputs, failed = drawn_bottlenecks(6000, 0)
    head = train_head(inputs, failed, np.ones(6000), units=32)
    new, truth = drawn_bottlenecks(3000, 1)
    assert auroc(logits(head, new), truth) > 0.97
    again = train_head(inputs, failed, np.ones(6000), units=32)
    assert all(np.array_equal(head[name], again[name]) for name in head)
    heavy = train_head(inputs[:2000], failed[:2000], np.where(failed[:2000], 1.0, 1e-6), units=8)
    assert (logits(heavy, new) > 0).mean() > 0.99  # weights count


@pytest.fixture(scope="module")
def model() -> ModelFile:
    return ModelFile.read(find_model("luvli-68-fast", "onnx"))


@pytest.fixture(scope="module")
def photographs(model: ModelFile, tmp_path_factory) -> list[FaceRecord]:
    """Blobs with labels where the shipped network puts its own landmarks."""
    folder = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(4)
    records = []
    with model.predictor() as predictor:
        for i in range(12):
            coarse = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
            image = cv2.resize(coarse, (160, 160), interpolation=cv2.INTER_CUBIC)
            write_image(folder / f"{i}.png", image)
            face = predictor.predict(image, [Box(40, 40, 120, 120)])[0]
            blank = FaceRecord(points=face.points, visibility=np.ones(68, np.int8), face_id=str(i))
            box = np.array([40.0, 40.0, 120.0, 120.0])
            records.append(
                blank.with_changes(
                    image=folder / f"{i}.png", dataset="drawn", box=box, box_kind="given"
                )
            )
    return records


def test_a_model_gets_a_head_and_nothing_else_changes(
    model: ModelFile, photographs: list[FaceRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = fit_failure_head(model, photographs)
    assert few.info.config.failure_head == 0  # too few failures: no head
    recorded = []

    def keep(bottlenecks, failed, weight):
        recorded.append((bottlenecks, failed))
        assert len(bottlenecks) == len(failed) == len(weight) == 5 * len(photographs)
        assert failed.any() and not failed[::5].any()  # the plain ones are right
        return train_head(bottlenecks, failed, weight)

    monkeypatch.setattr(module, "MIN_ALIGNMENTS", 1)
    monkeypatch.setattr(module, "train_head", keep)
    trained = fit_failure_head(model, photographs)
    assert trained.info.config.failure_head == module.UNITS
    crops = np.random.default_rng(0).integers(0, 256, (3, 128, 128, 3), dtype=np.uint8)
    size = model.info.config.input_size
    crops = np.stack([cv2.resize(crop, (size, size)) for crop in crops])
    with trained.predictor() as one, few.predictor() as other:
        new, old = one.backend(crops), other.backend(crops)
    for name in ("points", "covariance", "visibility"):
        np.testing.assert_array_equal(getattr(new, name), getattr(old, name))
    assert np.isfinite(new.failure_logit).all() and np.isnan(old.failure_logit).all()
    bottlenecks, failed = recorded[0]
    head = {name: w for name, w in trained.weights.items() if name.startswith("failure.")}
    assert auroc(logits(head, bottlenecks), failed) > 0.9
    bare = with_head(trained, {})
    assert bare.weights.keys() == few.weights.keys() and bare.info.config == few.info.config
    assert replace(bare, info=few.info).notes == few.notes
