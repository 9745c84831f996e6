"""A tiny real network, and a world simple enough that a made-up one predicts it exactly.

In that world a face is a bright disc on a dark ground. The made-up detector and backend find
discs by brightness, so that everything around a network (following, videos, files) can be
tested without weights, and against known places.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from luvli.faces import Faces
from luvli.image.box import Box
from luvli.image.write import write_image
from luvli.markup import get_markup
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo
from luvli.prediction.predictor import Predictor

SIZE = 64


def shape_of(markup: str) -> NDArray[np.float64]:
    """(k, 2) the markup's schematic face, so large that it fills -1..1."""
    points = get_markup(markup).schematic
    return (points - points.min(0)) / (points.max(0) - points.min(0)) * 2 - 1


SHAPE = shape_of("ibug68")


def disc_image(
    discs: list[tuple[float, float, float]], size: tuple[int, int] = (320, 240)
) -> NDArray[np.uint8]:
    """(height, width, 3) image with bright discs x, y, radius."""
    image = np.full((size[1], size[0], 3), 20, np.uint8)
    for x, y, radius in discs:
        centre = round(x * 16), round(y * 16)
        cv2.circle(image, centre, round(radius * 16), (230, 200, 180), -1, cv2.LINE_AA, 4)
    return image


class DiscDetector:
    """Boxes around the bright discs, largest first."""

    def __init__(self) -> None:
        self.calls = 0
        self.sizes: list[int] = []

    def __call__(self, image: NDArray[np.uint8], name: str = "") -> list[Box]:
        self.calls += 1
        self.sizes.append(max(image.shape[:2]))
        bright = (image[:, :, 0] > 120).astype(np.uint8)
        _, _, stats, _ = cv2.connectedComponentsWithStats(bright)
        return [
            Box(x - 0.5, y - 0.5, x + w - 0.5, y + h - 0.5, 0.9)
            for x, y, w, h, area in stats[1:].tolist()
            if area > 30
        ]


class DiscBackend:
    """A markup's points spread over the disc in each crop; very unsure where there is none."""

    threads = 1

    def __init__(self, noise: float = 0.0, markup: str = "ibug68") -> None:
        self.shape = shape_of(markup)
        config = NetworkConfig(unets=1, input_size=SIZE, landmarks=len(self.shape), markup=markup)
        self.info = ModelInfo(name="discs", config=config, enlarge=1.5)
        self.noise = noise
        self.rng = np.random.default_rng(0)
        self.calls: list[int] = []

    def __call__(self, crops: NDArray[np.uint8], windows: object = None) -> Faces:
        self.calls.append(len(crops))
        points, spreads = [], []
        for crop in crops:
            weight = np.clip(crop[:, :, 0].astype(float) - 20, 0, None) / 210
            total = weight.sum()
            y, x = np.mgrid[: len(crop), : len(crop)]
            centre = np.array([(weight * x).sum(), (weight * y).sum()]) / max(total, 1e-9)
            radius = np.sqrt(total / np.pi) if total > 20 else SIZE / 3
            places = centre + radius * self.shape if total > 20 else SIZE / 2 + radius * self.shape
            points.append(places + self.rng.normal(0, self.noise, self.shape.shape))
            spreads.append(max(self.noise, 0.3) if total > 20 else 20.0)
        covariance = np.square(spreads)[:, None, None, None] * np.tile(
            np.eye(2), (len(self.shape), 1, 1)
        )
        k = len(self.shape)
        return Faces(
            np.reshape(points, (-1, k, 2)),
            covariance.reshape(-1, k, 2, 2),
            np.full((len(crops), k), 0.95),
            markup=self.info.config.markup,
        )


@pytest.fixture
def discs() -> Predictor:
    """A predictor of the disc world."""
    return Predictor(DiscBackend(), DiscDetector())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven images: six with 0, 1, 2 faces, one of them in a subfolder; one is cut off."""
    pictures = tmp_path / "images"
    for i in range(6):
        discs = [(80.0 + i, 90.0, 30.0), (220.0, 130.0, 40.0)][: i % 3]
        place = pictures / "more" if i == 5 else pictures
        write_image(place / f"p{i}.png", disc_image(discs))
    whole = (pictures / "p4.png").read_bytes()
    (pictures / "broken.png").write_bytes(whole[: len(whole) // 2])
    (pictures / "notes.txt").write_text("not an image")
    (pictures / ".hidden.png").write_bytes(whole)
    return pictures


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small real network, untrained, calibrated by made-up factors: both kinds of file."""
    torch = pytest.importorskip("torch", reason="needs PyTorch to build a network")
    from luvli.network import build, save_model
    from luvli.prediction.export import export_onnx

    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    config = NetworkConfig(unets=2, channels=8, bn_size=1, growth=4, input_size=64)
    network = build(config).eval()
    scatter_statistics(network)
    files = {"torch": folder / "tiny.safetensors", "onnx": folder / "tiny.onnx"}
    info = {
        "enlarge": 1.25,
        "licence": "for tests",
        "version": "7",
        "calibration": {"scale": np.linspace(0.5, 2.0, 68).tolist()},
    }
    save_model(files["torch"], network, info)
    export_onnx(files["torch"], files["onnx"])
    return files


def scatter_statistics(network: Any) -> None:
    """Batch statistics as after training: not all the same, so that a swap would show."""
    import torch

    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            with torch.no_grad():
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.2, 0.3)
                assert module.running_mean is not None and module.running_var is not None
                module.running_mean.normal_(0, 0.2)
                module.running_var.uniform_(0.5, 1.5)


@pytest.fixture(scope="session")
def shipped() -> Predictor:
    """The shipped model."""
    import luvli

    return luvli.load("luvli-68")


def write_video(
    path: Path,
    frames: Iterator[tuple[float, NDArray[np.uint8]]],
    sound: bool = False,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
) -> Path:
    """A video with frames at the given times (seconds), and a tone if wanted."""
    av = pytest.importorskip("av", reason="needs PyAV")
    with av.open(str(path), "w", options=options or {}) as out:
        video: Any = out.add_stream(codec, rate=30)
        audio: Any = out.add_stream("aac", rate=44100) if sound else None
        video.pix_fmt = "yuv420p"
        video.codec_context.time_base = Fraction(1, 90_000)
        last = 0.0
        for time, image in frames:
            if not video.codec_context.is_open:
                video.height, video.width = image.shape[:2]
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = round(time * 90_000), Fraction(1, 90_000)
            out.mux(video.encode(frame))
            last = time
        out.mux(video.encode(None))
        if sound:
            wave = (8000 * np.sin(np.arange(int(44100 * last)) * 0.06)).astype(np.int16)
            for start in range(0, len(wave), 1024):
                piece = av.AudioFrame.from_ndarray(
                    wave[None, start : start + 1024], format="s16", layout="mono"
                )
                piece.sample_rate, piece.pts, piece.time_base = 44100, start, Fraction(1, 44100)
                out.mux(audio.encode(piece))
            out.mux(audio.encode(None))
    return path
