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
from luvli.image.detect import DETECTORS, Detector, get_detector
from luvli.image.match import best_match
from luvli.image.read import read_image
from luvli.progress import track


def with_detector_boxes(
    records: Sequence[FaceRecord], cache: Path, detector: str = "yunet", skip_bad: bool = False
) -> list[FaceRecord]:
    """The faces that the detector finds, with its boxes; a warning counts the others.

    A face without labels is the largest one of its image. Images are searched once; the boxes
    are kept in the cache folder. `skip_bad`: leave out images that cannot be read, with a
    warning that names the first.
    """
    boxes = _boxes_of_images(records, cache, detector, skip_bad)
    records = [record for record in records if str(record.image) in boxes]
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
    records: Sequence[FaceRecord], cache: Path, detector: str, skip_bad: bool
) -> dict[str, list[Box]]:
    """Image -> boxes; without those that cannot be read, which are `null` in the file."""
    images = list(dict.fromkeys(str(record.image) for record in records if record.image))
    about = "\n".join([DETECTORS[detector], *(file_state(Path(image)) for image in images)])
    key = hashlib.sha256(about.encode()).hexdigest()[:24]
    path = cache / f"boxes-{key}.json"
    if not path.is_file():
        find = get_detector(detector)
        found = {
            image: _found(image, find, skip_bad)
            for image in track(images, "detecting faces", unit="images")
        }
        write_text(path, json.dumps(found))
    # by their order, not their paths: the same files may be reached by another way
    kept = list(zip(images, json.loads(read_text(path)).values(), strict=True))
    bad = [image for image, boxes in kept if boxes is None]
    if bad:
        _tell_bad(bad, skip_bad)
    return {
        image: [Box(*np.array(numbers, dtype=float)) for numbers in boxes]
        for image, boxes in kept
        if boxes is not None
    }


def _found(image: str, find: Detector, skip_bad: bool) -> list[list[float]] | None:
    try:
        return [[*box, box.score] for box in detect_faces(image, detector=find)]
    except InputError as error:
        if skip_bad:
            return None
        raise InputError(f"{error} Or leave it out with --skip-bad.") from error


def _tell_bad(images: Sequence[str], skip_bad: bool) -> None:
    """A warning, or an error, for images that could not be read; the first one says why."""
    try:
        read_image(images[0])
        why = f"{images[0]} could not be read before."
    except InputError as error:
        why = str(error)
    if not skip_bad:
        raise InputError(f"{why} Or leave it out with --skip-bad.")
    warnings.warn(
        f"{len(images):,} images cannot be read and are left out; the first: {why}",
        DataWarning,
        stacklevel=4,
    )
