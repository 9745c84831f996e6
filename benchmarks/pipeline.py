"""From image to faces: every stage, beside other people's programs, and how it grows.

    python benchmarks/pipeline.py                            all of it, some four minutes
    python benchmarks/pipeline.py --only stages growth
    python benchmarks/pipeline.py --dlib shape_predictor_68_face_landmarks.dat
    python benchmarks/pipeline.py --only pictures --pictures 300W/lfpw/trainset 300W/helen/trainset

Stages and growth are measured in turns, on one thread; times are those of the processor, best
and median of all turns, so that other work on the machine counts little. MediaPipe and dlib take
part as far as they are installed (benchmarks/pipeline_peers.py says how). Folders and videos, on
one core and on two, are those of benchmarks/throughput.py. The photograph is the public-domain
astronaut of scikit-image. Pictures are photographs of yours, brought to a longest side of 640.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import cv2
import numpy as np
from pipeline_peers import DLIB, MEDIAPIPE, Works, mediapipe, opencv_detector, peers
from throughput import HEADER, folder_rows, video_rows

from luvli.cli.demo import PHOTOGRAPH
from luvli.cli.output import print_table
from luvli.image import read_image
from luvli.image.box import Box
from luvli.image.detect import SMALL, YuNet
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.prediction.crops import inner
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.rows import Row
from luvli.prediction.writers import json_record

PARTS = ("stages", "growth", "throughput", "pictures")
WARM = 3
"""runs before the one that is measured. After another work the landmark stage takes 35, 12, 11
and 8 % longer than the bare call in its first, second, third and fourth run; the bare call, whose
turn is after the stage, is warm from its first"""
WANTED = (
    ("landmark stage", "bare session call", 1.15),
    ("image to faces", MEDIAPIPE, 3.0),
    ("image to faces", DLIB, 0.6),
)
"""stages, and how many times another they may take"""


def turns(works: Works, count: int) -> dict[str, tuple[float, float]]:
    """Best and median processor milliseconds of each work, all of them measured in turns.

    Before it is measured each runs `WARM` times unmeasured: otherwise the first to use the network
    after another program's would pay for fetching its weights, and the next would not.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(count):
        for name, work in works.items():
            for _ in range(WARM):
                work()
            start = time.process_time()
            work()
            times[name].append((time.process_time() - start) * 1e3)
    return {name: (min(spent), float(np.median(spent))) for name, spent in times.items()}


def astronaut(width: int, height: int) -> ImageArray:
    photograph = read_image(PHOTOGRAPH)
    return np.asarray(cv2.resize(photograph[:384], (width, height)), dtype=np.uint8)


def stages(predictor: Predictor, image: ImageArray, others: Works) -> Works:
    """One face in 640 x 480 pixels, step by step and as a whole, and others' ways."""
    face = predictor.preprocess(image)
    size = predictor.info.config.input_size
    ready = np.stack([inner(pixels, size) for pixels in face.pixels])
    session = predictor.backend.session  # type: ignore[attr-defined]
    inputs = face.windows.inputs(ready)
    boxes = face.boxes[:1]
    faces = predictor.predict(image)[:1]

    photograph = Photograph(image)

    def landmarks() -> object:
        return predictor.predict_cropped([predictor.preprocess(photograph, boxes)])

    return {
        "image to faces": lambda: predictor.predict(image),
        "detector": lambda: predictor.detect(image),
        "landmark stage": landmarks,
        "bare session call": lambda: session.run(None, inputs),
        "of it: crop": lambda: predictor.preprocess(photograph, boxes),
        "line of results": lambda: json_record(Row("image.jpg", faces)),
        # Last, with other people's: what comes right after them pays for the memory that they gave
        # back to the system, and would not be compared with the next on equal terms.
        "detector, OpenCV's, 320 and 640 pixels": opencv_detector(image),
        **others,
    }


