"""How many augmented crops one core makes in a second: from cached patches, and from JPEG.

    python benchmarks/data.py                       drawn photographs of 900 x 1200 pixels
    python benchmarks/data.py w300 300W --skip-bad  your own data set

The network must be the bottleneck of training: at least 300 crops of 128 pixels or 120 of 256
have to come from one core. Seconds are those of the processor, so that other work on the
machine does not count; both ways give the same crops and are measured in one run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from PIL import Image

from luvli.cli.output import print_table
from luvli.data import Augmentation, CropDataset, FaceRecord, load_set
from luvli.data.sets import get_set
from luvli.markup import get_markup

WANTED = {128: 300, 256: 120}
"""crops a second that one core has to make, by their side in pixels"""
SECONDS = 2.0
EXTRAS = Augmentation.recipe("B").model_copy(
    update={"flip": 0.5, "occluder": 0.3, "blur": 0.2, "jpeg": 0.2, "low_resolution": 0.2}
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", help="data set; drawn photographs if not given")
    parser.add_argument("root", nargs="?", type=Path)
    parser.add_argument("--skip-bad", action="store_true")
    options = parser.parse_args()
    import cv2

    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        if options.name:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = load_set(options.name, options.root, skip_bad=options.skip_bad)
            records, enlarge = list(found)[:400], get_set(options.name).enlarge
        else:
            records, enlarge = drawn_photographs(Path(folder), 48), 1.1
        rows = [
            measure(records, enlarge, size, name, config, Path(folder))
            for size in WANTED
            for name, config in (
                ("recipe A", Augmentation.recipe("A")),
                ("recipe B", Augmentation.recipe("B")),
                ("B + extras", EXTRAS),
            )
        ]
    headings = ["crops", "cached /s", "from JPEG /s", "ratio", "wanted /s", "build /s"]
    print_table(headings, rows, title=f"augmented crops a second, one core, {len(records)} faces")


def measure(
    records: list[FaceRecord],
    enlarge: float,
    size: int,
    name: str,
    config: Augmentation,
    folder: Path,
) -> list[str]:
    """One row of the table."""
    start = time.process_time()
    own = folder / f"{size} {name}"  # so that each row pays for its cache
    cached = CropDataset(records, size, enlarge=enlarge, augmentation=config, cache=own)
    build = len(records) / (time.process_time() - start)
    direct = CropDataset(records, size, enlarge=enlarge, augmentation=config)
    fast, slow = rate(cached), rate(direct)
    verdict = f"{WANTED[size]}" if fast >= WANTED[size] else f"{WANTED[size]} MISSED"
    return [
        f"{size} px, {name}",
        f"{fast:,.0f}",
        f"{slow:,.0f}",
        f"{fast / slow:.1f}",
        verdict,
        f"{build:,.0f}",
    ]


def rate(dataset: CropDataset) -> float:
    """Samples a processor second, over at least `SECONDS` and new random numbers each time."""
    dataset[0, 0]
    done, start = 0, time.process_time()
    while (spent := time.process_time() - start) < SECONDS:
        dataset[1 + done // len(dataset), done % len(dataset)]
        done += 1
    return done / spent


def drawn_photographs(folder: Path, count: int) -> list[FaceRecord]:
    """JPEG files of the size of an ordinary photograph, with a face of about 300 pixels."""
    rng = np.random.default_rng(0)
    drawing = get_markup("ibug68").schematic
    records = []
    for number in range(count):
        coarse = rng.integers(0, 256, (90, 120, 3), dtype=np.uint8)
        path = folder / f"{number}.jpg"
        Image.fromarray(coarse).resize((1200, 900), Image.Resampling.BICUBIC).save(path, quality=90)
        points = (600, 450) + drawing * 160
        records.append(FaceRecord(points, np.ones(68, np.int8), image=path, face_id=str(number)))
    return records


if __name__ == "__main__":
    main()
