"""`luvli predict --engine ray` beside `luvli predict`, in one run, and a cost model fitted to it.

    python benchmarks/scale.py                     some minutes on two idle cores
    python benchmarks/scale.py --images 2000       steadier figures
    python benchmarks/scale.py --megapixels 2 --commands alone --keep runs.json
                                                   a part now; the file collects them for the tables

Images are views of the public-domain astronaut of scikit-image, one face each. Each command runs
over a quarter of the images and over all: the difference gives the rate, the rest is its start.
One core is one core: that command and all its processes are kept on the first. What other programs
take of the machine meanwhile is said; above a few percent the rates mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from luvli.cli.demo import PHOTOGRAPH
from luvli.cli.output import print_table
from luvli.errors import require
from luvli.image.read import read_image
from luvli.image.write import write_image

SIDES = {0.3: 548, 2.0: 1414}
"""megapixels -> side of a square image"""
COMMANDS = {
    "alone": ("--format", "parquet", "--threads", 2),
    "one": ("--engine", "ray", "--threads", 1),
    "two": ("--engine", "ray", "--threads", 2),
}
STAGES = ("read", "decode", "detect", "crop", "network", "write")
FACE_STAGES = ("crop", "network")
"""what is done for each face; the rest is done for each image"""
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
    others: float = 0.0
    """share of the machine that other programs took meanwhile"""

    @property
    def rate(self) -> float:
        """Images a second once it runs: what each further image takes."""
        return (self.images[1] - self.images[0]) / max(self.all - self.few, 1e-9)

    @property
    def start(self) -> float:
        """Seconds that do not depend on the number of images."""
        return self.all - self.images[1] / self.rate


def make_images(folder: Path, count: int, side: int) -> None:
    photograph = read_image(PHOTOGRAPH)
    for number in range(count):
        shift = number % 40
        view = np.ascontiguousarray(photograph[:400, 60 + shift : 460 + shift])
        image = cv2.resize(view, (side, side), interpolation=cv2.INTER_CUBIC)
        write_image(folder / f"{number:06d}.jpg", np.asarray(image, np.uint8))


class Ran(NamedTuple):
    """One command."""

    seconds: float
    """on the clock"""
    work: float
    """processor seconds of all its processes together"""
    others: float
    """processor seconds of everything else meanwhile"""
    text: str


def command(*arguments: object, cores: int = 0) -> Ran:
    """Run `luvli`, on the first `cores` cores; on all by default."""
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

    with tempfile.TemporaryFile("w+") as output:
        began, before = time.perf_counter(), busy()
        words = [sys.executable, "-m", "luvli", *map(str, arguments)]
        running = psutil.Popen(words, stdout=output, env=os.environ | {"COLUMNS": "200"})
        if cores and hasattr(running, "cpu_affinity"):  # what it starts stays there, too
            running.cpu_affinity(list(range(cores)))
        while running.poll() is None:
            look(running)
            time.sleep(0.25)
        seconds, work = time.perf_counter() - began, sum(used.values())
        if running.returncode:
            sys.exit(f"{' '.join(words)} ended with {running.returncode}")
        output.seek(0)
        return Ran(seconds, work, max(busy() - before - work, 0.0), output.read())


def stage_seconds(text: str) -> dict[str, float]:
    """What the command says about its time.

    >>> stage_seconds("time of all workers together: read 1.25 s, detect 2.00 s")
    {'read': 1.25, 'detect': 2.0}
    """
    return {name: float(spent) for name, spent in re.findall(r"(\w+) (\d+\.\d\d) s\b", text)}


def run(source: Path, out: Path, count: int, *options: object, cores: int = 0) -> Run:
    """`luvli predict` over the images, and before that over a quarter of them."""
    few = source.parent / "few"
    if not few.exists():
        few.mkdir()
        for image in sorted(source.iterdir())[: count // 4]:
            (few / image.name).hardlink_to(image)
    some = count // 4
    short = command("predict", few, *options, "--out", f"{out}-few", cores=cores)
    long = command("predict", source, *options, "--out", out, cores=cores)
    work = (long.work - short.work) / (count - some)
    spare = (os.cpu_count() or 1) * (short.seconds + long.seconds)
    others = (short.others + long.others) / spare
    return Run(short.seconds, long.seconds, (some, count), work, stage_seconds(long.text), others)


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

    def work(self, images: float, megapixels: float, faces: float = 1) -> float:
        """Seconds of a core that is never idle but for the efficiency."""
        each = self.image + self.megapixel * megapixels + self.face * faces
        return images * each / self.efficiency

    def seconds(self, images: float, megapixels: float, cores: int, faces: float = 1) -> float:
        """Seconds on the clock."""
        return self.start + self.work(images, megapixels, faces) / cores


def fit_cost_model(runs: Sequence[tuple[float, int, Run]]) -> CostModel:
    """Least squares over runs with images of one face: megapixels, cores, what was measured.

    An image's processor time is shared out by the stages' own seconds: the network and cutting
    belong to the face, the rest is a line over the megapixels. Start and efficiency are the line
    through the seconds on the clock, over the work that falls to each core.
    """
    size = np.array([megapixels for megapixels, _, _ in runs])
    work = np.array([run.work for _, _, run in runs])
    of_faces = np.array(
        [sum(run.stages[s] for s in FACE_STAGES) / sum(run.stages.values()) for _, _, run in runs]
    )
    face = float(np.mean(work * of_faces))
    rest = work * (1 - of_faces)
    image, megapixel = np.linalg.lstsq(np.stack([np.ones_like(size), size], 1), rest)[0]
    clock, shares = [], []
    for megapixels, cores, run in runs:
        each = image + megapixel * megapixels + face
        clock += [run.few, run.all]
        shares += [images * each / cores for images in run.images]
    line = np.stack([np.ones(len(shares)), np.array(shares)], 1)
    start, slope = np.linalg.lstsq(line, np.array(clock))[0]
    return CostModel(float(start), float(image), float(megapixel), face, float(1 / slope))


def cost_table(model: CostModel, sizes: Iterable[float]) -> list[list[str]]:
    """Core-hours and hours for images of one face."""
    rows = []
    for megapixels in sizes:
        for images in SIZES:
            hours = model.work(images, megapixels) / 3600
            rows.append(
                [f"{images:.0e}", f"{megapixels:g} MP", f"{hours:,.0f} core-hours"]
                + [f"{model.seconds(images, megapixels, n) / 3600:,.1f} h" for n in CORES]
            )
    return rows


def measure(megapixels: float, count: int, names: Sequence[str]) -> dict[str, Any]:
    """The named commands over images of one size."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_images(folder / "in", count, SIDES[megapixels])
        source = folder / "in"
        return {
            name: asdict(
                run(source, folder / name, count, *COMMANDS[name], cores=name == "one" and 1)
            )
            for name in names
        }


