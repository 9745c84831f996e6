"""The commands that the kill harness kills, small enough to be killed often."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

IMAGES, FACES = 60, 12


class Command(NamedTuple):
    """One command line, and what counts of what it leaves."""

    name: str
    arguments: Callable[[Path], list[str]]
    """of a run into a folder; given again, it resumes"""
    code: int = 0
    """exit code of a run that comes to its end"""
    ignored: Callable[[str], bool] = lambda _: False
    """files with times in them, by their path in the folder"""


def load_everything() -> None:
    """Import what the commands need, so that forks need not."""
    for name in (
        "torch", "lightning_fabric", "torch.utils.tensorboard", "matplotlib.figure",
        "scipy.stats", "safetensors.torch", "onnx",
        "onnxruntime", "pyarrow.parquet", "numba", "luvli.cli", "luvli.synthetic.write",
        "luvli.training.loop", "luvli.prediction.job", "luvli.prediction.export",
    ):  # fmt: skip
        importlib.import_module(name)


def prepare(folder: Path) -> None:
    """A tiny model, images with boxes, one broken; labelled faces and a recipe for them."""
    import numpy as np
    import yaml

    from hostile.readers import write_model
    from luvli.data.formats import write_pts
    from luvli.image.write import write_image
    from luvli.markup import get_markup

    write_model(folder / "tiny.onnx")  # and tiny.safetensors
    rng = np.random.default_rng(0)
    for i in range(IMAGES):
        write_image(folder / f"in/{i:03d}.png", rng.integers(0, 255, (96, 128, 3), dtype=np.uint8))
    (folder / "in/broken.png").write_bytes((folder / "in/000.png").read_bytes()[:90])
    boxes = {f"{i:03d}.png": [[10, 10, 60, 60], [60, 20, 110, 80]] for i in range(IMAGES)}
    (folder / "boxes.json").write_text(json.dumps(boxes))
    for i in range(FACES):
        write_image(folder / f"faces/{i}.png", rng.integers(0, 255, (80, 80, 3), dtype=np.uint8))
        write_pts(folder / f"faces/{i}.pts", 40 + 25 * get_markup("ibug68").schematic)
    stage = {"epochs": 2, "batch_size": 4, "optimizer": {"kind": "adamw", "lr": 2e-3}, "ema": 0.9}
    recipe = {
        "name": "small",
        "network": {"unets": 1, "channels": 4, "bn_size": 1, "growth": 2, "input_size": 64},
        "checkpoint_minutes": 1e-6,
        "data": {"root": str(folder / "faces"), "cache": str(folder / "cache"),
                 "sources": {"mine": {"set": "folder", "hold_out": 2}}},
        "stages": {"heatmaps": {"loss": "heatmap", **stage}, "luvli": {"loss": "luvli", **stage}},
    }  # fmt: skip
    (folder / "small.yaml").write_text(yaml.safe_dump(recipe))


def all_commands(folder: Path) -> list[Command]:
    """The commands, with the files that `prepare` made in a folder."""
    from luvli.prediction.settings import WORK

    def predict(*way: str) -> Command:
        def arguments(out: Path) -> list[str]:
            return [
                "predict", str(folder / "in"), "--out", str(out), "--threads", "1",
                "--model", str(folder / "tiny.onnx"), "--boxes", str(folder / "boxes.json"),
                "--format", *way,
            ]  # fmt: skip

        # exit code 1: one image is broken
        return Command(f"predict {' '.join(way)}", arguments, 1, lambda p: p.startswith(WORK))

    def train(out: Path) -> list[str]:
        return ["train", str(folder / "small.yaml"), "--out", str(out), "--resume"]

    def synthesize(out: Path) -> list[str]:
        return ["data", "synthesize", "--faces", "20", "--size", "64", "--workers", "1",
                "--out", str(out)]  # fmt: skip

    def export(out: Path) -> list[str]:
        return ["export", str(folder / "tiny.safetensors"), "--onnx", str(out / "tiny.onnx")]

    def timed(path: str) -> bool:
        """The log says how long things took, and there is a file of events for each start."""
        return path.startswith("tensorboard") or path == "metrics.jsonl"

    ways = (("json",), ("csv", "--draw"), ("pts", "--draw"), ("parquet",), ("coco",))
    return [
        *(predict(*way) for way in ways),
        Command("train", train, ignored=timed),
        Command("synthesize", synthesize),
        Command("export", export),
    ]
