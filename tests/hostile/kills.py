"""The long attack's other half: runs that are killed and resumed, and what they leave.

    python tests/hostile/kills.py --kills 200 [--seed 0]

`luvli predict` over a folder of images is killed at a random moment (SIGKILL), again and again
until it ends by itself; its results must be those of a run that nobody touched, byte for byte,
and nothing else may be left in the folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.readers import _model

IMAGES = 60
WAYS = (("json",), ("csv", "--draw"), ("pts", "--draw"), ("parquet",), ("coco",))
"""formats and options that are killed in turn"""


def prepare(folder: Path) -> None:
    """A tiny model, images with two faces each, one broken image, and boxes."""
    import numpy as np

    from luvli.image.write import write_image

    _model("onnx").make(folder / "tiny.onnx")
    rng = np.random.default_rng(0)
    for i in range(IMAGES):
        write_image(folder / f"in/{i:03d}.png", rng.integers(0, 255, (96, 128, 3), dtype=np.uint8))
    (folder / "in/broken.png").write_bytes((folder / "in/000.png").read_bytes()[:90])
    boxes = {f"{i:03d}.png": [[10, 10, 60, 60], [60, 20, 110, 80]] for i in range(IMAGES)}
    (folder / "boxes.json").write_text(json.dumps(boxes))


def command(folder: Path, out: Path, way: tuple[str, ...]) -> list[str]:
    return [
        sys.executable, "-m", "luvli", "predict", str(folder / "in"), "--out", str(out), "--quiet",
        "--model", str(folder / "tiny.onnx"), "--boxes", str(folder / "boxes.json"),
        "--threads", "1", "--format", *way,
    ]  # fmt: skip


def contents(out: Path) -> dict[str, str]:
    """Digest of every file that a user sees; of parquet the rows, whose packing may differ."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != ".luvli-finished.json"
    }


def killed_run(folder: Path, way: tuple[str, ...], rng: random.Random, left: int) -> int:
    """Kill and resume until the run ends; -> how often it was killed."""
    out = folder / "killed"
    shutil.rmtree(out, ignore_errors=True)
    kills = 0
    while True:
        process = subprocess.Popen(
            command(folder, out, way), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        if kills < min(left, 6):
            journal = out / ".luvli-unfinished.jsonl"
            before = journal.stat().st_size if journal.exists() else 0
            # the start of the program is no interesting moment: wait until it writes
            wanted = before + rng.choice((0, 200, 5000, 50_000, 200_000))
            end = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < end:
                size = journal.stat().st_size if journal.exists() else -1
                if size >= wanted > 0 or (wanted == 0 and size >= 0):
                    break
                time.sleep(0.002)
            time.sleep(rng.random() * 0.01)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
        _, errors = process.communicate(timeout=600)
        if process.returncode == -signal.SIGKILL:
            continue
        if process.returncode != 1 or b"Traceback" in errors:  # 1: the broken image
            raise AssertionError(f"{way} ended with {process.returncode}: {errors.decode()[-800:]}")
        return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    kills = runs = wrong = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prepare(folder)
        wanted = {}
        while kills < given.kills:
            way = WAYS[runs % len(WAYS)]
            if way not in wanted:
                untouched = folder / f"untouched-{len(wanted)}"
                subprocess.run(command(folder, untouched, way), capture_output=True, check=False)
                wanted[way] = contents(untouched)
                assert len(wanted[way]) >= 2, "the untouched run wrote nothing"
            kills += killed_run(folder, way, rng, given.kills - kills)
            runs += 1
            found = contents(folder / "killed")
            if found != wanted[way]:
                wrong += 1
                differing = sorted(k for k in found.keys() | wanted[way].keys()
                                   if found.get(k) != wanted[way].get(k))  # fmt: skip
                print(f"{' '.join(way)}: differs in {', '.join(differing[:5])}", flush=True)
    print(f"predict: {kills} kills in {runs} runs, {wrong} runs with other results")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
