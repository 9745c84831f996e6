"""From a file to a face crop: reading, boxes, detection, cropping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luvli._lazy import lazy

if TYPE_CHECKING:
    from luvli.image.box import Box
    from luvli.image.crop import Crop
    from luvli.image.detect import Detector, detect_faces, get_detector
    from luvli.image.read import read_image

__all__ = ["Box", "Crop", "Detector", "detect_faces", "get_detector", "read_image"]

__getattr__ = lazy(
    __name__,
    {
        "Box": "box",
        "Crop": "crop",
        "Detector": "detect",
        "detect_faces": "detect",
        "get_detector": "detect",
        "read_image": "read",
    },
)
