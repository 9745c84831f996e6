"""Which photographs a model was trained on, as a sorted list of 64-bit hashes of their names.

Calibration and audits on training faces are too optimistic. A hash of another photograph is in the
list by chance with a probability below 1e-14.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.network.model_info import ModelInfo

MAX_TRAINING_SHARE = 0.05
"""share of calibration faces that may be training faces"""
REPEATED_NAMES = ("cfp",)
"""data sets with a folder for each person, whose files have the same names: 01.jpg"""


def photograph_name(record: FaceRecord) -> str:
    """Data set and file name of a face's photograph."""
    repeated = record.image is None or record.dataset in REPEATED_NAMES
    name = record.face_id if repeated else Path(record.image or "").name
    return f"{record.dataset}/{name}"


def training_photographs(info: ModelInfo) -> str:
    """The packed names that a model file carries; "" where nothing is known."""
    return "" if info.trust is None else info.trust.training_photographs


def are_packed(names: Iterable[str], packed: str) -> Bools:
    """Which of the names are among those of `pack_names`.

    >>> are_packed(["a.jpg", "z.jpg"], pack_names(["a.jpg", "b.jpg"])).tolist()
    [True, False]
    """
    return np.isin(_hashes(names), unpack_hashes(packed))


def pack_names(names: Iterable[str]) -> str:
    """For JSON: the gaps between the sorted hashes of the names, in as many bytes each as the
    largest needs, as base64 after that number."""
    gaps = np.diff(np.unique(_hashes(names)), prepend=np.uint64(0))
    width = max(1, -(-int(gaps.max(initial=0)).bit_length() // 8))
    octets = gaps.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    return f"{width}:{base64.b64encode(octets.tobytes()).decode()}"


def unpack_hashes(packed: str) -> NDArray[np.uint64]:
    """The hashes of `pack_names`, ascending; none for ""."""
    width, _, coded = (packed or "1:").partition(":")
    try:
        octets = np.frombuffer(base64.b64decode(coded, validate=True), dtype=np.uint8)
        octets = octets.reshape(-1, int(width))
        gaps = np.pad(octets, ((0, 0), (0, 8 - int(width)))).view("<u8")[:, 0]
    except ValueError as error:
        raise InputError(
            "the model's list of training photographs is damaged: calibrate it again."
        ) from error
    return np.cumsum(gaps, dtype=np.uint64)


def refuse_training_faces(records: Sequence[FaceRecord], packed: str) -> None:
    """Guarantees from faces that the model was trained on would not hold."""
    trained = int(are_packed(map(photograph_name, records), packed).sum())
    if trained > MAX_TRAINING_SHARE * len(records):
        raise InputError(
            f"{trained:,} of {len(records):,} faces are on photographs that the model was trained "
            "on: calibrate on held-out faces (--recipe takes those of the training)."
        )


def _hashes(names: Iterable[str]) -> NDArray[np.uint64]:
    digests = (hashlib.sha256(name.encode()).digest() for name in names)
    return np.array([int.from_bytes(digest[:8], "little") for digest in digests], dtype=np.uint64)
