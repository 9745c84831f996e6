"""`Result`: the faces of one image, or of one frame of a video, on their way to a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.faces import ARRAY_FIELDS, FaceLandmarks
from luvli.prediction.tracking import TrackedFrame

_FACES = b'"faces":['
"""Found nowhere else in a line: a quotation mark inside a name is written with a backslash."""


DIGITS = {"points": 3, "box": 3, "visibility": 4, "occlusion": 4, "score": 4,
          "confidence": 4, "expected_error": 4}  # fmt: skip
"""decimals that mean something: thousandths of a pixel, ten-thousandths of a probability"""
SIGNIFICANT = 6
"""digits of a covariance, which may be tiny or huge and stays positive-definite"""


def rounded(face: FaceLandmarks) -> dict[str, Any]:
    """A face's fields without the digits that say nothing; a file is less than half as large.

    Arrays are rounded as arrays: one by one, 480 numbers take a tenth of the network's time.
    """
    arrays: dict[str, Any] = {
        name: np.round(getattr(face, name), digits)
        for name, digits in DIGITS.items()
        if name in ARRAY_FIELDS
    }
    arrays["covariance"] = significant(face.covariance)
    fields = replace(face, **arrays).to_dict()
    for name in NUMBERS:
        if name in fields:
            fields[name] = round(fields[name], DIGITS[name])
    return fields


def significant(values: NDArray[np.float64], digits: int = SIGNIFICANT) -> NDArray[np.float64]:
    """Numbers with so many digits from the first that is not 0, as f"{value:.6g}" writes them.

    >>> significant(np.array([123.456789, -0.00123456789, 0.0, np.nan])).tolist()
    [123.457, -0.00123457, 0.0, nan]
    """
    size = np.abs(values)
    usual = (size > 1e-280) & (size < 1e280)  # of others the powers below overflow
    place = np.floor(np.log10(size, out=np.zeros_like(size), where=usual)).astype(np.int64)
    power = digits - 1 - place
    # an integer divided by, or times, an exact power of ten is the double next to the decimal
    grow, shrink = _TEN[np.clip(power, 0, 300)], _TEN[np.clip(-power, 0, 300)]
    return np.where(usual, np.rint(values * grow / shrink) / grow * shrink, values)


_TEN = np.array([float(f"1e{power}") for power in range(301)])
NUMBERS = ("score", "confidence", "expected_error")


@dataclass(frozen=True)
class Result:
    """What was found in one image or frame."""

    image: str
    """the image's or video's path, as the user gave it"""
    faces: tuple[FaceLandmarks, ...]
    frame: int | None = None
    """number of the frame, from 0; None for images"""
    time: float | None = None
    """seconds from the start of the video"""
    tracks: tuple[int, ...] = ()
    """which face it is, the same number as long as it is followed; () for images"""

    @classmethod
    def of_frame(cls, name: str, item: TrackedFrame) -> Result:
        """The faces of a frame of the video called `name`."""
        faces = item.faces
        tracks = () if faces.track is None else tuple(faces.track.tolist())
        plain = tuple(replace(face, track=None, time=None) for face in faces)
        return cls(name, plain, item.frame.number, item.frame.time, tracks)

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each face, for JSON."""
        about: dict[str, Any] = {"image": self.image}
        if self.frame is not None:
            about |= {"frame": self.frame, "time": self.time}
        tracks: tuple[int | None, ...] = self.tracks or (None,) * len(self.faces)
        return [
            about | ({} if track is None else {"track": track}) | rounded(face)
            for face, track in zip(self.faces, tracks, strict=True)
        ]

    def to_line(self) -> str:
        """One line of JSON; the faces, at its end, as they stand in the result file."""
        fields = {
            "image": self.image,
            "frame": self.frame,
            "time": self.time,
            "tracks": self.tracks,
            "faces": self.rows(),
        }
        return json.dumps(fields, separators=(",", ":"), allow_nan=False)

    @staticmethod
    def faces_text(line: bytes) -> bytes:
        """The rows of `to_line`'s answer, separated by commas, without reading them."""
        start = line.find(_FACES)
        return line[start + len(_FACES) : line.rindex(b"]")] if start >= 0 else b""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Result:
        """The inverse of `to_line`, after parsing."""
        return cls(
            image=fields["image"],
            faces=tuple(FaceLandmarks.from_dict(face) for face in fields["faces"]),
            frame=fields.get("frame"),
            time=fields.get("time"),
            tracks=tuple(fields.get("tracks", ())),
        )
