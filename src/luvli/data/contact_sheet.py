"""A contact sheet of labelled faces, drawn as the paper's data-set figure.

Green: unoccluded. Red: externally occluded. Self-occluded landmarks have no location; they
are the black circles on the face schematic beside the image.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from luvli.data.boxes import crop_box
from luvli.data.dataset import CropDataset
from luvli.data.record import FaceRecord, Visibility
from luvli.drawing.schematic import draw_schematic
from luvli.errors import InputError
from luvli.image import Crop, read_image
from luvli.image.read import ImageArray
from luvli.markup import get_markup, is_markup

GREEN, RED = (0, 210, 0), (235, 20, 20)
ENLARGE = 1.35
CAPTION = 16
_SHIFT = 4  # OpenCV draws at 1/16 of a pixel


def choose(count: int, wanted: int, seed: int) -> list[int]:
    """Which of `count` faces to show: a random choice, in their order."""
    rng = np.random.default_rng(seed)
    return sorted(rng.permutation(count)[: min(wanted, count)].tolist())


def label_sheet(records: Sequence[FaceRecord], columns: int = 4, size: int = 220) -> ImageArray:
    """Faces as labelled, each cut out `ENLARGE` times its tight box, `size` pixels high.

    A record without image shows its landmarks on grey.
    """
    cells = []
    for record in records:
        box = crop_box(record.with_changes(box=None, box_kind="tight"), noise="none")
        crop = Crop.from_box(box, size, ENLARGE)
        grey = np.full((size, size, 3), 190, np.uint8)
        image = grey if record.image is None else crop.warp(read_image(record.image))
        shown = draw_landmarks(image, crop.to_crop(record.points), record.visibility)
        cells.append((shown, record.visibility, record.face_id))
    return _arrange(cells, records, columns, size)


def sample_sheet(
    dataset: CropDataset, indices: Sequence[int], columns: int = 4, epoch: int = 0
) -> ImageArray:
    """Faces as a network in training sees them, with their landmarks."""
    cells = []
    for index in indices:
        sample = dataset[epoch, index]
        shown = draw_landmarks(sample["image"], sample["points"], sample["visibility"])
        cells.append((shown, sample["visibility"], dataset.records[index].face_id))
    return _arrange(cells, [dataset.records[i] for i in indices], columns, dataset.size)


def draw_landmarks(
    image: ImageArray, points: NDArray[np.floating], visibility: NDArray[np.int8]
) -> ImageArray:
    """A copy with a dot for each located landmark (k, 2), in pixels of the image."""
    import cv2

    shown = image.copy()
    radius = max(1.5, image.shape[0] / 90)
    for (x, y), kind in zip(points.tolist(), visibility, strict=True):
        if kind <= Visibility.SELF_OCCLUDED:
            continue
        place = round(x * 2**_SHIFT), round(y * 2**_SHIFT)
        colour = RED if kind == Visibility.EXTERNALLY_OCCLUDED else GREEN
        cv2.circle(shown, place, round(radius * 2**_SHIFT), colour, -1, cv2.LINE_AA, _SHIFT)
    return shown


def _arrange(
    cells: Sequence[tuple[ImageArray, NDArray[np.int8], str]],
    records: Sequence[FaceRecord],
    columns: int,
    size: int,
) -> ImageArray:
    """Rows of cells; with schematics if any landmark of the sheet is self-occluded."""
    if not cells:
        raise InputError("there are no faces to show.")
    markup = records[0].markup
    hiding = any((visibility == Visibility.SELF_OCCLUDED).any() for _, visibility, _ in cells)
    schematics = hiding and is_markup(markup)
    drawn = []
    for image, visibility, name in cells:
        parts = [image]
        if schematics:
            hidden = np.flatnonzero(visibility == Visibility.SELF_OCCLUDED).tolist()
            parts.append(draw_schematic(get_markup(markup), size, numbers=False, hidden=hidden))
        drawn.append(_captioned(np.concatenate(parts, axis=1), name))
    gap = 6
    height, width = drawn[0].shape[:2]
    rows = -(-len(drawn) // columns)
    sheet = np.full((rows * (height + gap) + gap, columns * (width + gap) + gap, 3), 255, np.uint8)
    for number, cell in enumerate(drawn):
        top = gap + (number // columns) * (height + gap)
        left = gap + (number % columns) * (width + gap)
        sheet[top : top + height, left : left + width] = cell
    return sheet


def _captioned(cell: ImageArray, name: str) -> ImageArray:
    import cv2

    strip = np.full((CAPTION, cell.shape[1], 3), 255, np.uint8)
    room = max(8, cell.shape[1] // 6)
    text = name if len(name) <= room else "..." + name[-(room - 3) :]
    cv2.putText(strip, text, (2, 11), cv2.FONT_HERSHEY_SIMPLEX, 0.34, (60, 60, 60), 1, cv2.LINE_AA)
    return np.concatenate([cell, strip])
