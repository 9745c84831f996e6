"""Training faces with the boxes of our own detector, as prediction will have them."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from luvli.data.cache import file_state
from luvli.data.record import FaceRecord
from luvli.data.sets import DataWarning
from luvli.errors import InputError
from luvli.files import read_text, write_text
from luvli.image import Box, detect_faces
from luvli.image.detect import DETECTORS, get_detector
from luvli.image.match import best_match
from luvli.progress import track


def with_detector_boxes(
    records: Sequence[FaceRecord], cache: Path, detector: str = "yunet"
) -> list[FaceRecord]:
    """The faces that the detector finds, with its boxes; a warning counts the others.

    A face without labels is the largest one of its image. Images are searched once; the boxes
    are kept in the cache folder.
    """
    boxes = _boxes_of_images(records, cache, detector)
    found = []
    for record in records:
        box = None
        seen = boxes[str(record.image)]
        if record.visible.any():
            box = best_match(Box(*record.tight_box), seen)
        elif not record.labelled.any() and seen:
            box = max(seen, key=lambda found: found.width * found.height)
        if box is not None:
            found.append(record.with_changes(box=box.array, box_kind="detector", score=box.score))
    if not found:
        raise InputError(
            "the detector finds none of the training faces: set boxes: labels for this source."
        )
    if len(found) < len(records):
        warnings.warn(
            f"the detector does not find {len(records) - len(found):,} of {len(records):,} faces: "
            "they are left out.",
            DataWarning,
            stacklevel=2,
        )
    return found


def _boxes_of_images(
    records: Sequence[FaceRecord], cache: Path, detector: str
) -> dict[str, list[Box]]:
    images = list(dict.fromkeys(str(record.image) for record in records if record.image))
    about = "\n".join([DETECTORS[detector], *(file_state(Path(image)) for image in images)])
    key = hashlib.sha256(about.encode()).hexdigest()[:24]
    path = cache / f"boxes-{key}.json"
    if not path.is_file():
        find = get_detector(detector)
        found = {
            image: [[*box, box.score] for box in detect_faces(image, detector=find)]
            for image in track(images, "detecting faces", unit="images")
        }
        write_text(path, json.dumps(found))
    # by their order, not their paths: the same files may be reached by another way
    kept = json.loads(read_text(path)).values()
    return {
        image: [Box(*np.array(numbers, dtype=float)) for numbers in boxes]
        for image, boxes in zip(images, kept, strict=True)
    }