def print_stages(measured: dict[str, tuple[float, float]]) -> None:
    """Milliseconds, ratios to the whole, and the ratios that were wanted."""
    whole = measured["image to faces"][0]
    rows = [
        [name, f"{best:.2f} ms", f"{median:.2f} ms", f"{best / whole:.2f}"]
        for name, (best, median) in measured.items()
    ]
    title = "one face, 640 x 480 pixels, one thread, processor time"
    print_table(["", "best", "median", "to image to faces"], rows, title=title)
    rows = []
    for name, other, most in WANTED:
        if other in measured:
            best, median = (a / b for a, b in zip(measured[name], measured[other], strict=True))
            rows.append([f"{name} / {other}", f"{best:.3f}", f"{median:.3f}", f"{most:.2f}"])
    print_table(["", "of best", "of medians", "wanted, at most"], rows, title="ratios")


MEASURE = """
import sys, time
def peak():  # Linux's high-water mark of this program alone; getrusage tells its parent's too
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0]) / 1024
from luvli.prediction.predictor import load
predictor = load(threads=1)
import numpy
predictor.predict(numpy.zeros((64, 64, 3), numpy.uint8))
before = peak()
clock, spent = time.perf_counter(), time.process_time()
for _ in range(int(sys.argv[2])):
    faces = predictor.predict(sys.argv[1])
print(time.process_time() - spent, time.perf_counter() - clock, len(faces),
      before, peak())
"""


