"""`luvli predict --engine ray` beside `luvli predict`, in one run, and a cost model fitted to it.

    python benchmarks/scale.py                     some minutes on two idle cores
    python benchmarks/scale.py --images 2000       steadier figures

Images are views of the public-domain astronaut of scikit-image: of 0.3 and 2 megapixels with one
face, and of 0.6 megapixels with two. Each command runs over a quarter of the images and over all:
the difference gives the rate, the rest is its start. "Others" is the share of the machine that
other programs took meanwhile; above a few percent the rates mean nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from luvli.cli.demo import PHOTOGRAPH
from luvli.cli.output import print_table
from luvli.errors import require
from luvli.image.read import read_image
from luvli.image.write import write_image

KINDS = ((0.3, 1), (2.0, 1), (0.6, 2))
"""megapixels and faces of the images"""
COMMANDS: dict[str, tuple[int, Sequence[object]]] = {
    "luvli predict": (2, ("--format", "parquet", "--threads", 2)),
    "ray, one core": (1, ("--engine", "ray", "--threads", 1)),
    "ray": (2, ("--engine", "ray", "--threads", 2)),
}
"""name -> cores, options"""
SIZES = (10**6, 10**8, 10**10)
CORES = (2, 64, 1024)


@dataclass
class Run:
    """A command over a quarter of the images and over all of them."""

    images: tuple[int, int]
    seconds: tuple[float, float]
    """on the clock"""
    work: float
    """processor seconds of each further image, all processes together"""
    others: float = 0.0
    """share of the machine that other programs took meanwhile"""

    @property
    def rate(self) -> float:
        """Images a second once it runs: what each further image takes."""
        (few, many), (short, long) = self.images, self.seconds
        return (many - few) / max(long - short, 1e-9)

    @property
    def start(self) -> float:
        """Seconds that do not depend on the number of images."""
        return self.seconds[1] - self.images[1] / self.rate


class CostModel(NamedTuple):
    """seconds = start + images * (image + megapixel * megapixels + face * faces)
    / (cores * efficiency)"""

    start: float
    """seconds on the clock before the first image"""
    image: float
    """processor seconds of an image without a pixel or a face"""
    megapixel: float
    """and of each megapixel"""
    face: float
    """and of each face"""
    efficiency: float
    """share of the cores' time that is work"""

    def seconds(self, images: float, megapixels: float, cores: int, faces: float = 1) -> float:
        """Seconds on the clock."""
        each = self.image + self.megapixel * megapixels + self.face * faces
        return self.start + images * each / self.efficiency / cores


def fit_cost_model(runs: Sequence[tuple[tuple[float, int], int, Run]]) -> CostModel:
    """Least squares over runs: megapixels and faces, cores, what was measured.

    Processor time is linear in megapixels and faces. Start and efficiency are the line through the
    seconds on the clock, over the work that falls to each core.
    """
    kinds = np.array([[1.0, *kind] for kind, _, _ in runs])
    costs = np.linalg.lstsq(kinds, np.array([run.work for *_, run in runs]))[0]
    shares = np.array(
        [np.array(run.images) * (kind @ costs) / cores
         for kind, (_, cores, run) in zip(kinds, runs, strict=True)]
    ).ravel()  # fmt: skip
    clock = np.array([run.seconds for *_, run in runs]).ravel()
    line = np.stack([np.ones(len(shares)), shares], 1)
    start, slope = np.linalg.lstsq(line, clock)[0]
    image, megapixel, face = costs.tolist()
    return CostModel(float(start), image, megapixel, face, float(1 / slope))


def cost_table(model: CostModel, megapixels: float) -> list[list[str]]:
    """Hours for images of one face, on so many cores."""
    return [
        [f"{images:.0e}", *(f"{model.seconds(images, megapixels, n) / 3600:,.1f} h" for n in CORES)]
        for images in SIZES
    ]


