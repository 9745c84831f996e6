"""Speed of prediction, as ratios measured side by side in one run.

    python benchmarks/prediction.py             about half a minute
    python benchmarks/prediction.py --repeat 5  steadier figures on a busy machine

Times are medians. The photograph is the public-domain astronaut of scikit-image.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np

from luvli.cli.tables import print_table
from luvli.drawing.faces import draw_faces
from luvli.errors import require
from luvli.image.box import Box
from luvli.image.read import ImageArray, read_image
from luvli.models import model_names
from luvli.network.backend import INPUT, OUTPUTS
from luvli.prediction.inputs import Inputs
from luvli.prediction.job import LocalExecutor, PredictJob
from luvli.prediction.predictor import load
from luvli.prediction.video import VideoWriter
from luvli.prediction.worker import JobSettings

MODEL = "luvli-68"


def median_ms(work: Callable[[], object], repeat: int) -> float:
    """Median time in milliseconds, after a warm-up."""
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def astronaut() -> ImageArray:
    return read_image(require("skimage.data", "demo").astronaut())


def stages(model: str, repeat: int) -> list[list[str]]:
    """One face, one thread: the landmark stage against a bare call of the runtime."""
    photograph = astronaut()
    predictor = load(model, threads=1)
    face = predictor.predict(photograph)[0]
    box = Box(*face.box.tolist())
    crop = predictor.crop(box)
    pixels = crop.warp(photograph)
    ready = np.stack([pixels])
    session = predictor.backend.session  # type: ignore[attr-defined]
    times = {
        "bare session call": median_ms(lambda: session.run(OUTPUTS, {INPUT: ready}), repeat),
        "landmark stage (crop, network, back)": median_ms(
            lambda: predictor.run([predictor.crop(box).warp(photograph)], [crop], [box]), repeat
        ),
        "crop": median_ms(lambda: crop.warp(photograph), repeat),
        "detector, 512 x 512": median_ms(lambda: predictor.detect(photograph), max(3, repeat // 5)),
        "drawing": median_ms(lambda: draw_faces(photograph, [face]), repeat),
    }
    bare = times["bare session call"]
    return [[name, f"{ms:.2f} ms", f"{ms / bare:.2f}"] for name, ms in times.items()]


def batches(model: str, repeat: int) -> list[list[str]]:
    """Faces per second, one at a time and 32 at a time, with the default threads."""
    predictor = load(model)
    size = predictor.info.config.input_size
    crops = np.random.default_rng(0).integers(0, 256, (32, size, size, 3), dtype=np.uint8)
    rows = []
    single = 0.0
    for count in (1, 8, 32):
        part = list(crops[:count])
        ms = median_ms(lambda part=part: predictor.predict_crops(part), max(3, repeat // count))  # type: ignore[misc]
        rate = count / ms * 1e3
        single = single or rate
        rows.append([f"{count} at a time", f"{rate:.0f} faces/s", f"{rate / single:.2f}"])
    return rows


def moving(count: int) -> Iterator[ImageArray]:
    """A 640 x 480 view that wanders over the photograph."""
    photograph = astronaut()
    for i in range(count):
        shift = -60 + 40 * np.sin(i / 15), -20 + 10 * np.cos(i / 11)
        affine = np.array([[1.6, 0.0, shift[0]], [0.0, 1.6, shift[1]]])
        yield np.asarray(cv2.warpAffine(photograph, affine, (640, 480)), dtype=np.uint8)


def videos(model: str, count: int) -> list[list[str]]:
    """Frames per second of whole runs over a video, and of its frames as single images."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "moving.mp4"
        with VideoWriter(source, 30) as writer:
            for i, image in enumerate(moving(count)):
                writer.write(image, i / 30)
        predictor = load(model)
        images = list(moving(min(count, 20)))
        alone = len(images) / (median_ms(lambda: [predictor.predict(p) for p in images], 1) / 1e3)
        rows.append(["frames as single images", f"{alone:.0f} frames/s", "1.00"])
        for name, draw, smooth in (
            ("followed", False, False),
            ("followed, drawn, encoded", True, False),
            ("followed, smoothed, drawn, encoded", True, True),
        ):
            settings = JobSettings(f"{place}/{name}", draw=draw, smooth=smooth)
            start = time.perf_counter()
            PredictJob(Inputs([source]), settings).run(LocalExecutor(predictor))
            rate = count / (time.perf_counter() - start)
            rows.append([name, f"{rate:.0f} frames/s", f"{rate / alone:.2f}"])
    return rows


def untrained(folder: Path) -> str:
    """A fresh network of the shipped one's size, for a copy without weights: same speed."""
    import torch

    from luvli.network import NetworkConfig, build, save_model
    from luvli.prediction.export import export_onnx

    torch.manual_seed(0)
    config = NetworkConfig(unets=2, channels=64, bn_size=4, growth=16, input_size=128)
    save_model(folder / "fresh.safetensors", build(config), {"enlarge": 1.25})
    export_onnx(folder / "fresh.safetensors", folder / "fresh.onnx")
    return str(folder / "fresh.onnx")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=MODEL, help="name or ONNX file")
    parser.add_argument("--repeat", type=int, default=1, help="times as many measurements")
    parser.add_argument("--frames", type=int, default=150, help="length of the video")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        model = options.model
        if model == MODEL and MODEL not in model_names():
            print(f"{MODEL} is not in this copy: an untrained network of its size is measured.")
            model = untrained(Path(place))
        repeat = 30 * options.repeat
        header = ["", "time", "to bare call"]
        print_table(header, stages(model, repeat), title="one face, one thread")
        header = ["", "rate", "to one at a time"]
        print_table(header, batches(model, repeat), title="crops in batches, all threads")
        header = ["", "rate", "to single images"]
        title = f"video 640 x 480, one face, {options.frames} frames, all threads"
        print_table(header, videos(model, options.frames), title=title)


if __name__ == "__main__":
    main()
