"""`luvli predict --engine ray` beside `luvli predict`, in one run, and a cost model fitted to it.

    python benchmarks/scale.py                     some minutes on two idle cores
    python benchmarks/scale.py --images 2000       steadier figures

Images are views of the public-domain astronaut of scikit-image, one face each. Rates are images
per second of the whole command, and without its start (what a run over an empty rest takes).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from luvli.cli.tables import print_table
from luvli.errors import require
from luvli.image.write import write_image

SIDES = {0.3: 548, 2.0: 1414}
"""megapixels -> side of a square image"""
STAGES = ("read", "decode", "detect", "crop", "network", "write")
SIZES = (10**6, 10**8, 10**10)
CORES = (2, 64, 1024)


@dataclass
class Run:
    """One command."""

    seconds: float
    """on the clock"""
    start: float
    """of these before the first image and after the last"""
    stages: dict[str, float]
    """seconds of each stage, all workers together"""

    def rate(self, images: int) -> float:
        return images / max(self.seconds - self.start, 1e-9)


def make_images(folder: Path, count: int, side: int) -> None:
    photograph = require("skimage.data", "demo").astronaut()
    for number in range(count):
        shift = number % 40
        view = np.ascontiguousarray(photograph[:400, 60 + shift : 460 + shift])
        image = cv2.resize(view, (side, side), interpolation=cv2.INTER_CUBIC)
        write_image(folder / f"{number:06d}.jpg", np.asarray(image, np.uint8))


def command(*arguments: object) -> tuple[float, str]:
    """Seconds and output of one command."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "luvli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    return time.perf_counter() - began, done.stdout


def stage_seconds(text: str) -> dict[str, float]:
    """The table of --profile.

    >>> stage_seconds("decode   1.25 s   50%")
    {'decode': 1.25}
    """
    found = {}
    for line in text.splitlines():
        words = line.replace("│", " ").split()
        if len(words) >= 3 and words[0] in STAGES and words[2] == "s":
            found[words[0]] = float(words[1])
    return found


def local(source: Path, out: Path, cores: int) -> Run:
    shared = ("--format", "parquet", "--threads", cores, "--profile", "--out")
    seconds, text = command("predict", source, *shared, out)
    one = next(iter(sorted(source.iterdir())))
    start, _ = command("predict", one, *shared, f"{out}-one")
    return Run(seconds, start, stage_seconds(text))


def on_ray(source: Path, out: Path, cores: int) -> Run:
    words = ("predict", source, "--engine", "ray", "--threads", cores, "--profile", "--out", out)
    seconds, text = command(*words)
    start, _ = command(*words)  # everything is done: what is left is start, check and end
    return Run(seconds, start, stage_seconds(text))


def cost_model(per_image: dict[float, dict[str, float]], efficiency: float) -> list[list[str]]:
    """Core-hours and hours by size; a line through the two sizes of images for each stage."""
    small, large = sorted(per_image)
    rows = []
    for megapixels in (small, large):
        seconds = sum(per_image[megapixels].values())
        for images in SIZES:
            hours = images * seconds / 3600 / efficiency
            rows.append(
                [f"{images:.0e}", f"{megapixels:g} MP", f"{hours:,.0f} core-hours"]
                + [f"{hours / cores:,.1f} h" for cores in CORES]
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=400)
    options = parser.parse_args()
    require("ray", "scale")
    count = options.images
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rows, times = [], []
    per_image: dict[float, dict[str, float]] = {}
    efficiency = 1.0
    for megapixels, side in SIDES.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            make_images(folder / "in", count, side)
            alone = local(folder / "in", folder / "alone", 2)
            one = on_ray(folder / "in", folder / "one", 1)
            two = on_ray(folder / "in", folder / "two", 2)
            for name, run, cores in (("luvli predict", alone, 2), ("ray", one, 1), ("ray", two, 2)):
                rate = run.rate(count)
                rows.append(
                    [f"{megapixels:g} MP", name, f"{cores}", f"{rate:.1f}", f"{rate / cores:.1f}",
                     f"{run.start:.1f} s", f"{rate / alone.rate(count):.2f}",
                     f"{rate / one.rate(count):.2f}"]
                )  # fmt: skip
            per_image[megapixels] = {s: two.stages.get(s, 0.0) / count for s in STAGES}
            busy = sum(per_image[megapixels].values())
            efficiency = min(1.0, busy * two.rate(count) / 2)
            times.append(
                [
                    f"{megapixels:g} MP",
                    *(f"{1e3 * per_image[megapixels][s]:.1f} ms" for s in STAGES),
                ]
            )
    heads = ["images", "command", "cores", "a second", "and core", "start", "to one machine",
             "to one core"]  # fmt: skip
    print_table(heads, rows, title=f"{count} images with one face")
    print_table(["images", *STAGES], times, title="where the time of one image goes, two cores")
    heads = ["images", "size", "work", *(f"{cores} cores" for cores in CORES)]
    title = f"cost model, {efficiency:.0%} of a core's time at work"
    print_table(heads, cost_model(per_image, efficiency), title=title)


if __name__ == "__main__":
    main()
