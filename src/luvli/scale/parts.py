"""A part: so much of a source as is read, predicted and written in one go.

Its output file is named after it. What a part holds never changes once it was planned, so
that doing it twice, on any machine, gives the same file.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

PartKind = Literal["files", "parquet", "tar", "video"]

CHUNK = 1000
"""parts whose plan is one file and whose outputs are one folder"""


@dataclass(frozen=True)
class Part:
    """What one row of the pipeline works on."""

    number: int
    """place in the plan, from 0"""
    kind: PartKind
    place: str
    """the Parquet file, tar or video; of single files, the first one"""
    count: int
    """images or frames in it: rows that must come out"""
    items: list[Any] = field(default_factory=list)
    """files: [place]; tar: [name, offset, size] of each image; else empty"""
    about: dict[str, Any] = field(default_factory=dict)
    """parquet: row_group, image, name; video: segment, segments, start, end, first_frame,
    start_time (ticks of the stream, but for start_time in seconds), or error"""

    @property
    def chunk(self) -> int:
        """The plan file that it stands in."""
        return self.number // CHUNK

    @property
    def output(self) -> str:
        """Where its results go, inside the target.

        >>> Part(1002, "tar", "s3://b/train-17.tar", 9).output
        'part-00001/0001002-train-17.parquet'
        """
        stem = self.place.split("?")[0].rstrip("/").rpartition("/")[2]
        stem = re.sub(r"[^\w.-]+", "_", stem.rpartition(".")[0] or stem).strip("._")[:60] or "part"
        group = self.about.get("row_group", self.about.get("segment"))
        tail = "" if group is None else f"-{group:04d}"
        return f"part-{self.chunk:05d}/{self.number:07d}-{stem}{tail}.parquet"

    def name_of(self, index: int) -> str:
        """The image's name, for messages when it cannot be read at all."""
        if self.kind == "files":
            return str(self.items[index])
        if self.kind == "tar":
            return f"{self.place}#{self.items[index][0]}"
        if self.kind == "video":
            return self.place
        return f"{self.place}#{self.about['first_row'] + index}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Part:
        return cls(**json.loads(text))