def growth(predictor: Predictor, count: int, folder: Path) -> list[list[str]]:
    """Megapixels and number of JPEG files (each in a process of its own), faces, images."""
    rows: list[list[str]] = []
    sizes, spent, memory = [], [], []
    for width in (750, 1500, 3000, 6000):
        path = folder / f"{width}.jpg"
        write_image(path, astronaut(width, width * 2 // 3))
        seconds, clock, before, peak = alone(path, 1)
        sizes.append(width**2 / 1.5e6)
        spent.append(seconds)
        memory.append(peak)
        more = f"{peak:.0f} MB ({peak - before:.0f} more)"
        rows.append([f"{sizes[-1]:.1f} megapixels", f"{seconds:.3f} s ({clock:.3f})", more])
    rows.append(["slope, log-log", f"{slope(sizes, spent):.2f}", f"{slope(sizes, memory):.2f}"])
    small = folder / "640.jpg"
    write_image(small, astronaut(640, 480))
    counts = (25, 100, 400)
    measures = [alone(small, n) for n in counts]
    for n, (seconds, clock, before, peak) in zip(counts, measures, strict=True):
        more = f"{peak:.0f} MB ({peak - before:.0f} more)"
        rows.append([f"{n} files, one by one", f"{seconds:.2f} s ({clock:.2f})", more])
    times, peaks = [each[0] for each in measures], [each[3] for each in measures]
    rows.append(["slope, log-log", f"{slope(counts, times):.2f}", f"{slope(counts, peaks):.2f}"])
    image = astronaut(640, 480)
    box = predictor.preprocess(image).boxes[0]
    numbers = (1, 4, 16, 64)
    works: Works = {
        f"{n} faces": lambda n=n: predictor.predict(image, boxes=[box] * n)  # type: ignore[misc]
        for n in numbers
    }
    works |= {
        f"{n} images": lambda n=n: predictor.predict_batch([image] * n)  # type: ignore[misc]
        for n in numbers
    }
    measured = turns(works, max(2, count // 15))
    for kind in ("faces", "images"):
        best = [measured[f"{n} {kind}"][0] for n in numbers]
        rows += [[f"{n} {kind}", f"{ms:.1f} ms", ""] for n, ms in zip(numbers, best, strict=True)]
        rows.append(["slope, log-log", f"{slope(numbers, best):.2f}", ""])
    return rows


def alone(path: Path, count: int) -> tuple[float, float, float, float]:
    """A file predicted so many times by a process of its own: processor seconds, seconds, peak
    of memory in MB before and after."""
    command = [sys.executable, "-c", MEASURE, str(path), str(count)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, clock, _, before, peak = map(float, told.stdout.split())
    return seconds, clock, before, peak


def slope(x: Any, y: Any) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def ordinary_pictures(folders: list[Path], count: int) -> list[ImageArray]:
    """So many photographs, spread evenly over the folders, of a longest side of 640 pixels."""
    endings = (".jpg", ".jpeg", ".png")
    paths = [
        path
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in endings
    ]
    chosen = [paths[i] for i in np.linspace(0, len(paths) - 1, count).round().astype(int)]
    return [shrunk(read_image(path), 640) for path in chosen]


def shrunk(image: ImageArray, side: int) -> ImageArray:
    scale = side / max(image.shape[:2])
    size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def count_looks(image: ImageArray) -> int:
    """How often the detector shows an image, or a part of it, to its network."""
    detector, counter = YuNet(), Mock(wraps=YuNet()._network)
    detector._network = counter
    detector(image)
    return counter.call_count


def landmark_stage(predictor: Predictor, image: ImageArray, boxes: list[Box]) -> object:
    return predictor.predict_cropped([predictor.preprocess(image, boxes)])


def picture_rows(predictors: list[Predictor], images: list[ImageArray], count: int) -> None:
    """Mean over the pictures of each way's best time; how many pictures got a second look."""
    spent: dict[str, list[float]] = {}
    looks = faces = 0
    for image in images:
        looks += count_looks(image) > 1
        small, boxes = shrunk(image, SMALL), predictors[0].detect(image)
        faces += len(boxes)
        works: Works = {
            f"{predictor.info.name}, image to faces": partial(predictor.predict, image)
            for predictor in predictors
        }
        works |= {
            f"{predictor.info.name}, landmark stage": partial(
                landmark_stage, predictor, image, boxes[:1]
            )
            for predictor in predictors
        }
        works["detector, one look"] = partial(YuNet(), small, "", False)
        works["detector"] = partial(predictors[0].detect, image)
        if importlib.util.find_spec("mediapipe"):
            works |= mediapipe(image, None, most=len(boxes))
        for name, (best, _) in turns(works, count).items():
            spent.setdefault(name, []).append(best)
    means = {name: float(np.mean(times)) for name, times in spent.items()}
    other = means.get(MEDIAPIPE, float("nan"))
    rows = [[name, f"{mean:.2f} ms", f"{mean / other:.2f}"] for name, mean in means.items()]
    title = (
        f"{len(images)} pictures, {faces} faces, one thread, processor time; {looks} got more looks"
    )
    print_table(["", "mean", "to MediaPipe"], rows, title=title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--pictures", nargs="+", type=Path, help="folders of photographs")
    parser.add_argument("--mediapipe", help="MediaPipe's face_landmarker.task")
    parser.add_argument("--dlib", help="dlib's shape predictor of 68 points")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    predictor = load(threads=1)
    if "stages" in options.only:
        image = astronaut(640, 480)
        works = stages(predictor, image, peers(image, options.mediapipe, options.dlib))
        print_stages(turns(works, options.turns))
    if "pictures" in options.only and options.pictures:
        models = [load(name, threads=1) for name in ("luvli-68", "luvli-68-fast")]
        picture_rows(models, ordinary_pictures(options.pictures, 24), max(2, options.turns // 12))
    with tempfile.TemporaryDirectory() as place:
        if "growth" in options.only:
            rows = growth(predictor, options.turns, Path(place))
            print_table(["", "processor (clock)", "peak memory"], rows, title="growth")
        if "throughput" in options.only:
            title = "JPEG files to results on disk"
            print_table(HEADER, folder_rows(Path(place), 1500, 2), title=title)
            title = "a video of 640 x 480 pixels, one face"
            print_table(HEADER, video_rows(Path(place), 300, 2), title=title)


if __name__ == "__main__":
    main()
