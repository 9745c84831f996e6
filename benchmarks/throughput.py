"""Folders and videos: from files to results on disk, on one core and on two.

    python benchmarks/throughput.py                    both, best of two rounds
    python benchmarks/throughput.py --only folder --images 6000

Each job runs in a process of its own that may use so many cores and no more; the jobs are taken
in turns, and of each the fastest round counts. "Processor" is processor time for one image or
frame, "busy" how many cores the job kept busy, and "others" how many cores other programs took
meanwhile: rates are worth comparing only where that is near 0. The face is the public-domain
astronaut of scikit-image; in the video she moves to and fro. MediaPipe reads the same folder and
writes its points as JSON, in a pool of processes, where it is installed
(benchmarks/pipeline_peers.py says how).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from luvli.cli.demo import PHOTOGRAPH
from luvli.cli.output import print_table
from luvli.image import read_image
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.models import find_model
from luvli.prediction.executors import Processes
from luvli.prediction.inputs import Inputs
from luvli.prediction.job import PredictJob
from luvli.prediction.predictor import load
from luvli.prediction.settings import JobSettings
from luvli.prediction.video_writer import VideoWriter
from luvli.prediction.worker import PackedModel

PARTS = ("folder", "video")
JOBS: dict[str, dict[str, tuple[int, dict[str, Any]]]] = {
    "folder": {"one core": (1, {}), "two cores": (2, {})},
    "video": {
        "followed, one core": (1, {}),
        "followed": (2, {}),
        "followed, smoothed, drawn, encoded": (2, {"smooth": True, "draw": True}),
    },
}
"""by part: name -> cores, settings of the job"""
PEER = "MediaPipe, two cores"


HEADER = ["", "rate", "to the first", "processor", "busy", "others"]


def astronaut(width: int, height: int, shift: int = 0) -> ImageArray:
    """The photograph, moved to the right by so many pixels."""
    photograph = read_image(PHOTOGRAPH)
    image = np.asarray(cv2.resize(photograph[:384], (width, height)), dtype=np.uint8)
    return np.roll(image, shift, axis=1)


def make_folder(folder: Path, images: int) -> None:
    """JPEG files of about 640 x 480 pixels."""
    folder.mkdir()
    shown = [astronaut(640 + i % 7, 480 + i % 5) for i in range(min(images, 35))]
    for i in range(images):
        write_image(folder / f"{i:05d}.jpg", shown[i % len(shown)])


def make_video(path: Path, frames: int) -> None:
    """640 x 480 pixels, 30 frames a second."""
    shifts = np.rint(40 * np.sin(np.arange(frames) / 15)).astype(int)
    shown = {shift: astronaut(640, 480, shift) for shift in set(shifts.tolist())}
    with VideoWriter(path, 30.0) as writer:
        for i, shift in enumerate(shifts.tolist()):
            writer.write(shown[shift], i / 30)


def mediapipe_file(path: str) -> str:
    """The points of a photograph as a line of JSON."""
    global _mesh
    if _mesh is None:
        solutions: Any = import_module("mediapipe").solutions
        _mesh = solutions.face_mesh.FaceMesh(static_image_mode=True, max_num_faces=1)
    faces = _mesh.process(read_image(path)).multi_face_landmarks
    points = [[[p.x, p.y] for p in face.landmark] for face in faces or []]
    return json.dumps({"image": path, "faces": points})


_mesh: Any = None


def mediapipe_folder(order: dict[str, Any], cores: int) -> dict[str, Any]:
    """What `work` tells, of a pool of processes with MediaPipe."""
    paths = sorted(map(str, Path(order["input"]).iterdir()))
    before, others = sum(os.times()[:4]), _machine_seconds()
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        pool.map(mediapipe_file, paths[: 4 * cores], chunksize=1)  # every process is ready
        start = time.perf_counter()
        with Path(order["out"]).open("w", encoding="utf-8") as file:
            for line in pool.imap(mediapipe_file, paths, chunksize=16):
                file.write(line + "\n")
        clock = time.perf_counter() - start
        pool.close()
        pool.join()
    busy = sum(os.times()[:4]) - before
    told = {"count": len(paths), "cores": cores, "clock": clock, "busy": busy}
    return told | {"others": max(0.0, _machine_seconds() - others - busy)}


def work(order: dict[str, Any]) -> dict[str, Any]:
    """In the process of one job: run it and tell seconds and processor seconds."""
    cores = sorted(os.sched_getaffinity(0))[: order["cores"]]
    os.sched_setaffinity(0, cores)
    cv2.setNumThreads(1)
    if order["peer"]:
        return mediapipe_folder(order, len(cores))
    predictor = load()
    predictor.predict(astronaut(640, 480))
    settings = JobSettings(order["out"], **order["settings"])
    file = find_model("luvli-68", None)
    packed = PackedModel(file, file.read_bytes(), detector=predictor.detector)
    before = _machine_seconds()
    start, spent = time.perf_counter(), sum(os.times()[:4])
    job = PredictJob(Inputs([order["input"]]), settings)
    summary = job.run(Processes(packed, len(cores)))
    clock = time.perf_counter() - start
    busy = sum(os.times()[:4]) - spent  # of this process and of those that it started
    counts = summary.counts
    assert counts["faces"] == (counts["images"] or counts["frames"]), summary
    return {
        "count": counts["images"] + counts["frames"],
        "cores": len(cores),
        "clock": clock,
        "busy": busy,
        "others": max(0.0, _machine_seconds() - before - busy),
    }


def _machine_seconds() -> float:
    """Processor seconds that all programs of the machine have used; 0 where nobody tells."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0
    used = sum(map(int, fields)) - int(fields[3]) - int(fields[4])  # but idle and waiting
    return used / os.sysconf("SC_CLK_TCK")


