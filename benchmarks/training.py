"""Speed and memory of training: images a second, what the choices bring, waiting for data.

    python benchmarks/training.py              a minute or two
    python benchmarks/training.py --scaling    also the whole loop with threads and processes

Ratios are measured side by side in one run. "ours" is the shipped model's network (2 U-nets, 64
channels, 128 pixels), "paper" the paper's (8 U-nets, 128 channels, 256 pixels). Images a second
are of wall time, so other work on the machine counts; the ratios of choices are of processor
time on one thread, where it does not.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from luvli.cli.output import print_table
from luvli.data.formats import write_pts
from luvli.markup import get_markup
from luvli.network import NetworkConfig, build
from luvli.network.inference import network_input
from luvli.training.batch import Batch, load_batches
from luvli.training.losses import stage_losses
from luvli.training.optimizer import make_optimizer
from luvli.training.order import StageOrder
from luvli.training.recipe import AdamW, Recipe, Stage
from luvli.training.recipe_files import read_recipe, write_recipe
from luvli.training.sources import load_source
from luvli.training.stages import training_faces

NETWORKS = {
    "ours": NetworkConfig(unets=2, channels=64, growth=16, input_size=128),
    "paper": NetworkConfig(),
}
BATCH = {"ours": 16, "paper": 2}
STAGE = Stage(loss="luvli", optimizer=AdamW())
WANTED_WAITING = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, name, how = options.child
        print(peak_memory(name, how == "twice") if what == "memory" else speed(name, int(how)))
        return
    memory_table()  # first: on Linux a child's peak counts from that of its parent
    speed_table()
    choices_table()
    with tempfile.TemporaryDirectory() as folder:
        waiting_table(Path(folder))
        if options.scaling:
            scaling_table(Path(folder))


def in_child(what: str, name: str, how: object) -> float:
    """A figure from a process of its own, with threads that wait as those of `luvli train`."""
    command = [sys.executable, __file__, "--child", what, name, str(how)]
    environment = {**os.environ, "GOMP_SPINCOUNT": "2000"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def speed_table() -> None:
    rows = []
    for name in NETWORKS:
        one, two = (in_child("speed", name, threads) for threads in (1, 2))
        rows.append([name, f"{one:.2f}", f"{two:.2f}", f"{two / one:.2f}"])
    print_table(["network", "1 thread", "2 threads", "ratio"], rows, "Images a second")


def speed(name: str, threads: int) -> float:
    """Images a second, by the fastest of several steps after one to warm up."""
    torch.set_num_threads(threads)
    step = training_step(name)
    step()
    times = 3 if name == "ours" else 1
    return BATCH[name] / min(seconds_of(step, time.perf_counter) for _ in range(times))


def choices_table() -> None:
    """Processor time of a step of "ours" with one choice changed, against the loop's choices."""
    torch.set_num_threads(1)
    steps = {
        "as it is": training_step("ours"),
        "channels first in memory": training_step("ours", channels_last=False),
        "activations computed twice": training_step("ours", activation_checkpointing=True),
    }
    seconds = {name: seconds_of(step, time.process_time) for name, step in steps.items()}
    for _ in range(4):  # in turns, so that a busy moment hits all alike
        for name, step in steps.items():
            seconds[name] = min(seconds[name], seconds_of(step, time.process_time))
    rows = [
        [name, f"{1e3 * spent / BATCH['ours']:.1f}", f"{spent / seconds['as it is']:.2f}"]
        for name, spent in seconds.items()
    ]
    print_table(["choice", "ms / image", "ratio"], rows, "Choices, one thread")


def seconds_of(step: Callable[[], None], clock: Callable[[], float]) -> float:
    start = clock()
    step()
    return clock() - start


def memory_table() -> None:
    rows = []
    for name in NETWORKS:
        plain, less = (in_child("memory", name, how) for how in ("kept", "twice"))
        label = f"{name}, batch {BATCH[name]}"
        rows.append([label, f"{plain:.0f}", f"{less:.0f}", f"{less / plain:.2f}"])
    title = "Peak memory of a step, MB above the start of the process"
    print_table(["network", "kept", "computed twice", "ratio"], rows, title)


