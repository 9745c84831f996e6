"""`Result`: the faces of one image, or of one frame of a video, on their way to a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from luvli.faces import FaceLandmarks

_FACES = b'"faces":['
"""Found nowhere else in a line: a quotation mark inside a name is written with a backslash."""


DIGITS = {"points": 3, "box": 3, "visibility": 4, "occlusion": 4, "score": 4,
          "confidence": 4, "expected_error": 4}  # fmt: skip
"""decimals that mean something: thousandths of a pixel, ten-thousandths of a probability"""
SIGNIFICANT = 6
"""digits of a covariance, which may be tiny or huge and stays positive-definite"""


def rounded(fields: dict[str, Any]) -> dict[str, Any]:
    """A face's fields without the digits that say nothing; a file is less than half as large.

    >>> rounded({"points": [[1.23456789, None]], "markup": "ibug68"})
    {'points': [[1.235, None]], 'markup': 'ibug68'}
    """
    short = {
        name: _round(value, DIGITS[name]) if name in DIGITS else value
        for name, value in fields.items()
    }
    if "covariance" in fields:
        short["covariance"] = _significant(fields["covariance"])
    return short


def _round(value: Any, digits: int) -> Any:
    if isinstance(value, list):
        return [_round(item, digits) for item in value]
    return value if value is None else round(value, digits)


def _significant(value: Any) -> Any:
    if isinstance(value, list):
        return [_significant(item) for item in value]
    return value if value is None else float(f"{value:.{SIGNIFICANT}g}")


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

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each face, for JSON."""
        about: dict[str, Any] = {"image": self.image}
        if self.frame is not None:
            about |= {"frame": self.frame, "time": self.time}
        tracks: tuple[int | None, ...] = self.tracks or (None,) * len(self.faces)
        return [
            about | ({} if track is None else {"track": track}) | rounded(face.to_dict())
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
