"""Track numbers that stay the same from one segment of a video to the next.

Segments are followed apart, each from number 1 on. Faces of a segment's first frame that lie
where faces of the last frame before lay get their numbers; all others get new ones. What a
file's numbers were is kept in its metadata, so that a join that was interrupted goes on.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from luvli.errors import require
from luvli.image.box import Box
from luvli.scale.parts import Part
from luvli.scale.places import join, open_place, write_whole
from luvli.scale.plan import Plan, read_chunk

JOINED = b"luvli.tracks"
"""metadata: number in the segment -> number in the video"""
LEAST = 0.3
"""overlap (intersection over union) of two boxes of one face in neighbouring frames, at least"""


def join_tracks(target: str, plan: Plan) -> int:
    """Number the tracks of all videos of several segments through -> files that changed."""
    changed = 0
    last: list[tuple[int, Box]] = []
    highest = 0
    for chunk in range(plan.chunks):
        for part in read_chunk(target, chunk):
            if part.kind != "video" or part.about["segments"] == 1:
                continue
            if part.about["segment"] == 0:
                last, highest = [], 0
            rewritten, last, highest = _join(target, part, last, highest)
            changed += rewritten
    return changed


def _join(
    target: str, part: Part, last: list[tuple[int, Box]], highest: int
) -> tuple[bool, list[tuple[int, Box]], int]:
    """One segment -> whether it was written, the faces of its last frame, the highest number."""
    parquet = require("pyarrow.parquet", "scale")
    place = join(target, part.output)
    files, path = open_place(place)
    table = parquet.read_table(path, filesystem=files)
    about = table.schema.metadata or {}
    rewritten = JOINED not in about
    if rewritten:
        numbers = match_tracks(table, last, highest)
        table = _renumbered(table, numbers)
        content = io.BytesIO()
        parquet.write_table(table, content, compression="zstd")
        write_whole(place, content.getvalue())
    tracks = [track for track in table["track"].to_pylist() if track is not None]
    frames = [frame for frame in table["frame"].to_pylist() if frame is not None]
    ends = _boxes(table, max(frames)) if frames else last
    return rewritten, ends, max([highest, *tracks])


def match_tracks(table: Any, last: list[tuple[int, Box]], highest: int) -> dict[int, int]:
    """Number in the segment -> number in the video, for every track of a segment."""
    tracks = sorted({track for track in table["track"].to_pylist() if track is not None})
    frames = [frame for frame in table["frame"].to_pylist() if frame is not None]
    first = _boxes(table, min(frames)) if frames else []
    pairs = sorted(
        ((old.iou(new), before, now) for before, old in last for now, new in first), reverse=True
    )
    numbers: dict[int, int] = {}
    for overlap, before, now in pairs:
        if overlap >= LEAST and now not in numbers and before not in numbers.values():
            numbers[now] = before
    for track in tracks:
        if track not in numbers:
            highest += 1
            numbers[track] = highest
    return numbers


def _boxes(table: Any, frame: int) -> list[tuple[int, Box]]:
    """Track and tight box of each face of one frame."""
    compute = require("pyarrow.compute", "scale")
    rows = table.filter(compute.equal(table["frame"], frame)).select(["track", "points"])
    return [
        (row["track"], Box.around(np.reshape(row["points"], (-1, 2))))
        for row in rows.to_pylist()
        if row["track"] is not None
    ]


def _renumbered(table: Any, numbers: dict[int, int]) -> Any:
    arrow = require("pyarrow", "scale")
    tracks = [None if t is None else numbers[t] for t in table["track"].to_pylist()]
    place = table.column_names.index("track")
    table = table.set_column(place, table.schema.field("track"), arrow.array(tracks, arrow.int64()))
    return table.replace_schema_metadata(
        {**(table.schema.metadata or {}), JOINED: json.dumps(numbers)}
    )