def peak_memory(name: str, twice: bool) -> float:
    """Megabytes that a step needs beyond what the process had before (run in its own process)."""
    torch.set_num_threads(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    training_step(name, activation_checkpointing=twice)()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def waiting_table(folder: Path) -> None:
    """The share of time that the loop waits for crops, with the shipped model's augmentation."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    recipe = noise_recipe(folder)
    stage = recipe.stages["luvli"]
    source = load_source("mine", recipe.data.sources["mine"], recipe.data)
    faces = training_faces(recipe, stage, {"mine": source})
    order = StageOrder(0, [len(faces.crops[0])], [320], stage.batch_size, 1)
    step, batches = training_step("ours"), load_batches(faces, order, workers=0)
    next(batches)  # the first one has to be waited for
    waited, start = 0.0, time.perf_counter()
    for _ in range(len(order) - 1):
        waited += seconds_of(lambda: next(batches) and None, time.perf_counter)
        step()
    share = waited / (time.perf_counter() - start)
    verdict = "" if share < WANTED_WAITING else " MISSED"
    row = ["ours, 128 px, all augmentations", f"{share:.1%}", f"{WANTED_WAITING:.0%}{verdict}"]
    print_table(["network", "waiting", "wanted below"], [row], "Share of time waiting for data")


def scaling_table(folder: Path) -> None:
    """The command itself with one process, two threads, two processes; the same global batch."""
    path = folder / "recipe.yaml"
    path.write_text(write_recipe(noise_recipe(folder)))
    rates = {}
    ways = {"1 process": ("1", "1"), "2 threads": ("1", "2"), "2 processes": ("2", "1")}
    for name, (devices, threads) in ways.items():
        out = folder / name
        command = [str(Path(sys.executable).with_name("luvli")), "train", str(path)]
        command += ["--out", str(out), "--accelerator", "cpu"]
        command += ["--devices", devices, "--threads", threads]
        subprocess.run(command, check=True, capture_output=True)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        rates[name] = max(line["faces_per_second"] for line in lines if line["kind"] == "train")
    rows = [[n, f"{rate:.1f}", f"{rate / rates['1 process']:.2f}"] for n, rate in rates.items()]
    print_table(["ours, whole loop", "images a second", "ratio"], rows)


def training_step(
    name: str, channels_last: bool = True, activation_checkpointing: bool = False
) -> Callable[[], None]:
    """A function that does one step of the loop on a batch that is ready."""
    torch.manual_seed(0)
    config = NETWORKS[name]
    network: Any = build(config, activation_checkpointing=activation_checkpointing)
    if channels_last:
        network = network.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(network, STAGE.optimizer)
    size, side, landmarks = BATCH[name], config.input_size, config.landmarks
    batch = Batch(
        images=torch.randint(0, 256, (size, 3, side, side), dtype=torch.uint8),
        points=torch.rand(size, landmarks, 2) * side,
        visibility=torch.ones(size, landmarks),
        visibility_labelled=torch.ones(size, landmarks, dtype=torch.bool),
    )

    def step() -> None:
        images = network_input(batch.images, config)
        outputs = network(images if channels_last else images.contiguous())
        stage_losses(STAGE, config, outputs, batch).total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def noise_recipe(folder: Path) -> Recipe:
    """own-faces on noise with labels: speed does not depend on what the images show."""
    faces = folder / "faces"
    faces.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(64):
        coarse = rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)
        cv2.imwrite(str(faces / f"{number}.jpg"), cv2.resize(coarse, (256, 256)))
        points = 128 + 80 * get_markup("ibug68").schematic
        write_pts(faces / f"{number}.pts", points, np.ones(68, np.int8))
    changes = [f"data.root={faces}", f"data.cache={folder / 'cache'}", "stages.heatmap=null"]
    changes += ["data.sources.mine.boxes=labels", "data.sources.mine.hold_out=0"]
    changes += ["stages.luvli.epochs=2", "stages.luvli.epoch_faces=160"]
    return read_recipe("own-faces", changes)


if __name__ == "__main__":
    main()
