"""Speed and memory of scoring 20,000 faces x 68 landmarks, every metric.

    python benchmarks/evaluation.py [FACES]

Labels are drawn from the predicted Laplacians of a made-up test set. Prints the seconds of
each step and the peak memory of the process; the bounds for the metrics are 30 s of processor
time (on a free machine that is the time by the clock) and 2 GB.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.report import write_report
from luvli.evaluation.report_file import read_parquet
from luvli.likelihood import Laplace
from luvli.markup import get_markup

SECONDS, GIGABYTES = 30.0, 2.0


def made_up_faces(count: int, seed: int = 0) -> LabelledFaces:
    """Faces of many sizes; landmarks with covariances over two decades, one in ten hidden."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(40, 200, (count, 1, 1))
    predicted = get_markup("ibug68").schematic * size + rng.uniform(0, 500, (count, 1, 2))
    spread = np.exp(rng.normal(-4.0, 0.5, (count, 68))) * size[..., 0]
    cholesky = np.stack([spread, 0.3 * spread, 0.7 * spread], axis=-1)
    density = Laplace(predicted, cholesky)
    truth = density.sample(1, rng)[0]
    classes = rng.choice([0, 1, 2], p=[0.1, 0.8, 0.1], size=(count, 68)).astype(np.int8)
    probability = np.clip(rng.normal(np.where(classes > 0, 0.9, 0.2), 0.15), 0, 1)
    return LabelledFaces.from_arrays(
        predicted,
        np.where((classes > 0)[..., None], truth, np.nan),
        classes,
        density.covariance,
        probability,
        paper_pixel=size[:, 0, 0] * 2.6 / 256,
        subsets={"first half": np.arange(count) < count // 2},
        markup="ibug68",
        method="made up",
    )


def main(count: int) -> int:
    clock = time.perf_counter()
    faces = made_up_faces(count)
    print(f"made {count:,} faces x 68 landmarks in {time.perf_counter() - clock:.1f} s")
    clock, work = time.perf_counter(), time.process_time()
    metrics = compute_metrics(faces)
    wall, scoring = time.perf_counter() - clock, time.process_time() - work
    with tempfile.TemporaryDirectory() as folder:
        clock = time.perf_counter()
        write_report(folder, faces)
        reporting = time.perf_counter() - clock
        path = Path(folder, "predictions.parquet")
        clock = time.perf_counter()
        read_parquet(path)
        reading = time.perf_counter() - clock
        megabytes = path.stat().st_size / 1e6
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"all metrics                 {scoring:6.1f} s   (bound {SECONDS:g} s), "
        f"{wall:.1f} s by the clock"
    )
    print(f"whole report with figures   {reporting:6.1f} s   (metrics again, 11 figures, 4 files)")
    print(f"predictions.parquet read    {reading:6.1f} s   ({megabytes:.0f} MB)")
    print(f"peak memory                 {memory:6.2f} GB  (bound {GIGABYTES:g} GB)")
    print(f"NME box {metrics.value('nme_box'):.3f} %, "
          f"coverage error {metrics.value('coverage_error'):.4f}")  # fmt: skip
    return 0 if scoring < SECONDS and memory < GIGABYTES else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