def report(kept: dict[str, dict[str, Any]]) -> None:
    """Tables of what was measured, and the cost model where both sizes were."""
    rows, times = [], []
    measured: list[tuple[float, int, Run]] = []
    for megapixels, found in sorted((float(size), found) for size, found in kept.items()):
        if set(found) != set(COMMANDS):
            continue
        alone, one, two = (Run(**found[name]) for name in COMMANDS)
        for name, run, cores in (("luvli predict", alone, 2), ("ray", one, 1), ("ray", two, 2)):
            rate = run.rate
            rows.append(
                [f"{megapixels:g} MP", name, f"{cores}", f"{rate:.1f}", f"{rate / cores:.1f}",
                 f"{run.start:.1f} s", f"{rate / alone.rate:.2f}",
                 f"{rate / one.rate:.2f}", f"{1e3 * run.work:.1f} ms", f"{run.others:.0%}"]
            )  # fmt: skip
        measured += [(megapixels, 1, one), (megapixels, 2, two)]
        stages = (f"{1e3 * two.stages.get(s, 0.0) / two.images[1]:.1f} ms" for s in STAGES)
        times.append([f"{megapixels:g} MP", *stages])
    heads = ["images", "command", "cores", "a second", "and core", "start", "to one machine",
             "to one core", "processor time", "others"]  # fmt: skip
    print_table(heads, rows, title="images with one face")
    print_table(["images", *STAGES], times, title="where the time of one image goes, two cores")
    if len(measured) == 2 * len(SIDES):
        model = fit_cost_model(measured)
        print(
            f"cost model: {model.start:.1f} s + images * ({1e3 * model.image:.1f} ms + "
            f"{1e3 * model.megapixel:.1f} ms * megapixels + {1e3 * model.face:.1f} ms * faces) / "
            f"(cores * {model.efficiency:.2f})"
        )
        heads = ["images", "size", "work", *(f"{cores} cores" for cores in CORES)]
        title = f"images with one face, {model.efficiency:.0%} of a core's time at work"
        print_table(heads, cost_table(model, sorted(SIDES)), title=title)


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
            before[name] = min(before.get(name, found), found, key=lambda run: run["others"])
            print(f"{megapixels:g} MP, {name}: others took {found['others']:.1%}", flush=True)
        if file is not None:
            file.write_text(json.dumps(kept, indent=1))
    report(kept)


if __name__ == "__main__":
    main()