def make_images(folder: Path, count: int, megapixels: float, faces: int) -> None:
    photograph = read_image(PHOTOGRAPH)
    side = round((megapixels / faces * 1e6) ** 0.5)
    for number in range(count):
        shift = number % 40
        view = np.ascontiguousarray(photograph[:400, 60 + shift : 460 + shift])
        image = cv2.resize(view, (side, side), interpolation=cv2.INTER_CUBIC)
        write_image(
            folder / f"{number:06d}.jpg", np.tile(np.asarray(image, np.uint8), (1, faces, 1))
        )


def command(*words: object, cores: int) -> tuple[float, float, float]:
    """Run `luvli` on the first `cores` cores -> seconds on the clock, processor seconds of all its
    processes, and of everything else meanwhile."""
    psutil = require("psutil", "dev")
    used: dict[int, float] = {}

    def look(process: Any) -> None:
        with suppress(psutil.Error):
            for one in (process, *process.children(recursive=True)):
                with suppress(psutil.Error):
                    times = one.cpu_times()
                    used[one.pid] = times.user + times.system

    def busy() -> float:
        times = psutil.cpu_times()
        return float(times.user + times.system + times.nice)

    began, before = time.perf_counter(), busy()
    running = psutil.Popen([sys.executable, "-m", "luvli", *map(str, words)], stdout=-3)
    if hasattr(running, "cpu_affinity"):  # what it starts stays there, too
        running.cpu_affinity(list(range(cores)))
    while running.poll() is None:
        look(running)
        time.sleep(0.25)
    if running.returncode:
        sys.exit(f"luvli {' '.join(map(str, words))} ended with {running.returncode}")
    work = sum(used.values())
    return time.perf_counter() - began, work, max(busy() - before - work, 0.0)


def measure(place: Path, count: int, kind: tuple[float, int]) -> dict[str, Run]:
    """All commands over images of one kind."""
    few, everything = place / "few", place / "all"
    make_images(everything, count, *kind)
    few.mkdir()
    for image in sorted(everything.iterdir())[: count // 4]:
        (few / image.name).hardlink_to(image)
    runs = {}
    for name, (cores, options) in COMMANDS.items():
        out = place / name.replace(" ", "-")
        short = command("predict", few, *options, "--out", f"{out}-few", cores=cores)
        long = command("predict", everything, *options, "--out", out, cores=cores)
        work = (long[1] - short[1]) / (count - count // 4)
        others = (short[2] + long[2]) / ((os.cpu_count() or 1) * (short[0] + long[0]))
        runs[name] = Run((count // 4, count), (short[0], long[0]), work, others)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=800)
    options = parser.parse_args()
    require("ray", "scale")
    rows, measured = [], []
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as place:
            runs = measure(Path(place), options.images, kind)
        alone, one = runs["luvli predict"], runs["ray, one core"]
        for name, run in runs.items():
            cores = COMMANDS[name][0]
            rows.append(
                [f"{kind[0]:g} MP, {kind[1]} faces", name, f"{cores}", f"{run.rate:.1f}",
                 f"{run.start:.1f} s", f"{run.rate / alone.rate:.2f}",
                 f"{run.rate / one.rate:.2f}", f"{1e3 * run.work:.1f} ms", f"{run.others:.0%}"]
            )  # fmt: skip
            measured += [(kind, cores, run)] if name != "luvli predict" else []
    heads = ["images", "command", "cores", "a second", "start", "to one machine", "to one core",
             "processor time", "others"]  # fmt: skip
    print_table(heads, rows, title="images of faces")
    model = fit_cost_model(measured)
    print(
        f"cost model: {model.start:.1f} s + images * ({1e3 * model.image:.1f} ms + "
        f"{1e3 * model.megapixel:.1f} ms * megapixels + {1e3 * model.face:.1f} ms * faces) / "
        f"(cores * {model.efficiency:.2f})"
    )
    title = "images of 0.3 megapixels with one face"
    print_table(["images", *(f"{n} cores" for n in CORES)], cost_table(model, 0.3), title=title)


if __name__ == "__main__":
    main()