def measure(part: str, source: Path, place: Path, rounds: int) -> list[list[str]]:
    """A row for each job of a part; the fastest of several rounds, taken in turns."""
    best: dict[str, dict[str, Any]] = {}
    jobs = dict(JOBS[part])
    if part == "folder" and importlib.util.find_spec("mediapipe"):
        jobs[PEER] = (2, {})
    for turn in range(rounds):
        for name, (cores, settings) in jobs.items():
            out = place / f"out-{part}-{turn}-{len(best)}-{cores}-{len(settings)}"
            order = {"input": str(source), "out": str(out), "cores": cores, "settings": settings,
                     "peer": name == PEER}  # fmt: skip
            told = subprocess.run(
                [sys.executable, __file__, "--order", json.dumps(order)],
                capture_output=True,
                text=True,
                check=True,
            )
            found = json.loads(told.stdout.splitlines()[-1])
            if name not in best or found["clock"] < best[name]["clock"]:
                best[name] = found
    first = next(iter(best.values()))
    rows = []
    for name, found in best.items():
        count, clock = found["count"], found["clock"]
        rows.append(
            [
                name,
                f"{count / clock:.1f}/s",
                f"{first['clock'] / first['count'] / (clock / count):.2f}",
                f"{found['busy'] / count * 1e3:.1f} ms",
                f"{found['busy'] / clock:.2f} of {found['cores']}",
                f"{found['others'] / clock:.2f}",
            ]
        )
    return rows


def folder_rows(place: Path, images: int, rounds: int) -> list[list[str]]:
    """A folder of so many JPEG files, on one core and on two."""
    make_folder(place / "images", images)
    return measure("folder", place / "images", place, rounds)


def video_rows(place: Path, frames: int, rounds: int) -> list[list[str]]:
    """A video of so many frames, followed, on one core and on two, and drawn."""
    make_video(place / "clip.mp4", frames)
    return measure("video", place / "clip.mp4", place, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--images", type=int, default=1500, help="files in the folder")
    parser.add_argument("--frames", type=int, default=300, help="of the video")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--order", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.order:
        print(json.dumps(work(json.loads(options.order))))
        return
    with tempfile.TemporaryDirectory() as name:
        if "folder" in options.only:
            rows = folder_rows(Path(name), options.images, options.rounds)
            print_table(HEADER, rows, title="JPEG files to results on disk")
        if "video" in options.only:
            rows = video_rows(Path(name), options.frames, options.rounds)
            print_table(HEADER, rows, title="a video of 640 x 480 pixels, one face")


if __name__ == "__main__":
    main()
