"""LUVLi for everyone: where each face landmark is, how sure that is, and whether it can be seen.

    import luvli

    model = luvli.load("luvli-68")
    faces = model.predict("photo.jpg")

>>> import luvli
>>> luvli.FaceLandmarks.empty("ibug68").points.shape
(68, 2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luvli.errors import InputError
from luvli.faces import FaceLandmarks

if TYPE_CHECKING:
    from luvli.image.read import ImageSource
    from luvli.prediction.predictor import Predictor, load

__version__ = "0.1.0"

__all__ = ["FaceLandmarks", "InputError", "Predictor", "__version__", "load", "predict"]

_HOME = {"Predictor": "luvli.prediction.predictor", "load": "luvli.prediction.predictor"}
_loaded: dict[str, Any] = {}


def predict(image: ImageSource, model: str = "luvli-68", **options: Any) -> list[FaceLandmarks]:
    """The faces in one picture: `load(model).predict(image, **options)`, loaded only once."""
    if model not in _loaded:
        from luvli.prediction.predictor import load

        _loaded[model] = load(model)
    faces: list[FaceLandmarks] = _loaded[model].predict(image, **options)
    return faces


def __getattr__(name: str) -> Any:
    """Names that need more than numpy are looked up on first use: importing stays quick."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
