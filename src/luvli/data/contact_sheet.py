"""A data set as a picture: labelled faces as in the paper's figure, and its statistics.

Green: unoccluded. Red: externally occluded. Self-occluded landmarks have no location; they
are the black circles on the face schematic beside the image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from luvli.arrays import Floats
from luvli.data.dataset import CropDataset
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets import subsets_of
from luvli.drawing.schematic import draw_schematic
from luvli.drawing.sheet import captioned, contact_sheet
from luvli.errors import InputError, require
from luvli.image import Box, Crop, read_image
from luvli.image.align import similarity
from luvli.image.read import ImageArray
from luvli.markup import get_markup, is_markup
from luvli.measures.head_pose import PoseClass, pose_classes

_GREEN, _RED = (0, 210, 0), (235, 20, 20)
_SHIFT = 4  # OpenCV draws at 1/16 of a pixel
_CLASSES = {
    Visibility.UNOCCLUDED: ("unoccluded", "#00b400"),
    Visibility.EXTERNALLY_OCCLUDED: ("externally occluded", "#eb1414"),
    Visibility.SELF_OCCLUDED: ("self-occluded", "black"),
    Visibility.UNLABELLED: ("unlabelled", "0.85"),
}
"""names and colours in the statistics"""


def label_sheet(records: Sequence[FaceRecord], columns: int = 4, size: int = 220) -> ImageArray:
    """Faces as labelled, each cut out 1.35 times its tight box, `size` pixels high.

    A record without image shows its landmarks on grey.
    """
    crops = [Crop.from_box(Box(*record.tight_box), size, 1.35) for record in records]
    grey = np.full((size, size, 3), 190, np.uint8)
    images = [
        grey if record.image is None else crop.warp(read_image(record.image))
        for crop, record in zip(crops, records, strict=True)
    ]
    cut = [
        record.with_changes(points=crop.to_crop(record.points))
        for crop, record in zip(crops, records, strict=True)
    ]
    return _sheet(images, cut, columns)


def sample_sheet(
    dataset: CropDataset, indices: Sequence[int], columns: int = 4, epoch: int = 0
) -> ImageArray:
    """Faces as a network in training sees them, with their landmarks."""
    samples = [dataset[epoch, index] for index in indices]
    cut = [
        dataset.records[i].with_changes(points=sample["points"], visibility=sample["visibility"])
        for i, sample in zip(indices, samples, strict=True)
    ]
    return _sheet([sample["image"] for sample in samples], cut, columns)


def _sheet(images: Sequence[ImageArray], records: Sequence[FaceRecord], columns: int) -> ImageArray:
    """Rows of crops with their labels in crop pixels; with schematics if any landmark of the sheet
    is self-occluded."""
    hidden = [record.visibility == Visibility.SELF_OCCLUDED for record in records]
    cells = []
    for image, record, gone in zip(images, records, hidden, strict=True):
        cell = draw_landmarks(image, record)
        if np.concatenate(hidden).any() and is_markup(record.markup):
            markup, numbers = get_markup(record.markup), np.flatnonzero(gone).tolist()
            beside = draw_schematic(markup, len(cell), numbers=False, hidden=numbers)
            cell = np.concatenate([cell, beside], axis=1)
        cells.append(captioned(cell, record.face_id))
    return contact_sheet(cells, columns, gap=6)


def draw_landmarks(image: ImageArray, record: FaceRecord) -> ImageArray:
    """A copy with a dot for each located landmark, in pixels of the image."""
    import cv2

    drawn = image.copy()
    radius = round(max(1.5, image.shape[0] / 90) * 2**_SHIFT)
    for j in np.flatnonzero(record.visible):
        x, y = np.rint(record.points[j] * 2**_SHIFT).astype(int).tolist()
        external = record.visibility[j] == Visibility.EXTERNALLY_OCCLUDED
        colour = _RED if external else _GREEN
        cv2.circle(drawn, (x, y), radius, colour, -1, cv2.LINE_AA, _SHIFT)
    return drawn


def mean_shape(records: Sequence[FaceRecord]) -> Floats:
    """(k, 2) the mean of the located landmarks of faces that are turned, scaled and moved onto the
    markup's schematic; NaN for a landmark that nobody has labelled."""
    schematic = get_markup(records[0].markup).schematic
    shapes = np.full((len(records), *schematic.shape), np.nan)
    for i, record in enumerate(records):
        if record.visible.sum() >= 2:
            way = similarity(record.points[record.visible], schematic[record.visible])
            shapes[i] = record.points @ way[:, :2].T + way[:, 2]
    count = np.isfinite(shapes).sum(axis=0)
    return np.where(count > 0, np.nansum(shapes, axis=0) / np.maximum(count, 1), np.nan)


def draw_statistics(records: Sequence[FaceRecord], title: str = "") -> ImageArray:
    """Pose, size and visibility of the faces, and their mean shape, in one picture."""
    if not records or not is_markup(records[0].markup):
        raise InputError("statistics need faces of a known markup.")
    require("matplotlib", "evaluate")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4), dpi=100, layout="constrained")
    figure.suptitle(f"{title.replace('$', '')}: {len(records):,} faces")
    for draw, axes in zip(
        (_poses, _sizes, _visibility, _shape), figure.subplots(1, 4), strict=True
    ):
        draw(axes, records)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba(), np.uint8)[:, :, :3].copy()


def _poses(axes: Any, records: Sequence[FaceRecord]) -> None:
    counts = Counter(map(_pose, records))
    names = [name for name in get_args(PoseClass) if counts[name]]
    axes.bar_label(axes.bar(names, [counts[name] for name in names], color="0.6"), fmt="{:,.0f}")
    axes.margins(y=0.1)
    axes.set(title="pose", ylabel="faces")


def _sizes(axes: Any, records: Sequence[FaceRecord]) -> None:
    boxes = np.array([record.tight_box for record in records])
    sizes = np.sqrt(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
    axes.hist(sizes[np.isfinite(sizes)], bins=30, color="0.6")
    axes.set(title="size of the tight box", xlabel="pixels", ylabel="faces")


def _visibility(axes: Any, records: Sequence[FaceRecord]) -> None:
    classes = np.stack([record.visibility for record in records])
    markup = get_markup(records[0].markup)
    groups = {name: list(numbers) for name, numbers in markup.groups.items() if numbers}
    left = np.zeros(len(groups))
    for kind, (name, colour) in _CLASSES.items():
        shares = np.array([(classes[:, numbers] == kind).mean() for numbers in groups.values()])
        label = f"{name} {(classes == kind).mean():.1%}"
        axes.barh(list(groups), shares, left=left, color=colour, label=label)
        left += shares
    axes.invert_yaxis()
    axes.set(title="visibility of the landmarks", xlim=(0, 1))
    axes.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.08))


def _shape(axes: Any, records: Sequence[FaceRecord]) -> None:
    visible = np.mean([record.visible for record in records], axis=0)
    dots = axes.scatter(*mean_shape(records).T, c=visible, vmin=0, vmax=1, s=20)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title("mean shape")
    axes.figure.colorbar(dots, ax=axes, label="share of the faces with v = 1")


def _pose(record: FaceRecord) -> str:
    """The class that the data set names, or the one that follows from the 68 points."""
    for name in get_args(PoseClass):
        if name in subsets_of(record):
            return str(name)
    return str(pose_classes(record.points)) if record.markup == "ibug68" else "unknown"
