"""How many augmented crops one core makes in a second: from cached patches, and from JPEG.

    python benchmarks/data.py

The network must be the bottleneck of training: at least 300 crops of 128 pixels or 120 of 256
have to come from one core. Seconds are those of the processor, so that other work on the
machine does not count; both ways give the same crops and are measured in one run, on drawn
photographs of 900 x 1200 pixels.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from luvli.cli.output import print_table
from luvli.data import Augmentation, CropDataset, FaceRecord
from luvli.markup import get_markup

WANTED = {128: 300, 256: 120}
"""crops a second that one core has to make, by their side in pixels"""
SECONDS = 2.0
EXTRAS = Augmentation.recipe("B").model_copy(
    update={"flip": 0.5, "occluder": 0.3, "blur": 0.2, "jpeg": 0.2, "low_resolution": 0.2}
)


def main() -> None:
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        records = drawn_photographs(Path(folder), 48)
        rows = [
            measure(records, size, name, config, Path(folder))
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
    records: list[FaceRecord], size: int, name: str, config: Augmentation, folder: Path
) -> list[str]:
    """One row of the table."""
    start = time.process_time()
    own = folder / f"{size} {name}"  # so that each row pays for its cache
    cached = CropDataset(records, size, augmentation=config, cache=own)
    build = len(records) / (time.process_time() - start)
    direct = CropDataset(records, size, augmentation=config)
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
