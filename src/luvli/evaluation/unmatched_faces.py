"""`UnmatchedFaces`: predictions or labels of many faces, before the two are matched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.formats.common import image_name
from luvli.data.formats.mediapipe import CAVEAT, MESH_SIZES, mesh_to_ibug68
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation.uncertainty import likelihood_name


@dataclass(frozen=True)
class UnmatchedFaces:
    """n faces with k landmarks; what is None or empty is not known."""

    source: str
    """the file, for messages"""
    points: Floats
    """(n, k, 2) pixels, NaN where there is no location"""
    names: tuple[str, ...] = ()
    covariance: Floats | None = None
    visibility: Floats | None = None
    classes: NDArray[np.int8] | None = None
    boxes: Floats | None = None
    box_kinds: tuple[str, ...] = ()
    paper_pixel: Floats | None = None
    images: tuple[str, ...] = ()
    image_ids: tuple[str, ...] = ()
    """COCO's numbers of images"""
    subsets: tuple[tuple[str, ...], ...] = ()
    box_size: Floats | None = None
    """(n,) AFLW-19's normaliser"""
    markup: str | None = None
    dataset: str = ""
    notes: tuple[str, ...] = ()
    likelihood: str | None = None
    """the density that the covariances belong to; None: nobody said"""


def arrays_of_records(records: Sequence[FaceRecord], source: str) -> UnmatchedFaces:
    """The faces of a label file or of a data set."""
    if not records:
        raise InputError(f"{source} has no faces: is it the right file?")
    sizes = {len(record.points) for record in records}
    if len(sizes) > 1:
        raise InputError(f"{source} mixes faces of {sorted(sizes)} points: score them one by one.")
    boxes = np.stack([np.full(4, np.nan) if r.box is None else r.box for r in records])
    lengths = [r.attributes.get("box_size") for r in records]
    covariances = [r.covariance for r in records]
    probabilities = [r.visibility_probability for r in records]
    return UnmatchedFaces(
        source,
        np.stack([record.points for record in records]),
        unique_names(r.face_id for r in records),
        covariance=_stacked(covariances),
        visibility=_stacked(probabilities),
        classes=np.stack([record.visibility for record in records]),
        boxes=None if np.isnan(boxes).any() else boxes,
        box_kinds=tuple(r.box_kind for r in records),
        images=tuple(map(image_name, records)),
        image_ids=tuple(str(r.attributes.get("image_id", "")) for r in records),
        subsets=tuple(tuple(r.attributes.get("subsets", ())) for r in records),
        box_size=None if None in lengths else np.array(lengths, dtype=np.float64),
        markup=records[0].markup,
        dataset=records[0].dataset if len({r.dataset for r in records}) == 1 else "",
        likelihood=one_likelihood(r.attributes.get("likelihood") for r in records),
    )


def _stacked(arrays: Sequence[Any]) -> Floats | None:
    return None if any(array is None for array in arrays) else np.stack(arrays)


def one_likelihood(names: Iterable[object]) -> str | None:
    """The density that all of them name; None, which stands for the Laplacian, where they differ
    or say nothing."""
    found = set(names)
    name = found.pop() if len(found) == 1 else None
    return None if not name else likelihood_name(str(name))


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, or none at all where one is missing or stands twice."""
    listed = tuple(names)
    return listed if all(listed) and len(set(listed)) == len(listed) else ()


def located(values: Any, path: Path) -> tuple[Floats, tuple[str, ...]]:
    """Points (n, k, 2) from (n, k, 2), (n, k, 3) or flat (n, 2k), and a note for each change."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] % 2 == 0:  # x0, y0, x1, y1, ...
        array = array.reshape(len(array), -1, 2)
    if array.ndim == 3 and array.shape[1] in MESH_SIZES and array.shape[2] in (2, 3):
        return mesh_to_ibug68(array), (CAVEAT,)
    if array.ndim != 3 or array.shape[2] != 2 or not len(array):
        raise InputError(f"{path}: points must have shape (n, k, 2), got {np.shape(values)}.")
    return array, ()
