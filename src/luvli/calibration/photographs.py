"""Which photographs a model was trained on, as a sorted list of 64-bit hashes of their names.

Calibration and audits on training faces are too optimistic. A hash of another photograph is in the
list by chance with a probability below 1e-14.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.network.model_info import ModelInfo

MAX_TRAINING_SHARE = 0.05
"""share of calibration faces that may be training faces"""


REPEATED_NAMES = ("cfp",)
"""data sets with a folder for each person, whose files have the same names: 01.jpg"""


@dataclass(frozen=True)
class TrainingPhotographs:
    """A set of names of photographs.

    >>> photographs = TrainingPhotographs.of(["a.jpg", "b.jpg"])
    >>> "a.jpg" in photographs, "z.jpg" in photographs
    (True, False)
    """

    hashes: NDArray[np.uint64]
    """ascending"""

    @classmethod
    def of(cls, names: Iterable[str]) -> TrainingPhotographs:
        return cls(np.unique(np.array([_hash(name) for name in names], dtype=np.uint64)))

    def __contains__(self, name: str) -> bool:
        value = np.uint64(_hash(name))
        place = int(np.searchsorted(self.hashes, value))
        return place < len(self.hashes) and bool(self.hashes[place] == value)

    def to_text(self) -> str:
        """For JSON: the gaps between the hashes, in as many bytes each as the largest needs, as
        base64 after that number."""
        gaps = np.diff(self.hashes, prepend=np.uint64(0))
        width = max(1, -(-int(gaps.max(initial=0)).bit_length() // 8))
        octets = gaps.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
        return f"{width}:{base64.b64encode(octets.tobytes()).decode()}"

    @classmethod
    def from_text(cls, text: str) -> TrainingPhotographs | None:
        """The inverse of `to_text`; None for "", which means that nothing is known."""
        if not text:
            return None
        try:
            width, _, coded = text.partition(":")
            octets = np.frombuffer(base64.b64decode(coded, validate=True), dtype=np.uint8)
            octets = octets.reshape(-1, int(width))
            gaps = np.pad(octets, ((0, 0), (0, 8 - int(width)))).view("<u8")[:, 0]
            return cls(np.cumsum(gaps, dtype=np.uint64))
        except ValueError as error:
            raise InputError(
                "the model's list of training photographs is damaged: calibrate it again."
            ) from error


def carried_photographs(info: ModelInfo) -> TrainingPhotographs | None:
    """The photographs that a model says it was trained on."""
    return TrainingPhotographs.from_text(
        "" if info.trust is None else info.trust.training_photographs
    )


def photograph_name(record: FaceRecord) -> str:
    """Data set and file name of a face's photograph."""
    repeated = record.image is None or record.dataset in REPEATED_NAMES
    name = record.face_id if repeated else Path(record.image or "").name
    return f"{record.dataset}/{name}"


def refuse_training_faces(
    records: Sequence[FaceRecord], photographs: TrainingPhotographs | None
) -> None:
    """Guarantees from faces that the model was trained on would not hold."""
    if photographs is None or not records:
        return
    trained = sum(photograph_name(record) in photographs for record in records)
    if trained > MAX_TRAINING_SHARE * len(records):
        raise InputError(
            f"{trained:,} of {len(records):,} faces are on photographs that the model was trained "
            "on: calibrate on held-out faces (--recipe takes those of the training)."
        )


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
