"""Labelled faces: records, file formats, data sets, augmentation, synthetic faces."""

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
