"""LUVLi for everyone: where each face landmark is, how sure that is, and whether it can be seen.

    import luvli

    model = luvli.load("luvli-68")
    faces = model.predict("photo.jpg")

>>> import luvli
>>> luvli.FaceLandmarks.empty("ibug68").points.shape
(68, 2)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from luvli._lazy import lazy
from luvli.errors import InputError

if TYPE_CHECKING:
    from luvli.drawing.faces import draw
    from luvli.face_measures import measure
    from luvli.faces import FaceLandmarks, Faces
    from luvli.image.source import AnyImage
    from luvli.prediction.predictor import Predictor, load
    from luvli.prediction.read_results import read
    from luvli.prediction.video_output import draw_video

__version__ = "0.1.0"

__all__ = [
    "FaceLandmarks",
    "Faces",
    "InputError",
    "Predictor",
    "__version__",
    "draw",
    "draw_video",
    "load",
    "measure",
    "predict",
    "read",
]

__getattr__ = lazy(
    __name__,
    {
        "FaceLandmarks": "faces",
        "Faces": "faces",
        "Predictor": "prediction.predictor",
        "draw": "drawing.faces",
        "draw_video": "prediction.video_output",
        "load": "prediction.predictor",
        "measure": "face_measures",
        "read": "prediction.read_results",
    },
)


def __dir__() -> list[str]:
    """What is meant for users, also what is only imported on first use."""
    return sorted(__all__)


# Silent unless the program that uses us asks: logging.basicConfig(level=logging.INFO)
logging.getLogger(__name__).addHandler(logging.NullHandler())

_loaded: dict[str, Any] = {}


def predict(image: AnyImage, model: str = "luvli-68", **options: Any) -> Faces:
    """The faces in one image: `load(model).predict(image, **options)`, loaded only once."""
    if model not in _loaded:
        from luvli.prediction.predictor import load

        _loaded[model] = load(model)
    faces: Faces = _loaded[model].predict(image, **options)
    return faces
