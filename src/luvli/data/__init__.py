"""Labelled faces: records, file formats, data sets, augmentation, synthetic faces."""

from luvli.data.record import FaceRecord, LabelledPoints, Visibility

__all__ = ["FaceRecord", "LabelledPoints", "Visibility"]
