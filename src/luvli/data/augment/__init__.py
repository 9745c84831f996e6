"""Random changes of training faces, each reproducible from (seed, epoch, face).

    config = Augmentation.recipe("B").model_copy(update={"flip": 0.5})
    rng = stream(seed=0, epoch=3, index=17)

All geometry is one affine, so an image is resampled once (`geometry`); occluders (`occluders`) and
colours (`photometric`) follow on the finished crop.
"""

from luvli.data.augment.config import Augmentation, BoxJitter, Rectangle, Turned
from luvli.data.augment.geometry import stream

__all__ = ["Augmentation", "BoxJitter", "Rectangle", "Turned", "stream"]
