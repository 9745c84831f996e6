"""Methods that `luvli benchmark` can run: our models, known peers, and plug-ins of ten lines.

A method is a function from an image and a box to landmarks:

    def my_method(image, box):
        # image: (H, W, 3) uint8 RGB; box: x0, y0, x1, y1 around the landmarks, image pixels
        return points                      # (68, 2) image pixels, or None for no face

Keep it in a module `mine.py` and name it `mine:my_method`. A method may return
`luvli.FaceLandmarks` instead of points; then its uncertainty is evaluated too.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.formats.mediapipe import CAVEAT, mesh_to_ibug68
from luvli.errors import InputError, brief
from luvli.faces import FaceLandmarks

MethodPrediction = FaceLandmarks | Floats | None
Method = Callable[[NDArray[np.uint8], Floats], MethodPrediction]
Started = TypeVar("Started")


class NamedMethod(NamedTuple):
    """A method with the name that tables and plots show."""

    name: str
    run: Method
    notes: tuple[str, ...] = ()


def open_method(what: str) -> NamedMethod:
    """A method by its name.

    `dlib:PATH` (a shape predictor with 68 points), `mediapipe:PATH` (a face landmarker),
    `face-alignment`, a plug-in `module:function`, or one of our models by name or path.
    """
    kind, _, rest = what.partition(":")
    if kind == "dlib":
        return _dlib(rest)
    if kind == "mediapipe":
        return _mediapipe(rest)
    if what == "face-alignment":
        return _face_alignment()
    if rest and not Path(what).exists() and kind.replace(".", "").isidentifier():
        return _plug_in(kind, rest)
    return _model(what)


def _model(what: str) -> NamedMethod:
    from luvli.prediction.predictor import load

    predictor = load(what)

    def run(image: NDArray[np.uint8], box: Floats) -> MethodPrediction:
        return predictor.predict(image, boxes=[list(map(float, box))])[0]

    return NamedMethod(predictor.info.name, run)


def _plug_in(module: str, function: str) -> NamedMethod:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"the plug-in {module}:{function} cannot be imported ({error}): keep {module}.py in "
            "this folder, or install it."
        ) from error
    except Exception as error:  # whatever a stranger's module does when it is imported
        raise InputError(
            f"the plug-in {module}:{function} cannot be imported ({_raised(error)}): mend it."
        ) from error
    return NamedMethod(function, _guarded(f"{module}:{function}", found))


def _guarded(name: str, run: Method) -> Method:
    """The method, with one sentence for whatever another program raises."""

    def guarded(image: NDArray[np.uint8], box: Floats) -> MethodPrediction:
        try:
            return run(image, box)
        except Exception as error:
            raise InputError(
                f"{name} failed ({_raised(error)}): mend it, or return None where it finds no face."
            ) from error

    return guarded


def _raised(error: Exception) -> str:
    """What was raised, and where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    said = f"{type(error).__name__}: {brief(error)}"
    return f"{said}, {Path(place.filename).name} line {place.lineno}"


def _started(package: str, start: Callable[[], Started], fix: str) -> Started:
    try:
        return start()
    except Exception as error:
        raise InputError(f"{package} cannot be started ({brief(error)}): {fix}.") from error


def _installed(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{package} is not installed: pip install {package}.") from error


def _dlib(path: str) -> NamedMethod:
    dlib = _installed("dlib", "dlib")
    if not Path(path).is_file():
        raise InputError("name dlib's shape predictor: dlib:shape_predictor_68_face_landmarks.dat")
    predictor = _started("dlib", lambda: dlib.shape_predictor(path), f"{path} is no model of it")

    def run(image: NDArray[np.uint8], box: Floats) -> MethodPrediction:
        x0, y0, x1, y1 = (round(float(edge)) for edge in _detector_like(box))
        shape = predictor(image, dlib.rectangle(x0, y0, x1, y1))
        return np.array([(part.x, part.y) for part in shape.parts()], dtype=np.float64)

    return NamedMethod("dlib", _guarded("dlib", run), (_DLIB_BOXES,))


_DLIB_BOXES = (
    "dlib was given squares as its own detector draws them, from the boxes that all were given; "
    "with that detector itself it is better and slower."
)


def _detector_like(box: Floats) -> Floats:
    """The square that dlib's own detector would draw, which its models are trained with.

    Fitted on 568 faces of LFPW that dlib 20.0 finds: the centre lies 0.096 of the box's longer
    side higher (deviation 0.05), the side is 1.04 of it (0.09).
    """
    x0, y0, x1, y1 = (float(edge) for edge in box)
    longer = max(x1 - x0, y1 - y0)
    x, y, half = (x0 + x1) / 2, (y0 + y1) / 2 - 0.096 * longer, 0.52 * longer
    return np.array([x - half, y - half, x + half, y + half])


def _mediapipe(path: str) -> NamedMethod:
    mediapipe = _installed("mediapipe", "mediapipe")
    if not Path(path).is_file():
        raise InputError("name MediaPipe's face landmarker: mediapipe:face_landmarker.task")
    vision = mediapipe.tasks.vision
    options = vision.FaceLandmarkerOptions(
        base_options=mediapipe.tasks.BaseOptions(model_asset_path=str(path))
    )
    landmarker = _started(
        "MediaPipe",
        lambda: vision.FaceLandmarker.create_from_options(options),
        f"{path} is no model of it",
    )

    def run(image: NDArray[np.uint8], box: Floats) -> MethodPrediction:
        left, top, part = _window(image, box, 1.8)
        frame = mediapipe.Image(
            image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(part)
        )
        found = landmarker.detect(frame).face_landmarks
        if not found:
            return None
        height, width = part.shape[:2]
        points = np.array([(p.x * width - 0.5, p.y * height - 0.5) for p in found[0]])
        return np.asarray(mesh_to_ibug68(points) + np.array([left, top]))

    timed = (
        "MediaPipe looks for the face itself, in a window around the box: its time includes that."
    )
    return NamedMethod("mediapipe", _guarded("mediapipe", run), (CAVEAT, timed))


def _window(
    image: NDArray[np.uint8], box: Floats, enlarge: float
) -> tuple[int, int, NDArray[np.uint8]]:
    """The part of an image around a box: its left and top edge, and its pixels."""
    x0, y0, x1, y1 = box
    half = max(x1 - x0, y1 - y0) * enlarge / 2
    cx, cy = (x0 + x1) / 2, (y0 + y1) / 2
    left, top = max(0, int(cx - half)), max(0, int(cy - half))
    return left, top, image[top : int(cy + half) + 1, left : int(cx + half) + 1]


def _face_alignment() -> NamedMethod:
    package = _installed("face_alignment", "face-alignment")
    kinds = package.LandmarksType
    flat = getattr(kinds, "TWO_D", None) or kinds._2D
    network = _started(
        "face-alignment",
        lambda: package.FaceAlignment(flat, device="cpu", flip_input=False),
        "it downloads its weights when it is first used",
    )

    def run(image: NDArray[np.uint8], box: Floats) -> MethodPrediction:
        found = network.get_landmarks(image, detected_faces=[[*map(float, box), 1.0]])
        return None if not found else np.asarray(found[0], dtype=np.float64)

    return NamedMethod("face-alignment", _guarded("face-alignment", run))
