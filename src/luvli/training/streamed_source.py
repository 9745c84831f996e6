"""A source in Parquet that is read while it is learnt from: only held-out faces are taken out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from luvli.data.cache import cache_root
from luvli.data.record import FaceRecord
from luvli.data.shards import ShardedFaces, unpack_images
from luvli.errors import InputError
from luvli.training.recipe import Data, Source
from luvli.training.sources import (
    SourceFaces,
    group_name,
    hash_share,
    nothing_to_learn_from,
    source_folder,
)


def load_streamed(
    name: str, source: Source, data: Data, change: Callable[[FaceRecord], FaceRecord]
) -> SourceFaces:
    """The faces of a Parquet source, with the held-out ones set apart.

    `change`: is done to every label. Held-out images are unpacked into the cache folder.
    """
    folder = source_folder(name, source, data)
    faces = ShardedFaces(folder, source.shuffle_buffer, change)
    away = held_out_rows(faces, source.hold_out, source.group) if source.hold_out else {}
    cache = Path(data.cache or cache_root())
    held_out = list(unpack_images(faces, away, cache)) if away else []
    try:
        kept = faces.without(away)
    except InputError as error:
        raise nothing_to_learn_from(name, source, len(held_out)) from error
    return SourceFaces(source, kept, tuple(r for r in held_out if r.labelled.any()))


def held_out_rows(faces: ShardedFaces, amount: int | float, group: str) -> dict[int, list[int]]:
    """Shard -> rows that are kept away: those that `hold_out` would take of the same faces.

    Names are read, no images; a whole number holds so many names in memory, a share none.
    """
    if isinstance(amount, float):
        return _rows_where(faces, group, lambda key: hash_share(key) < amount)
    first: Counter[str] = Counter()
    highest = 1.0
    for shard in range(len(faces.shards)):
        for key in _keys(faces, shard, group):
            if key in first or hash_share(key) <= highest:
                first[key] += 1
        if len(first) > 2 * amount + 1000:  # each name has a face: so many names are enough
            ordered = sorted(first, key=hash_share)
            for key in ordered[amount + 1 :]:
                del first[key]
            highest = hash_share(ordered[amount])
    chosen: set[str] = set()
    number = 0
    for key in sorted(first, key=hash_share):
        if number >= amount:
            break
        chosen.add(key)
        number += first[key]
    return _rows_where(faces, group, chosen.__contains__)


def _rows_where(
    faces: ShardedFaces, group: str, wanted: Callable[[str], bool]
) -> dict[int, list[int]]:
    found = {}
    for shard in range(len(faces.shards)):
        rows = [row for row, key in enumerate(_keys(faces, shard, group)) if wanted(key)]
        if rows:
            found[shard] = rows
    return found


def _keys(faces: ShardedFaces, shard: int, group: str) -> list[str]:
    """What must not be torn apart, by each row of a shard."""
    names, ids = faces.column(shard, "name"), faces.column(shard, "face_id")
    about = faces.shards[shard]
    return [
        group_name(image or "", face or f"{about.file.stem}-{about.first_row + row}", group)
        for row, (image, face) in enumerate(zip(names, ids, strict=True))
    ]
