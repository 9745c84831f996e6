"""From a file to a face crop: reading, boxes, detection, cropping."""

from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.detect import Detector, detect_faces, get_detector
from luvli.image.read import read_image

__all__ = ["Box", "Crop", "Detector", "detect_faces", "get_detector", "read_image"]
