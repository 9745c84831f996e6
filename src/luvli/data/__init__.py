"""Labelled faces: records, file formats, data sets, augmentation, synthetic faces."""

from typing import TYPE_CHECKING

from luvli._lazy import lazy

if TYPE_CHECKING:
    from luvli.data.augment import Augmentation
    from luvli.data.boxes import crop_box
    from luvli.data.dataset import CropDataset, collate
    from luvli.data.record import FaceRecord, LabelledPoints, Visibility
    from luvli.data.sets import SETS, FaceSet, Problem, load_set

__all__ = [
    "SETS",
    "Augmentation",
    "CropDataset",
    "FaceRecord",
    "FaceSet",
    "LabelledPoints",
    "Problem",
    "Visibility",
    "collate",
    "crop_box",
    "load_set",
]

__getattr__ = lazy(
    __name__,
    {
        "Augmentation": "augment",
        "crop_box": "boxes",
        **dict.fromkeys(("CropDataset", "collate"), "dataset"),
        **dict.fromkeys(("FaceRecord", "LabelledPoints", "Visibility"), "record"),
        **dict.fromkeys(("SETS", "FaceSet", "Problem", "load_set"), "sets"),
    },
)
