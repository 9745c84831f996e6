"""Synthetic faces: how many a second on one core, and what they hide beside MERL-RAV.

    python benchmarks/synthetic.py [ICT_FACEKIT] [--faces 100] [--occlusion 250] [--seed 71]

Speed is measured in processor time, so that other work on the machine counts as little as it
can; the first face (compiling, reading the head) is left out. The wall-clock rate stands
beside it. The table of occlusion counts rendered landmarks by pose class, with the standard error
of each share over faces. The rates of hands, masks and other things were set with seed 2: to check
them, take another.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import Visibility
from luvli.synthetic import SyntheticFaces, load_head, render_face

# Self-occluded and externally occluded landmarks of MERL-RAV's 19,314 faces, per cent.
MERL_RAV = {
    "frontal": (1.00, 11.88),
    "lefthalf": (10.11, 10.52),
    "righthalf": (9.37, 10.68),
    "left": (38.94, 7.67),
    "right": (37.54, 8.13),
}
WANTED = 25.0
"""faces of 256 px a second and core"""


def speed(head: str, size: int, faces: int) -> tuple[float, float]:
    """Faces a second of processor time and of wall-clock time."""
    import cv2

    cv2.setNumThreads(1)
    several = SyntheticFaces(head=head, count=faces + 1, size=size, seed=1)
    several[0]
    wall, cpu = time.perf_counter(), time.process_time()
    for i in range(1, faces + 1):
        several[i]
    return faces / (time.process_time() - cpu), faces / (time.perf_counter() - wall)


def occlusion(head: str, faces: int, seed: int) -> None:
    """Print the shares of hidden landmarks beside MERL-RAV's."""
    model = load_head(head)
    print(f"{'class':<10} {'self %':>13} {'MERL-RAV':>9} {'external %':>13} {'MERL-RAV':>9}")
    for pose, (own, foreign) in MERL_RAV.items():
        classes = np.array(
            [
                render_face((seed, i), model, 128, pose=pose).record.visibility  # type: ignore[arg-type]
                for i in range(faces)
            ]
        )
        hidden = share(classes == Visibility.SELF_OCCLUDED)
        covered = share(classes == Visibility.EXTERNALLY_OCCLUDED)
        print(f"{pose:<10} {hidden:>13} {own:9.2f} {covered:>13} {foreign:9.2f}")


def share(chosen: NDArray[np.bool_]) -> str:
    """Percent of the landmarks of n faces (n, k), and its standard error over the faces."""
    percent = 100 * chosen.mean(axis=1)
    return f"{percent.mean():.2f} ± {percent.std(ddof=1) / len(percent) ** 0.5:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).resolve().parents[2] / "shared/data/ict_facekit.npz"
    parser.add_argument("ict", nargs="?", default=str(default), help="ICT FaceKit model")
    parser.add_argument("--faces", type=int, default=100)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--occlusion", type=int, default=100, help="faces of each pose class")
    parser.add_argument("--seed", type=int, default=2, help="of the faces of each pose class")
    arguments = parser.parse_args()
    heads = ["procedural"]
    if Path(arguments.ict).exists():
        heads.append(arguments.ict)
    else:
        print(f"no ICT FaceKit model at {arguments.ict}: the built-in head only")
    for head in heads:
        name = "built-in head" if head == "procedural" else "ICT FaceKit"
        per_core, by_clock = speed(head, arguments.size, arguments.faces)
        print(
            f"{name}: {per_core:.1f} faces of {arguments.size} px per second of processor time "
            f"({by_clock:.1f} by the clock; {WANTED:.0f} wanted)"
        )
        if arguments.occlusion:
            occlusion(head, arguments.occlusion, arguments.seed)


if __name__ == "__main__":
    main()
