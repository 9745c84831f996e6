"""Audit of labels beside predictions in Parquet, file by file: memory does not grow with them.

`luvli predict LABELS --engine ray` carries the columns of its source along, labels too, as
`source_points` and so on. Each label is compared with the face that was found where it is. What
is usual in the set is learnt from at most `SAMPLE` faces, evenly chosen; for smaller sets all
numbers are those of `luvli.trust.audit.audit`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from luvli.data.formats.label_parquet import LABEL_COLUMNS, record_of_row
from luvli.data.formats.parquet import face_files
from luvli.data.record import FaceRecord
from luvli.errors import InputError, require
from luvli.faces import FaceLandmarks
from luvli.files import PathLike, whole_file
from luvli.image.box import Box
from luvli.image.match import best_match
from luvli.trust.audit import (
    ERROR_KINDS,
    AuditStandard,
    ErrorKind,
    Suspect,
    check_kinds,
    judge_labels,
    learn_standard,
)
from luvli.trust.even_sample import EvenSample
from luvli.trust.label_differences import FEWEST
from luvli.trust.triage_parquet import face_of_row

SAMPLE = 10_000
"""faces, evenly from all, that what is usual is learnt from"""
ROWS = 500
"""rows in memory at a time"""
LISTED = 2_000
"""labels in audit.csv; the Parquet files have all"""
CARRIED = "source_"
"""before the name of a label's column that has the name of a prediction's"""
_PREDICTED = (
    *("image", "status", "markup", "score", "confidence", "visibility_trained"),
    *("box", "points", "covariance", "visibility"),
)


class Pair(NamedTuple):
    """A label and the prediction for it."""

    record: FaceRecord
    face: FaceLandmarks | None
    """None where no face was found at the label"""
    image: str
    """as the predictions name it"""


class Judged(NamedTuple):
    """A label with its judgement."""

    suspect: Suspect
    pair: Pair


@dataclass
class AuditedFiles:
    """What came of it."""

    labels: int = 0
    without_face: int = 0
    """labels where no face was found: they are not judged"""
    wrong: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ERROR_KINDS, 0))
    """labels with at least the suspicion asked about, by kind"""
    worst: list[Judged] = field(default_factory=list)
    """the most suspicious first, at most `LISTED`"""


def has_labels(path: PathLike) -> bool:
    """Whether Parquet holds predictions with labels carried along."""
    place = Path(path)
    if not (place.is_dir() or place.suffix.lower() == ".parquet"):
        return False
    first = next(iter(face_files(place)))
    with _opened(first) as content:
        return f"{CARRIED}points" in content.schema_arrow.names


def audit_parquet(
    source: PathLike,
    out: Path,
    kinds: Sequence[ErrorKind] = ERROR_KINDS,
    fail_above: float = 12.0,
) -> AuditedFiles:
    """Judge every label of `source` and write the judgements to `out`, file by file.

    `fail_above`: the suspicion from which labels are counted as wrong.
    """
    kinds = check_kinds(kinds)
    files = face_files(source)
    root = Path(source) if Path(source).is_dir() else files[0].parent
    standard = _standard(files)
    found = AuditedFiles()
    worst: list[tuple[float, int, Judged]] = []
    for file in files:
        _audit_file(file, out / file.relative_to(root), standard, kinds, found, worst, fail_above)
    found.worst = [judged for _, _, judged in sorted(worst, key=lambda w: (-w[0], -w[1]))]
    return found


def _standard(files: Sequence[Path]) -> AuditStandard:
    """What is usual, from a sample of all files."""
    sample = EvenSample[Pair](SAMPLE)
    total = 0
    for file in files:
        with _opened(file) as content:
            total += content.metadata.num_rows
    step = -(-total // SAMPLE)
    number = 0
    for file in files:
        for pair in _pairs(_rows(file, step, number), file):
            if pair.face is not None:
                sample.add(pair)
        with _opened(file) as content:
            number += content.metadata.num_rows
    if len(sample.kept) < FEWEST:
        raise InputError(
            f"an audit takes at least {FEWEST} labels with a face found, got {len(sample.kept)}: "
            "what is usual in a set cannot be told from fewer."
        )
    faces = [pair.face for pair in sample.kept if pair.face is not None]
    return learn_standard([pair.record for pair in sample.kept], faces)


def _audit_file(
    file: Path,
    target: Path,
    standard: AuditStandard,
    kinds: Sequence[ErrorKind],
    found: AuditedFiles,
    worst: list[tuple[float, int, Judged]],
    fail_above: float,
) -> None:
    arrow = require("pyarrow", "scale")
    parquet = require("pyarrow.parquet", "scale")
    schema = _schema()
    with whole_file(target) as temporary, parquet.ParquetWriter(
        temporary, schema, compression="zstd"
    ) as writer:  # fmt: skip
        for some in _some(_pairs(_rows(file), file)):
            judgements = _judge(some, standard, kinds, found.labels)
            rows = []
            for number, (pair, suspect) in enumerate(zip(some, judgements, strict=True)):
                rows.append(_row(pair, suspect))
                if suspect is None:
                    found.without_face += 1
                    continue
                found.wrong[suspect.kind] += suspect.suspicion >= fail_above
                entry = (suspect.suspicion, -(found.labels + number), Judged(suspect, pair))
                if len(worst) < LISTED:
                    heapq.heappush(worst, entry)
                elif entry[:2] > worst[0][:2]:
                    heapq.heapreplace(worst, entry)
            found.labels += len(some)
            writer.write_table(arrow.Table.from_pylist(rows, schema))


def _judge(
    pairs: Sequence[Pair], standard: AuditStandard, kinds: Sequence[ErrorKind], first: int
) -> list[Suspect | None]:
    judged = [
        (number, pair.record, pair.face)
        for number, pair in enumerate(pairs)
        if pair.face is not None
    ]
    answers: list[Suspect | None] = [None] * len(pairs)
    suspects = judge_labels(
        [record for _, record, _ in judged],
        [face for _, _, face in judged],
        standard,
        kinds,
        [first + number for number, _, _ in judged],
    )
    for (number, _, _), suspect in zip(judged, suspects, strict=True):
        answers[number] = suspect
    return answers


def _row(pair: Pair, suspect: Suspect | None) -> dict[str, Any]:
    row: dict[str, Any] = {"face": pair.record.name, "image": pair.image}
    if suspect is None:
        return row | {"what": "no face was found here"}
    about = {"suspicion": suspect.suspicion, "kind": suspect.kind, "what": suspect.sentence}
    return row | about | suspect.scores


def _schema() -> Any:
    arrow = require("pyarrow", "scale")
    words, number = arrow.string(), arrow.float64()
    columns = [("face", words), ("image", words), ("suspicion", number), ("kind", words)]
    return arrow.schema([*columns, ("what", words), *((kind, number) for kind in ERROR_KINDS)])


def _rows(file: Path, step: int = 1, first: int = 0) -> Iterator[Any]:
    """Pieces of a file as pyarrow tables; with `step`, only rows whose number in the set is a
    multiple of it. `first`: the number of the file's first row."""
    arrow = require("pyarrow", "scale")
    with _opened(file) as content:
        names = content.schema_arrow.names
        if f"{CARRIED}points" not in names:
            raise InputError(
                f"{file} has no labels beside its predictions: predict the Parquet of luvli data "
                "export with --engine ray, which carries them along."
            )
        labels = [f"{CARRIED}{name}" for name in LABEL_COLUMNS if f"{CARRIED}{name}" in names]
        labels += [n for n in LABEL_COLUMNS if n in names and n not in _PREDICTED]
        columns = [*(name for name in _PREDICTED if name in names), *labels]
        for batch in content.iter_batches(ROWS, columns=columns):
            chosen = [i for i in range(len(batch)) if (first + i) % step == 0]
            first += len(batch)
            if chosen:
                whole = len(chosen) == len(batch)
                yield arrow.Table.from_batches([batch if whole else batch.take(chosen)])


