"""Labelled faces in Parquet, images inside: as `luvli data export --format parquet` writes them.

Training reads such a folder while it learns (`luvli.data.shards`). Here it is read at once, with
its images unpacked into the cache folder: to look at it, to check it, to evaluate on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from luvli.data.cache import cache_root
from luvli.data.sets.definition import ReadItem, Request, SetInfo
from luvli.data.shards import ShardedFaces, unpack_images


def read_parquet_set(request: Request) -> Iterator[ReadItem]:
    """Every row of every file."""
    faces = ShardedFaces(request.root, keep=1)
    if not request.images:
        for shard in range(len(faces.shards)):
            yield from (r.with_changes(image=None) for r in faces.labels(shard))
        return
    rows = {shard: range(about.rows) for shard, about in enumerate(faces.shards)}
    yield from unpack_images(faces, rows, cache_root())


INFO = SetInfo(
    name="parquet",
    title="your own, in Parquet",
    read=read_parquet_set,
    markup="(any)",
    points="any",
    profile="?",
    self_occlusion="yes",
    external_occlusion="yes",
    splits=("all",),
    licence="yours",
    layout="Parquet files with the columns image (bytes), points and face_id (docs/data.md)",
    confirmed="what luvli data export writes",
)
