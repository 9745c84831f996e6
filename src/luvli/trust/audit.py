"""Label audit: which labels of a data set are probably wrong, and how.

A trained model disagrees with every label a little. For each face the disagreement is
weighed by the model's own uncertainty and by what is usual for that landmark, class of pose
and data set; then six explanations compete: the label is shifted, scaled, of another face,
has left and right swapped, has one landmark off, or a wrong visibility. A face's suspicion is
that of its best explanation: how rare an explanation of that strength is among all faces of
the set, as -log of the share (3 means 5 in 100, 7 means 1 in 1,000), from the tail of the set
itself, so that a set with a practice of its own is not suspected as a whole. Beyond 1 in 3,000
no tail of a set can tell, and all kinds are on one scale: what the explanation is worth beyond
that, as a log-likelihood ratio. So a label that is wrong as a whole stands before one landmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from luvli.arrays import Floats
from luvli.data.record import FaceRecord
from luvli.errors import InputError, unknown_choice
from luvli.faces import FaceLandmarks
from luvli.trust.label_differences import FAR, FEWEST, Differences, SetHabits

ErrorKind = Literal["shifted", "scaled", "wrong face", "swapped", "one landmark", "visibility"]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)

RARE = 8.0
"""-log of the share, 1 in 3,000, up to which the tail of a set is believed"""
DOUBT = 0.5
"""doubt in a prediction (1 - confidence) at which what it says against the label counts half"""
SWAPPED = 0.3
"""log of the ratio of costs from which a label is called swapped"""
PRIOR = {"shifted": 0.0, "scaled": 0.0, "wrong face": 0.0, "swapped": 0.0, "one landmark": 0.0,
         "visibility": -1.0}  # fmt: skip


@dataclass(frozen=True)
class Suspect:
    """One face of the set and what may be wrong with its label."""

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


def audit(
    records: Sequence[FaceRecord],
    faces: Sequence[FaceLandmarks],
    kinds: Sequence[ErrorKind] = ERROR_KINDS,
) -> list[Suspect]:
    """All faces of a set, the most suspicious first.

    `faces` are predictions for the records, in their order, by a model that was not trained on
    them; `FaceLandmarks.empty` where there is none (such faces are not judged). With `kinds`
    only these explanations rank the faces: who looks for shifted labels in a set with many a
    misplaced landmark finds them so.
    """
    kinds = check_kinds(kinds)
    if len(records) != len(faces):
        raise InputError(f"{len(records)} labels and {len(faces)} predictions do not fit.")
    judged = [
        i
        for i, (record, face) in enumerate(zip(records, faces, strict=True))
        if not face.is_empty and record.visible.any()
    ]
    if len(judged) < FEWEST:
        raise InputError(
            f"an audit takes at least {FEWEST} faces with predictions, got {len(judged)}: what is "
            "usual in a set cannot be told from fewer."
        )
    chosen, found = [records[i] for i in judged], [faces[i] for i in judged]
    standard = learn_standard(chosen, found)
    suspects = judge_labels(chosen, found, standard, kinds, judged)
    return sorted(suspects, key=lambda suspect: (-suspect.suspicion, suspect.index))


@dataclass(frozen=True)
class AuditStandard:
    """What the labels of a set are measured by, learnt from its faces or from some of them."""

    habits: SetHabits
    tails: Mapping[ErrorKind, tuple[float, float] | None]
    """explanation -> start and scale of its tail among the faces"""


def learn_standard(records: Sequence[FaceRecord], faces: Sequence[FaceLandmarks]) -> AuditStandard:
    """What is usual among these faces, all of them with predictions."""
    work = Differences(records, faces)
    tails = {kind: fit_tail(values) for kind, (values, _) in _strength(work).items()}
    return AuditStandard(work.habits, tails)


def judge_labels(
    records: Sequence[FaceRecord],
    faces: Sequence[FaceLandmarks],
    standard: AuditStandard,
    kinds: Sequence[ErrorKind] = ERROR_KINDS,
    index: Sequence[int] | None = None,
) -> list[Suspect]:
    """A judgement of each face, in order. `index`: their places in the set."""
    if not records:
        return []
    work = Differences(records, faces, standard.habits)
    sure = np.array([1.0 if face.confidence is None else face.confidence for face in faces])
    belief = DOUBT / (DOUBT + 1 - sure)
    tails = {
        kind: suspicion(values, nats, standard.tails[kind]) * belief + PRIOR[kind]
        for kind, (values, nats) in _strength(work).items()
    }
    suspects = []
    for row, i in enumerate(range(len(records)) if index is None else index):
        scores = {kind: float(values[row]) for kind, values in tails.items()}
        kind = _best(scores, work, row, kinds)
        suspects.append(
            Suspect(
                index=i,
                name=records[row].name,
                suspicion=round(max(scores[name] for name in kinds), 3),
                kind=kind,
                sentence=work.sentence(row, kind),
                scores={name: round(value, 3) for name, value in scores.items()},
            )
        )
    return suspects


def _strength(work: Differences) -> dict[ErrorKind, tuple[Floats, Floats]]:
    """How strongly each explanation speaks, for every face, and what a unit of that is worth as a
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


def check_kinds(kinds: Sequence[str]) -> tuple[ErrorKind, ...]:
    """The kinds of label errors of these names; a sentence that lists them for any other."""
    chosen = tuple(kind for kind in ERROR_KINDS if kind in kinds)
    for kind in kinds or [""]:
        if kind not in ERROR_KINDS:
            raise unknown_choice("kind of label error", kind, ERROR_KINDS)
    return chosen


def suspicion(values: Floats, nats: Floats, tail: tuple[float, float] | None) -> Floats:
    """-log of how rare each value is in the set of this tail; beyond `RARE`, where no set has
    faces enough to tell, what is above counts `nats` a unit."""
    if tail is None:
        return np.zeros_like(values)
    start, scale = tail
    limit = start + scale * (RARE + np.log(0.3))
    beyond = np.where(np.isfinite(values), np.maximum(values - limit, 0.0) * nats, 0.0)
    return np.minimum(above_tail(values, tail), RARE) + beyond


def fit_tail(values: Floats) -> tuple[float, float] | None:
    """Where the tail of a set begins, and its scale; None for too few values.

    The tail is read between the 70th and the 90th percentile, so that a few wrong labels in a
    hundred hardly move it.
    """
    known = values[np.isfinite(values)]
    if len(known) < FEWEST:
        return None
    start, end = np.quantile(known, (0.7, 0.9))
    return float(start), max(float(end - start) / float(np.log(3.0)), 1e-9)


def above_tail(values: Floats, tail: tuple[float, float]) -> Floats:
    """-log of how rare each value is in the set that the tail was fitted to, if that falls as an
    exponential does."""
    start, scale = tail
    scores = (values - start) / scale - np.log(0.3)
    return np.where(np.isfinite(scores), np.maximum(scores, 0.0), 0.0)


def _best(
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