def _pairs(tables: Iterable[Any], file: Path) -> Iterator[Pair]:
    """Each label once, with the face among its rows that lies where it does."""
    every = (row for table in tables for row in table.to_pylist())
    try:
        for (image, face_id), rows in groupby(every, _label_of):
            some = list(rows)
            record = record_of_row(_label(some[0]), str(face_id or image))
            faces = [face_of_row(_face(row)) for row in some if row["status"] == "face"]
            yield Pair(record, _at_label(record, faces), str(image))
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, InputError):
            raise InputError(f"{file}: {error}") from error
        raise InputError(f"{file} holds a face that is none ({error}): write it again.") from error


def _label_of(row: dict[str, Any]) -> tuple[Any, Any]:
    return row["image"], row.get("face_id")


def _label(row: dict[str, Any]) -> dict[str, Any]:
    label = {name: row.get(name) for name in LABEL_COLUMNS if name not in _PREDICTED}
    carried = ((name, row.get(f"{CARRIED}{name}")) for name in LABEL_COLUMNS)
    return label | {name: value for name, value in carried if value is not None}


def _face(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in _PREDICTED if name not in ("image", "status")}


def _at_label(record: FaceRecord, faces: Sequence[FaceLandmarks]) -> FaceLandmarks | None:
    if not faces or not record.visible.any():
        return None
    if len(faces[0]) != len(record.points):
        raise InputError(
            f"{record.name} has a label of {len(record.points)} points and a prediction of "
            f"{len(faces[0])}: give labels of the model's point set."
        )
    boxes = [Box(*face.box.tolist()) for face in faces]
    best = best_match(Box(*record.tight_box.tolist()), boxes)
    return None if best is None else faces[boxes.index(best)]


def _some(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    some: list[Pair] = []
    for pair in pairs:
        some.append(pair)
        if len(some) == ROWS:
            yield some
            some = []
    if some:
        yield some


def _opened(file: Path) -> Any:
    parquet = require("pyarrow.parquet", "scale")
    try:
        return parquet.ParquetFile(file)
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise InputError(
            f"{file} is not a readable Parquet file ({type(error).__name__}): write it again."
        ) from error
