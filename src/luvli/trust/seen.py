"""Which photographs a model was trained on: a Bloom filter small enough for a model's metadata.

Calibration and audits on training faces promise too much. The filter knows for every
photograph's name whether it was trained on: "no" is certain, "yes" is wrong once in a hundred
times.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from luvli.data.record import FaceRecord
from luvli.errors import InputError

BITS_PER_NAME = 10
HASHES = 7
"""with ten bits for each name, seven hashes err least: 0.8 %"""


@dataclass(frozen=True)
class Seen:
    """A set of names that answers "is it in there?", and nothing else.

    >>> seen = Seen.of(["a.jpg", "b.jpg"])
    >>> "a.jpg" in seen, "z.jpg" in seen
    (True, False)
    """

    bits: bytes

    @classmethod
    def of(cls, names: Iterable[str]) -> Seen:
        """The filter of these names."""
        known = sorted(set(names))
        bits = bytearray(max(16, -(-BITS_PER_NAME * len(known) // 8)))
        for name in known:
            for place in _places(name, len(bits) * 8):
                bits[place // 8] |= 1 << place % 8
        return cls(bytes(bits))

    def __contains__(self, name: str) -> bool:
        return all(
            self.bits[place // 8] >> place % 8 & 1 for place in _places(name, len(self.bits) * 8)
        )

    def to_text(self) -> str:
        """Base64, for JSON."""
        return base64.b64encode(zlib.compress(self.bits, 9)).decode()

    @classmethod
    def from_text(cls, text: str) -> Seen | None:
        """The inverse of `to_text`; None for "", which means that nothing is known."""
        if not text:
            return None
        try:
            return cls(zlib.decompress(base64.b64decode(text, validate=True)))
        except (zlib.error, binascii.Error) as error:
            raise InputError(
                "the model's list of training photographs is damaged: calibrate it again."
            ) from error


def photograph_name(record: FaceRecord) -> str:
    """What a face's photograph is called in the filter: data set and file name."""
    name = record.image.name if record.image is not None else record.face_id
    return f"{record.dataset}/{name}"


def _places(name: str, size: int) -> list[int]:
    digest = hashlib.sha256(name.encode()).digest()
    first, second = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big") | 1
    return [(first + i * second) % size for i in range(HASHES)]
