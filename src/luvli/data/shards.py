"""Labelled faces in Parquet, read a row group at a time: for sets larger than memory.

    faces = ShardedFaces("shards", keep=4096)
    record, image = faces.open(17)          # the label, and the image file's bytes

A shard is a row group. Of all faces only the open shards are in memory; which they are is the
matter of whoever asks (`luvli.training.shard_order` asks shard by shard).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from luvli.data.cache import file_state, whole_folder
from luvli.data.formats.label_parquet import LABEL_COLUMNS, open_labels, record_of_row
from luvli.data.formats.parquet import face_files
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.files import PathLike

Change = Callable[[FaceRecord], FaceRecord]


class Shard(NamedTuple):
    """A row group of a file."""

    file: Path
    group: int
    rows: int
    first_row: int
    """its first row's number in the file"""


class ShardedFaces(Sequence[FaceRecord]):
    """The faces of a Parquet file, or of all Parquet files below a folder, in their order.

    Cheap to copy to other processes: each opens files of its own.
    """

    def __init__(
        self,
        folder: PathLike,
        keep: int = 4096,
        change: Change | None = None,
        left_out: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """`keep`: faces in memory, beside those of one shard. `change`: is done to every label.
        `left_out`: rows of shards that are not among the faces."""
        self.folder, self.keep, self.change = Path(folder), keep, change
        self.left_out = {shard: sorted(rows) for shard, rows in (left_out or {}).items() if rows}
        self.shards = _find_shards(self.folder)
        counts = [s.rows - len(self.left_out.get(i, ())) for i, s in enumerate(self.shards)]
        self.sizes = counts
        """faces in each shard"""
        self._ends = np.cumsum(counts)
        self._largest = max((shard.rows for shard in self.shards), default=0)
        if not self.shards or not self._ends[-1]:
            raise InputError(f"{self.folder} holds no labelled face: check the path.")
        self._open: OrderedDict[int, Any] = OrderedDict()

    def without(self, left_out: Mapping[int, Sequence[int]]) -> ShardedFaces:
        """The same faces but for these rows."""
        return ShardedFaces(self.folder, self.keep, self.change, left_out)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": OrderedDict()}

    def __len__(self) -> int:
        return int(self._ends[-1])

    @overload
    def __getitem__(self, index: int) -> FaceRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[FaceRecord]: ...
    def __getitem__(self, index: int | slice) -> FaceRecord | list[FaceRecord]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.open(index, image=False)[0]

    def place(self, index: int) -> tuple[int, int]:
        """The shard of a face, and its row there."""
        if not 0 <= index < len(self):
            raise IndexError(f"face {index} of {len(self)}")
        shard = int(np.searchsorted(self._ends, index, side="right"))
        row = index - (int(self._ends[shard - 1]) if shard else 0)
        for gone in self.left_out.get(shard, ()):
            if gone <= row:
                row += 1
        return shard, row

    def open(self, index: int, image: bool = True) -> tuple[FaceRecord, bytes]:
        """The label of a face and its image's bytes (none with `image=False`)."""
        shard, row = self.place(index)
        table = self._table(shard)
        labels = table.slice(row, 1).drop_columns(["image"]).to_pylist()[0]
        record = self._record(shard, row, labels)
        if not image:
            return record, b""
        content = table["image"][row].as_py()
        if content is None:
            raise InputError(f"{self.name(shard, row)} has no image: fill it, or drop the row.")
        return record, content

    def labels(self, shard: int) -> list[FaceRecord]:
        """The labels of a shard; its images are not read, and nothing stays open."""
        table = self._read(shard, LABEL_COLUMNS)
        gone = set(self.left_out.get(shard, ()))
        rows = ((row, label) for row, label in enumerate(table.to_pylist()) if row not in gone)
        return [self._record(shard, row, label) for row, label in rows]

    def column(self, shard: int, name: str) -> list[Any]:
        """One column of a shard, of all its rows; None for each where the file lacks it."""
        table = self._read(shard, (name,))
        return table[name].to_pylist() if table.num_columns else [None] * self.shards[shard].rows

    def name(self, shard: int, row: int) -> str:
        """Where a row is, for messages: `FILE.parquet#ROW`."""
        return f"{self.shards[shard].file}#{self.shards[shard].first_row + row}"

    def _record(self, shard: int, row: int, labels: Mapping[str, Any]) -> FaceRecord:
        name = self.name(shard, row)
        try:
            record = record_of_row(labels, f"{self.shards[shard].file.stem}-{name.split('#')[-1]}")
        except (ValueError, TypeError) as error:
            raise InputError(f"{name} is no labelled face ({error}): write it again.") from error
        return record if self.change is None else self.change(record)

    def _table(self, shard: int) -> Any:
        if shard in self._open:
            self._open.move_to_end(shard)
            return self._open[shard]
        table = self._open[shard] = self._read(shard, ("image", *LABEL_COLUMNS))
        held = sum(self.shards[i].rows for i in self._open)
        while len(self._open) > 1 and held > self.keep + self._largest:
            held -= self.shards[next(iter(self._open))].rows
            self._open.popitem(last=False)
        return table

    def _read(self, shard: int, columns: Sequence[str]) -> Any:
        file, group, *_ = self.shards[shard]
        with open_labels(file) as content:
            names = [name for name in columns if name in content.schema_arrow.names]
            try:
                return content.read_row_group(group, columns=names)
            except Exception as error:  # pyarrow raises many kinds on damaged files
                raise InputError(
                    f"{file} is damaged ({type(error).__name__}): copy it again."
                ) from error


def _find_shards(folder: Path) -> list[Shard]:
    """All row groups of all files, by their ends alone."""
    found = []
    for file in face_files(folder):
        first = 0
        with open_labels(file) as content:
            for group in range(content.num_row_groups):
                rows = content.metadata.row_group(group).num_rows
                found.append(Shard(file, group, rows, first))
                first += rows
    return [shard for shard in found if shard.rows]


def unpack_images(
    faces: ShardedFaces, rows: Mapping[int, Sequence[int]], cache: Path
) -> Iterator[FaceRecord]:
    """These rows of shards as records whose images are files, in the cache folder."""
    digest = hashlib.sha256()
    for shard, chosen in rows.items():
        state = file_state(faces.shards[shard].file)
        digest.update(repr((state, faces.shards[shard].group, list(chosen))).encode())
    folder = cache / f"parquet-{digest.hexdigest()[:24]}"
    whole = ShardedFaces(faces.folder, 1, faces.change)
    first = np.cumsum([0, *whole.sizes])
    if not folder.is_dir():
        with whole_folder(folder) as made:
            for shard, chosen in rows.items():
                for row in chosen:
                    content = whole.open(int(first[shard]) + row)[1]
                    (made / f"{shard}-{row}").write_bytes(content)
    for shard, chosen in rows.items():
        labels = whole.labels(shard)
        for row in chosen:
            yield labels[row].with_changes(image=folder / f"{shard}-{row}")


def even_shards(faces: ShardedFaces, most: int) -> NDArray[np.int64]:
    """At most so many shards, evenly from all."""
    count = len(faces.shards)
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.int64))
