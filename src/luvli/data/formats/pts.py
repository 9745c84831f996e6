"""The `.pts` format of iBUG, 300-W and MERL-RAV: one face, coordinates counted from 1.

MERL-RAV adds visibility by signs: both coordinates negative mean externally occluded, and
the pair -1 -1 means self-occluded (no location). Files without such signs read as wholly
unoccluded. The signed format cannot hold unlabelled landmarks, nor an externally occluded one
left of or above the image, whose coordinate is negative by itself. Files without header and
braces, a pair of numbers on each line, are read too.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.data.formats.common import warn_lost
from luvli.data.record import LabelledPoints, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, read_text, write_text

FIRST_PIXEL = 1.0
"""What the file calls the centre of the first pixel."""


def read_pts(path: PathLike, points: int | None = None, signed: bool = True) -> LabelledPoints:
    """Read one face.

    `points`: the count the file must have (any if None). `signed`: whether a pair of
    negative coordinates means occlusion, as in MERL-RAV, or (False) a place left of and
    above the image, as in 300-W. One negative coordinate alone is always a place.
    """
    source = Path(path)
    raw = _parse(read_text(source), source)
    if points is not None and len(raw) != points:
        raise InputError(f"{source} has {len(raw)} points: {points} are needed here.")
    return decode_pts(raw, source, signed=signed)


def decode_pts(raw: Floats, source: PathLike, *, signed: bool = True) -> LabelledPoints:
    """What the numbers (k, 2) of a .pts file mean; also of lists that hold such numbers."""
    negative = (raw < 0).all(axis=1) & signed
    hidden = negative & (raw == -1).all(axis=1)
    external = negative & ~hidden
    if hidden.all():
        raise InputError(f"{source} has no visible landmark: leave it out or label it again.")
    places = np.where(external[:, None], -raw, raw) - FIRST_PIXEL
    places[hidden] = np.nan
    classes = np.full(len(raw), Visibility.UNOCCLUDED, np.int8)
    classes[external] = Visibility.EXTERNALLY_OCCLUDED
    classes[hidden] = Visibility.SELF_OCCLUDED
    return LabelledPoints(places, classes)


def write_pts(path: PathLike, points: ArrayLike, visibility: ArrayLike | None = None) -> None:
    """Write one face, whole or not at all, with MERL-RAV's signs where `visibility` needs them.

    `points` (k, 2) image pixels, first pixel centre (0, 0); `visibility` (k,) classes, all
    unoccluded when None. Coordinates keep ten significant digits at least.
    """
    places = np.array(points, dtype=np.float64) + FIRST_PIXEL
    unoccluded = np.full(len(places), Visibility.UNOCCLUDED)
    classes = unoccluded if visibility is None else np.asarray(visibility, dtype=np.int64)
    located = classes > Visibility.SELF_OCCLUDED
    if not np.isfinite(places[located]).all():
        raise InputError(f"{path} was not written: a visible landmark has no location.")
    external = classes == Visibility.EXTERNALLY_OCCLUDED
    outside = external & ~(places > 0).all(axis=1)
    cannot = ".pts cannot say that a landmark"
    if (classes == Visibility.UNLABELLED).any():
        warn_lost(path, f"{cannot} is unlabelled; it is written as self-occluded.")
    if outside.any():
        what = "outside the image is externally occluded; it is written as unoccluded."
        warn_lost(path, f"{cannot} {what}")
    places[external & (places == 1).all(axis=1)] += 1e-6  # -1 -1 would mean self-occluded
    places[external & ~outside] *= -1
    places[~located] = -1
    rows = "\n".join(
        " ".join(np.format_float_positional(value, trim="0") for value in place) for place in places
    )
    write_text(path, f"version: 1\nn_points: {len(places)}\n{{\n{rows}\n}}\n")


def _parse(text: str, source: Path) -> Floats:
    """The numbers between the braces, as they stand in the file, (k, 2)."""
    head, opened, rest = text.partition("{")
    body, closed, _ = rest.partition("}")
    if not opened and not closed and ":" not in text:
        head, body = "", text  # header and braces are left out by some programs
    elif not opened or not closed:
        raise InputError(f"{source} has no {{ }} around its points: it is not a .pts file.")
    rows = [line.split() for line in body.splitlines() if line.strip()]
    if not rows:
        raise InputError(f"{source} has no points between its braces: label it again.")
    try:
        values = np.array([[float(word) for word in row] for row in rows])
    except ValueError:  # words, or rows of different lengths
        values = np.empty(0)
    if values.ndim != 2 or values.shape[1] != 2:
        raise InputError(f"{source} has a row that is not two numbers: mend that row.")
    if not np.isfinite(values).all():
        row = int(np.argmax(~np.isfinite(values).all(axis=1))) + 1
        raise InputError(f"{source} has NaN or infinity in row {row}: mend that row.")
    promised = re.search(r"^\s*n_points\s*:(.*)$", head, re.MULTILINE | re.IGNORECASE)
    if promised and promised[1].strip() != str(len(values)):
        raise InputError(
            f"{source} says n_points: {promised[1].strip()[:20]} but has {len(values)} rows: "
            "add the missing rows or correct the header."
        )
    return values
