"""Label audit: which labels of a data set are probably wrong, and how.

For each face the disagreement of label and prediction is weighed by the model's own uncertainty and
by what is usual for that landmark, class of pose and data set; then six explanations compete: the
label is shifted, scaled, of another face, has left and right swapped, has one landmark off, or a
wrong visibility. A face's suspicion is that of its best explanation: how rare an explanation of
that strength is among all faces of the set, as -log of the share (3 means 5 in 100, 7 means 1 in
1,000), from the tail of the set itself, so that a set with a convention of its own is not suspected
as a whole. Beyond 1 in 3,000, which no tail can estimate, the log-likelihood ratio of the
explanation is added, so that all kinds are on one scale.

Labels are read twice, batch by batch: what is usual is learnt from at most `SAMPLE` of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from luvli.arrays import Floats
from luvli.calibration.label_batches import LabelBatch, LabelSource
from luvli.calibration.label_differences import FAR, MIN_FACES, Differences, UsualDifferences
from luvli.calibration.sampling import EvenSample
from luvli.data.record import FaceRecord
from luvli.errors import InputError, require, unknown_choice
from luvli.faces import FaceLandmarks, Faces
from luvli.files import whole_file

ErrorKind = Literal["shifted", "scaled", "wrong face", "swapped", "one landmark", "visibility"]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)

RARE = 8.0
"""-log of the share, 1 in 3,000, up to which the tail of a set is extrapolated"""
DOUBT = 0.5
"""doubt in a prediction (1 - confidence) at which its evidence counts half"""
SWAPPED = 0.3
"""log of the ratio of costs from which a label is called swapped"""
PRIOR = dict.fromkeys(ERROR_KINDS, 0.0) | {"visibility": -1.0}
SAMPLE = 10_000
"""labels, evenly from all, that what is usual is learnt from"""
LISTED = 1000
"""suspects of a large set that are listed"""


@dataclass(frozen=True)
class Suspect:
    """One label and what may be wrong with it."""

    index: int
    """place in the set"""
    name: str
    suspicion: float
    """-log of the share of faces that look as wrong; above `RARE`, evidence in nats on top"""
    kind: ErrorKind
    """the best explanation"""
    sentence: str
    """what is wrong, in words and numbers"""
    scores: dict[str, float]
    """suspicion by explanation"""


class Listed(NamedTuple):
    """A suspect with its label, prediction and image."""

    suspect: Suspect
    record: FaceRecord
    face: FaceLandmarks
    image: str


@dataclass
class AuditResult:
    """Counts, and the most suspicious labels."""

    labels: int = 0
    without_face: int = 0
    """labels without a prediction: they are not audited"""
    wrong: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ERROR_KINDS, 0))
    """labels with at least the suspicion asked about, by kind"""
    listed: list[Listed] = field(default_factory=list)
    """the most suspicious first"""


@dataclass(frozen=True)
class AuditStandard:
    """What the labels of a set are compared with, learnt from a sample of it."""

    usual: UsualDifferences
    tails: Mapping[ErrorKind, tuple[float, float] | None]
    """explanation -> start and scale of its tail among the faces"""


def audit(
    sources: Sequence[LabelSource],
    kinds: Sequence[ErrorKind] = ERROR_KINDS,
    fail_above: float = 12.0,
    out: Path | None = None,
    listed: int | None = LISTED,
) -> AuditResult:
    """Audit all labels, for the most suspicious `listed` of them (None: all).

    With `kinds` only these explanations rank the faces. `fail_above` is the suspicion from which
    labels count as wrong; with `out`, the results of each source are written there as Parquet.
    """
    kinds = check_kinds(kinds)
    standard = learn_standard(batch for source in sources for batch in source.batches())
    result = AuditResult()
    heap: list[tuple[float, int, Listed]] = []
    for source in sources:
        with ExitStack() as stack:
            write = None if out is None else _writer(out / source.path, stack)
            for batch in source.batches():
                suspects = audit_batch(batch, standard, kinds, result.labels)
                if write is not None:
                    write(batch, suspects)
                for i, suspect in enumerate(suspects):
                    result.wrong[suspect.kind] += suspect.suspicion >= fail_above
                    row = int(batch.rows[i])
                    about = batch.records[row], batch.faces[i], batch.images[row]
                    item = (suspect.suspicion, -suspect.index, Listed(suspect, *about))
                    if listed is None or len(heap) < listed:
                        heapq.heappush(heap, item)
                    elif item[:2] > heap[0][:2]:
                        heapq.heapreplace(heap, item)
                result.labels += len(batch.records)
                result.without_face += len(batch.records) - len(batch)
    result.listed = [item for _, _, item in sorted(heap, key=lambda item: item[:2], reverse=True)]
    return result


def learn_standard(batches: Iterable[LabelBatch]) -> AuditStandard:
    """What is usual, from at most `SAMPLE` labels with predictions."""
    sample = EvenSample[LabelBatch](SAMPLE)
    for batch in batches:
        sample.add(batch)
    parts = [part for part in sample.batches if len(part)]
    count = sum(map(len, parts))
    if count < MIN_FACES:
        raise InputError(
            f"an audit takes at least {MIN_FACES} labels with predictions, got {count}: what is "
            "usual in a set cannot be estimated from fewer."
        )
    whole = LabelBatch(
        tuple(record for part in parts for record in part[:].records),
        tuple(image for part in parts for image in part[:].images),
        Faces.concatenate([part.faces for part in parts]),
        np.arange(count),
    )
    work = Differences(whole)
    tails = {kind: fit_tail(values) for kind, (values, _) in _strength(work).items()}
    return AuditStandard(work.usual, tails)


def audit_batch(
    batch: LabelBatch,
    standard: AuditStandard,
    kinds: Sequence[ErrorKind] = ERROR_KINDS,
    first: int = 0,
) -> list[Suspect]:
    """A suspect for each prediction, in order; `first` is the place of the batch in the set."""
    if not len(batch):
        return []
    work = Differences(batch, standard.usual)
    belief = DOUBT / (DOUBT + 1 - np.nan_to_num(batch.faces.confidence, nan=1.0))
    scores = {
        kind: suspicion(values, nats, standard.tails[kind]) * belief + PRIOR[kind]
        for kind, (values, nats) in _strength(work).items()
    }
    suspects = []
    for i, row in enumerate(batch.rows.tolist()):
        own = {kind: float(values[i]) for kind, values in scores.items()}
        kind = _explanation(own, work, i, kinds)
        suspects.append(
            Suspect(
                index=first + row,
                name=batch.records[row].name,
                suspicion=round(max(own[name] for name in kinds), 3),
                kind=kind,
                sentence=work.sentence(i, kind),
                scores={str(name): round(value, 3) for name, value in own.items()},
            )
        )
    return suspects


def check_kinds(kinds: Sequence[str]) -> tuple[ErrorKind, ...]:
    """The kinds of label errors of these names; a sentence that lists them for any other."""
    for kind in kinds or [""]:
        if kind not in ERROR_KINDS:
            raise unknown_choice("kind of label error", kind, ERROR_KINDS)
    return tuple(kind for kind in ERROR_KINDS if kind in kinds)


def _strength(work: Differences) -> dict[ErrorKind, tuple[Floats, Floats]]:
    """How strong each explanation is, for every face, and what a unit of that is worth as a
    log-likelihood ratio: means over landmarks count for each of them."""
    landmarks = work.known.sum(axis=1).astype(np.float64)
    once = np.ones_like(landmarks)
    return {
        "shifted": (work.gain(work.centred), landmarks),
        "scaled": (work.gain(work.matched, beyond=work.centred), landmarks),
        "wrong face": (work.wrong_face(), landmarks),
        "swapped": work.swapped(),
        "one landmark": (work.one_landmark(), once),
        "visibility": (work.visibility(), once),
    }


def suspicion(values: Floats, nats: Floats, tail: tuple[float, float] | None) -> Floats:
    """-log of how rare each value is in the set of this tail, if that is exponential; beyond
    `RARE`, what is above counts `nats` a unit."""
    if tail is None:
        return np.zeros_like(values)
    start, scale = tail
    finite = np.isfinite(values)
    rarity = np.where(finite, np.maximum((values - start) / scale - np.log(0.3), 0.0), 0.0)
    limit = start + scale * (RARE + np.log(0.3))
    beyond = np.where(finite, np.maximum(values - limit, 0.0) * nats, 0.0)
    return np.minimum(rarity, RARE) + beyond


def fit_tail(values: Floats) -> tuple[float, float] | None:
    """Start and scale of the tail of a set, from its 70th and 90th percentile, which a few wrong
    labels in a hundred hardly move; None for too few values."""
    known = values[np.isfinite(values)]
    if len(known) < MIN_FACES:
        return None
    start, end = np.quantile(known, (0.7, 0.9))
    return float(start), max(float(end - start) / float(np.log(3.0)), 1e-9)


def _explanation(
    scores: Mapping[ErrorKind, float], work: Differences, row: int, kinds: Sequence[ErrorKind]
) -> ErrorKind:
    """The explanation to report: the strongest, with what it implies taken into account.

    A swapped or far label also looks shifted, scaled and unexplained.
    """
    if "swapped" in kinds and work.swap[row] > SWAPPED:
        return "swapped"
    if "wrong face" in kinds and np.linalg.norm(work.shift[row]) > FAR:
        return "wrong face"
    simple: list[ErrorKind] = [kind for kind in kinds if kind != "swapped"]
    return max(simple or kinds, key=lambda kind: (scores[kind], kind != "wrong face"))


def _writer(target: Path, stack: ExitStack) -> Any:
    """A function that writes a batch and its suspects as rows of Parquet."""
    arrow = require("pyarrow", "scale")
    parquet = require("pyarrow.parquet", "scale")
    words, number = arrow.string(), arrow.float64()
    columns = [("face", words), ("image", words), ("suspicion", number), ("kind", words)]
    columns += [("what", words), *((kind, number) for kind in ERROR_KINDS)]
    schema = arrow.schema(columns)
    temporary = stack.enter_context(whole_file(target))
    writer = stack.enter_context(parquet.ParquetWriter(temporary, schema, compression="zstd"))

    def write(batch: LabelBatch, suspects: Sequence[Suspect]) -> None:
        rows: list[dict[str, Any]] = [
            {"face": record.name, "image": image, "what": "no face was found here"}
            for record, image in zip(batch.records, batch.images, strict=True)
        ]
        for row, suspect in zip(batch.rows.tolist(), suspects, strict=True):
            about = {"suspicion": suspect.suspicion, "kind": suspect.kind}
            rows[row] |= about | {"what": suspect.sentence} | suspect.scores
        writer.write_table(arrow.Table.from_pylist(rows, schema))

    return write
