"""Methods that `luvli benchmark` can run: our models, known peers, and plug-ins of ten lines.

A method is a function from an image (H, W, 3) uint8 RGB and a box x0, y0, x1, y1 around the
landmarks to points (68, 2) in image pixels, to `luvli.FaceLandmarks`, whose uncertainty is then
evaluated too, or to None for no face. `mine:my_method` is such a function in the module `mine.py`.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.mediapipe import CAVEAT, mesh_to_ibug68
from luvli.errors import InputError, brief
from luvli.faces import FaceLandmarks
from luvli.image.read import ImageArray

Method = Callable[[ImageArray, Floats], FaceLandmarks | Floats | None]

_DLIB_BOXES = (
    "dlib was given squares as its own detector draws them, from the boxes that all were given; "
    "with that detector itself it is better and slower."
)
_MEDIAPIPE_TIME = (
    "MediaPipe looks for the face itself, in a window around the box: its time includes that."
)


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
    if kind in ("dlib", "mediapipe"):
        return _dlib(Path(rest)) if kind == "dlib" else _mediapipe(Path(rest))
    if what == "face-alignment":
        return _face_alignment()
    if rest and not Path(what).exists() and kind.replace(".", "").isidentifier():
        return _plug_in(kind, rest)
    from luvli.prediction.predictor import load

    predictor = load(what)
    return NamedMethod(
        predictor.info.name,
        lambda image, box: predictor.predict(image, boxes=[list(map(float, box))])[0],
    )


@contextmanager
def _one_sentence(what: str, fix: str) -> Iterator[None]:
    """Whatever another program raises becomes one sentence that says where."""
    try:
        yield
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {brief(error)}"
        raise InputError(
            f"{what} ({said}, {Path(place.filename).name} line {place.lineno}): {fix}."
        ) from error


def _guarded(name: str, run: Method, *notes: str, shown: str = "") -> NamedMethod:
    """The method, with one sentence for whatever it raises."""

    def guarded(image: ImageArray, box: Floats) -> FaceLandmarks | Floats | None:
        with _one_sentence(f"{name} failed", "mend it, or return None where it finds no face"):
            return run(image, box)

    return NamedMethod(shown or name, guarded, notes)


def _plug_in(module: str, function: str) -> NamedMethod:
    name, here = f"{module}:{function}", str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    fix = f"keep {module}.py in this folder, or install it"
    with _one_sentence(f"the plug-in {name} cannot be imported", fix):
        run = getattr(importlib.import_module(module), function)
    return _guarded(name, run, shown=function)


def _installed(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{package} is not installed: pip install {package}.") from error


def _dlib(path: Path) -> NamedMethod:
    dlib = _installed("dlib", "dlib")
    if not path.is_file():
        raise InputError("name dlib's shape predictor: dlib:shape_predictor_68_face_landmarks.dat")
    with _one_sentence("dlib cannot be started", f"{path} is no model of it"):
        predictor = dlib.shape_predictor(str(path))

    def run(image: ImageArray, box: Floats) -> Floats:
        shape = predictor(image, dlib.rectangle(*map(round, _detector_like(box).tolist())))
        return np.array([(part.x, part.y) for part in shape.parts()], dtype=np.float64)

    return _guarded("dlib", run, _DLIB_BOXES)


def _detector_like(box: Floats) -> Floats:
    """The square that dlib's own detector would draw, which its models are trained with.

    Fitted on 568 faces of LFPW that dlib 20.0 finds: the centre lies 0.096 of the box's longer
    side higher (deviation 0.05), the side is 1.04 of it (0.09).
    """
    low, high = box[:2], box[2:]
    longer = (high - low).max()
    centre = (low + high) / 2 - (0.0, 0.096 * longer)
    return np.concatenate([centre - 0.52 * longer, centre + 0.52 * longer])


def _mediapipe(path: Path) -> NamedMethod:
    mediapipe = _installed("mediapipe", "mediapipe")
    if not path.is_file():
        raise InputError("name MediaPipe's face landmarker: mediapipe:face_landmarker.task")
    vision, base = mediapipe.tasks.vision, mediapipe.tasks.BaseOptions
    with _one_sentence("MediaPipe cannot be started", f"{path} is no model of it"):
        options = vision.FaceLandmarkerOptions(base_options=base(model_asset_path=str(path)))
        landmarker = vision.FaceLandmarker.create_from_options(options)

    def run(image: ImageArray, box: Floats) -> Floats | None:
        """The face in a window of 1.8 times the box around it."""
        half, centre = 0.9 * (box[2:] - box[:2]).max(), (box[:2] + box[2:]) / 2
        left, top = np.maximum(centre - half, 0).astype(int)
        right, bottom = (centre + half).astype(int) + 1
        part = np.ascontiguousarray(image[top:bottom, left:right])
        frame = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=part)
        faces = landmarker.detect(frame).face_landmarks
        if not faces:
            return None
        size = np.array([part.shape[1], part.shape[0]])
        points = np.array([(p.x, p.y) for p in faces[0]]) * size - 0.5
        return np.asarray(mesh_to_ibug68(points) + np.array([left, top]))

    return _guarded("mediapipe", run, CAVEAT, _MEDIAPIPE_TIME)


def _face_alignment() -> NamedMethod:
    package = _installed("face_alignment", "face-alignment")
    kinds = package.LandmarksType
    flat = getattr(kinds, "TWO_D", None) or kinds._2D
    fix = "it downloads its weights when it is first used"
    with _one_sentence("face-alignment cannot be started", fix):
        network = package.FaceAlignment(flat, device="cpu", flip_input=False)

    def run(image: ImageArray, box: Floats) -> Floats | None:
        faces = network.get_landmarks(image, detected_faces=[[*map(float, box), 1.0]])
        return np.asarray(faces[0], dtype=np.float64) if faces else None

    return _guarded("face-alignment", run)
