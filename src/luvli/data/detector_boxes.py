"""Training faces with the boxes of our own detector, as prediction will have them."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

from luvli.data.cache import file_state
from luvli.data.record import FaceRecord
from luvli.data.sets import DataWarning
from luvli.errors import InputError
from luvli.files import read_text, write_text
from luvli.image import Box, detect_faces
from luvli.image.box import best_match
from luvli.image.detect import DETECTORS, get_detector
from luvli.progress import track


def with_detector_boxes(
    records: Sequence[FaceRecord], cache: Path, detector: str = "yunet", skip_bad: bool = False
) -> list[FaceRecord]:
    """The faces that the detector finds, with its boxes; a warning counts the others.

    A face without labels is the largest one of its image. Images are searched once; the boxes
    are kept in the cache folder. `skip_bad`: leave out images that cannot be read, with a
    warning that names the first.
    """
    images = list(dict.fromkeys(str(record.image) for record in records if record.image))
    searched = dict(zip(images, _search(images, cache, detector, skip_bad), strict=True))
    problems = [boxes for boxes in searched.values() if isinstance(boxes, str)]
    if problems and not skip_bad:
        raise InputError(f"{problems[0]} Or leave it out with --skip-bad.")
    if problems:
        _warn(f"{len(problems):,} images cannot be read and are left out; the first: {problems[0]}")
    detected, missing = [], 0
    for record in records:
        rows = searched.get(str(record.image), "")
        if isinstance(rows, str):
            continue
        if box := _box_of(record, [Box(*map(float, row)) for row in rows]):
            detected.append(
                record.with_changes(box=box.array, box_kind="detector", score=box.score)
            )
        else:
            missing += 1
    if not detected:
        raise InputError(
            "the detector finds none of the training faces: set boxes: labels for this source."
        )
    if missing:
        count = missing + len(detected)
        _warn(f"the detector does not find {missing:,} of {count:,} faces: they are left out.")
    return detected


def _box_of(record: FaceRecord, boxes: Sequence[Box]) -> Box | None:
    """The box of a face; without labels the largest one, and none if all are self-occluded."""
    if record.visible.any():
        return best_match(Box(*record.tight_box), boxes)
    whole = [] if record.labelled.any() else boxes
    return max(whole, key=lambda box: box.width * box.height, default=None)


def _search(
    images: Sequence[str], cache: Path, detector: str, skip_bad: bool
) -> list[list[list[float]] | str]:
    """The boxes of each image, or the sentence that says why it cannot be read; kept in a file.

    The file goes by the images' order, not their paths: they may be reached by another way.
    """
    about = "\n".join(["2", DETECTORS[detector], *(file_state(Path(image)) for image in images)])
    path = cache / f"boxes-{hashlib.sha256(about.encode()).hexdigest()[:24]}.json"
    if not path.is_file():
        find = get_detector(detector)
        rows: list[list[list[float]] | str] = []
        for image in track(images, "detecting faces", unit="images"):
            try:
                rows.append([[*box, box.score] for box in detect_faces(image, detector=find)])
            except InputError as error:
                if not skip_bad:
                    raise InputError(f"{error} Or leave it out with --skip-bad.") from error
                rows.append(str(error))
        write_text(path, json.dumps(rows))
    kept: list[list[list[float]] | str] = json.loads(read_text(path))
    return kept


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=3)
