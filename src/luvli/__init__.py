"""LUVLi for everyone: where each face landmark is, how sure that is, and whether it can be seen.

>>> import luvli
>>> luvli.FaceLandmarks.empty("ibug68").points.shape
(68, 2)
"""

from luvli.errors import InputError
from luvli.faces import FaceLandmarks

__version__ = "0.1.0"

__all__ = ["FaceLandmarks", "InputError", "__version__"]
