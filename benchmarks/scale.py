"""`luvli predict --engine ray` beside `luvli predict`, in one run, and a cost model fitted to it.

    python benchmarks/scale.py                     some minutes on two idle cores
    python benchmarks/scale.py --images 2000       steadier figures
    python benchmarks/scale.py --megapixels 2 --commands alone --keep runs.json
                                                   a part now; the file collects them for the tables

Images are views of the public-domain astronaut of scikit-image, one face each. Each command runs
over a quarter of the images and over all: the difference gives the rate, the rest is its start.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from luvli.cli.tables import print_table
from luvli.errors import require
from luvli.image.write import write_image

SIDES = {0.3: 548, 2.0: 1414}
"""megapixels -> side of a square image"""
COMMANDS = {
    "alone": ("--format", "parquet", "--threads", 2),
    "one": ("--engine", "ray", "--threads", 1),
    "two": ("--engine", "ray", "--threads", 2),
}
STAGES = ("read", "decode", "detect", "crop", "network", "write")
SIZES = (10**6, 10**8, 10**10)
CORES = (2, 64, 1024)


@dataclass
class Run:
    """A command over few images and over all of them."""

    few: float
    """seconds on the clock"""
    all: float
    images: tuple[int, int]
    work: float
    """processor seconds of each further image, all processes together"""
    stages: dict[str, float]
    """seconds of each stage over all images, all workers together"""

    @property
    def rate(self) -> float:
        """Images a second once it runs: what each further image takes."""
        return (self.images[1] - self.images[0]) / max(self.all - self.few, 1e-9)

    @property
    def start(self) -> float:
        """Seconds that do not depend on the number of images."""
        return self.all - self.images[1] / self.rate


def make_images(folder: Path, count: int, side: int) -> None:
    photograph = require("skimage.data", "demo").astronaut()
    for number in range(count):
        shift = number % 40
        view = np.ascontiguousarray(photograph[:400, 60 + shift : 460 + shift])
        image = cv2.resize(view, (side, side), interpolation=cv2.INTER_CUBIC)
        write_image(folder / f"{number:06d}.jpg", np.asarray(image, np.uint8))


def command(*arguments: object) -> tuple[float, float, str]:
    """Seconds on the clock, seconds of all its processes together, and output of one command."""
    psutil = require("psutil", "dev")
    used: dict[int, float] = {}

    def look(process: Any) -> None:
        with suppress(psutil.Error):
            for one in (process, *process.children(recursive=True)):
                with suppress(psutil.Error):
                    times = one.cpu_times()
                    used[one.pid] = times.user + times.system

    with tempfile.TemporaryFile("w+") as output:
        began = time.perf_counter()
        words = [sys.executable, "-m", "luvli", *map(str, arguments)]
        running = psutil.Popen(words, stdout=output, env=os.environ | {"COLUMNS": "200"})
        while running.poll() is None:
            look(running)
            time.sleep(0.25)
        seconds = time.perf_counter() - began
        if running.returncode:
            sys.exit(f"{' '.join(words)} ended with {running.returncode}")
        output.seek(0)
        return seconds, sum(used.values()), output.read()


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


def run(source: Path, out: Path, count: int, *options: object) -> Run:
    """`luvli predict` over the images, and before that over a quarter of them."""
    few = source.parent / "few"
    if not few.exists():
        few.mkdir()
        for image in sorted(source.iterdir())[: count // 4]:
            (few / image.name).hardlink_to(image)
    some = count // 4
    short, before, _ = command("predict", few, *options, "--profile", "--out", f"{out}-few")
    seconds, after, text = command("predict", source, *options, "--profile", "--out", out)
    work = (after - before) / (count - some)
    return Run(short, seconds, (some, count), work, stage_seconds(text))


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


def measure(megapixels: float, count: int, names: Sequence[str]) -> dict[str, Any]:
    """The named commands over images of one size."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_images(folder / "in", count, SIDES[megapixels])
        source = folder / "in"
        return {name: asdict(run(source, folder / name, count, *COMMANDS[name])) for name in names}


def report(kept: dict[str, dict[str, Any]]) -> None:
    """Tables of what was measured, and the cost model where both sizes were."""
    rows, times = [], []
    per_image: dict[float, dict[str, float]] = {}
    shares = []
    for megapixels, found in sorted((float(size), found) for size, found in kept.items()):
        if set(found) != set(COMMANDS):
            continue
        alone, one, two = (Run(**found[name]) for name in COMMANDS)
        for name, run, cores in (("luvli predict", alone, 2), ("ray", one, 1), ("ray", two, 2)):
            rate = run.rate
            rows.append(
                [f"{megapixels:g} MP", name, f"{cores}", f"{rate:.1f}", f"{rate / cores:.1f}",
                 f"{run.start:.1f} s", f"{rate / alone.rate:.2f}",
                 f"{rate / one.rate:.2f}", f"{1e3 * run.work:.1f} ms"]
            )  # fmt: skip
        per_image[megapixels] = {s: two.stages.get(s, 0.0) / two.images[1] for s in STAGES}
        shares.append(min(1.0, sum(per_image[megapixels].values()) * two.rate / 2))
        stages = (f"{1e3 * per_image[megapixels][s]:.1f} ms" for s in STAGES)
        times.append([f"{megapixels:g} MP", *stages])
    heads = ["images", "command", "cores", "a second", "and core", "start", "to one machine",
             "to one core", "processor time"]  # fmt: skip
    print_table(heads, rows, title="images with one face")
    print_table(["images", *STAGES], times, title="where the time of one image goes, two cores")
    if len(per_image) == len(SIDES):
        efficiency = min(shares)
        heads = ["images", "size", "work", *(f"{cores} cores" for cores in CORES)]
        title = f"cost model, {efficiency:.0%} of a core's time at work"
        print_table(heads, cost_model(per_image, efficiency), title=title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=800)
    parser.add_argument("--megapixels", type=float, nargs="*", choices=SIDES, default=list(SIDES))
    parser.add_argument("--commands", nargs="*", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--keep", type=Path, help="JSON file that collects what was measured")
    options = parser.parse_args()
    require("ray", "scale")
    file: Path | None = options.keep
    kept = json.loads(file.read_text()) if file is not None and file.exists() else {}
    for megapixels in options.megapixels:
        before = kept.setdefault(str(megapixels), {})
        for name, found in measure(megapixels, options.images, options.commands).items():
            # of several rounds the one that others disturbed least
            before[name] = min(before.get(name, found), found, key=lambda run: Run(**run).work)
        if file is not None:
            file.write_text(json.dumps(kept, indent=1))
    report(kept)


if __name__ == "__main__":
    main()
