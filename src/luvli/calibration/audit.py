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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from luvli.arrays import Floats
from luvli.calibration.label_batches import LabelSource
from luvli.calibration.label_differences import (
    ERROR_KINDS,
    FAR,
    MIN_FACES,
    Differences,
    ErrorKind,
    UsualDifferences,
    take_apart,
    usual_differences,
)
from luvli.data.formats.label_parquet import image_at
from luvli.data.formats.tables import image_cell, word_cell, write_rows
from luvli.drawing.faces import draw_tile
from luvli.errors import InputError
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.table import PagePart, Picture, html_page
from luvli.faces import FaceLandmarks
from luvli.files import PathLike, write_text
from luvli.image.read import ImageArray, read_image
from luvli.prediction.writers import text_file

RARE = 8.0
"""-log of the share, 1 in 3,000, up to which the tail of a set is extrapolated"""
DOUBT = 0.5
"""doubt in a prediction (1 - confidence) at which its evidence counts half"""
SWAPPED = 0.3
"""log of the ratio of costs from which a label is called swapped"""
PRIOR = dict.fromkeys(ERROR_KINDS, 0.0) | {"visibility": -1.0}
SAMPLE = 10_000
"""labels, evenly from all, that what is usual is learnt from"""
LISTED = 10_000
"""suspects that are listed"""
CELL = 260
"""pixels: side of the pictures on the page"""


@dataclass(frozen=True)
class Suspect:
    """One label, the prediction beside it, and what may be wrong."""

    name: str
    image: str
    suspicion: float
    """-log of the share of faces that look as wrong; above `RARE`, evidence in nats on top"""
    kind: ErrorKind
    """the best explanation"""
    sentence: str
    """what is wrong, in words and numbers"""
    scores: dict[ErrorKind, float]
    """suspicion by explanation"""
    label: Floats
    """(k, 2)"""
    face: FaceLandmarks


@dataclass
class AuditResult:
    """Counts, and the most suspicious labels."""

    labels: int = 0
    without_face: int = 0
    """labels without a prediction: they are not audited"""
    wrong: dict[ErrorKind, int] = field(default_factory=lambda: dict.fromkeys(ERROR_KINDS, 0))
    """labels with at least the suspicion asked about, by kind"""
    listed: list[Suspect] = field(default_factory=list)
    """the most suspicious first"""


class AuditStandard(NamedTuple):
    """What the labels of a set are compared with, learnt from a sample of it."""

    usual: UsualDifferences
    tails: Mapping[ErrorKind, tuple[float, float] | None]
    """explanation -> start and scale of its tail among the faces"""


def audit(source: LabelSource, fail_above: float = 12.0) -> AuditResult:
    """Audit all labels; `fail_above` is the suspicion from which they count as wrong."""
    standard = learn_standard(source)
    result = AuditResult()
    for faces, without_face in _audited(source):
        suspects = audit_faces(faces, standard) if len(faces) else []
        for suspect in suspects:
            result.wrong[suspect.kind] += suspect.suspicion >= fail_above
        result.labels += len(suspects) + without_face
        result.without_face += without_face
        result.listed += suspects
        result.listed.sort(key=lambda suspect: -suspect.suspicion)
        del result.listed[LISTED:]
    return result


def _audited(source: LabelSource) -> Iterator[tuple[LabelledFaces, int]]:
    """Batches of labels with a prediction, and how many have none."""
    for faces in source.batches():
        found = np.isfinite(faces.points).all(axis=(1, 2)) & faces.visible.any(axis=1)
        yield faces[found], int((~found).sum())


def learn_standard(source: LabelSource) -> AuditStandard:
    """What is usual, from at most `SAMPLE` labels with predictions."""
    every = max(1, -(-source.rows // SAMPLE))
    parts = [faces[::every] for faces, _ in _audited(source) if len(faces)]
    count = sum(map(len, parts))
    if count < MIN_FACES:
        raise InputError(
            f"an audit takes at least {MIN_FACES} labels with predictions, got {count}: what is "
            "usual in a set cannot be estimated from fewer."
        )
    sample = LabelledFaces.concatenate(parts)
    usual = usual_differences(sample)
    strength = take_apart(sample, usual).strength
    return AuditStandard(usual, {kind: fit_tail(each.values) for kind, each in strength.items()})


def audit_faces(faces: LabelledFaces, standard: AuditStandard) -> list[Suspect]:
    """A suspect for each face, in order."""
    found = take_apart(faces, standard.usual)
    belief = DOUBT / (DOUBT + 1 - np.nan_to_num(faces.faces.confidence, nan=1.0))
    scores = {
        kind: suspicion(each.values, each.nats, standard.tails[kind]) * belief + PRIOR[kind]
        for kind, each in found.strength.items()
    }
    suspects = []
    for i, face in enumerate(faces.faces):
        own = {kind: round(float(values[i]), 3) for kind, values in scores.items()}
        kind, worst = _explanation(own, found, i), max(own.values())
        name, image, label = faces.names[i], faces.images[i], faces.labels[i]
        words = found.sentence(i, kind)
        suspects.append(Suspect(name, image, worst, kind, words, own, label, face))
    return suspects


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


def _explanation(scores: Mapping[ErrorKind, float], found: Differences, row: int) -> ErrorKind:
    """The explanation to report: the strongest, with what it implies taken into account.

    A swapped or far label also looks shifted, scaled and unexplained.
    """
    if found.strength["swapped"].values[row] > SWAPPED:
        return "swapped"
    if np.linalg.norm(found.shift[row]) > FAR:
        return "wrong face"
    others = (kind for kind in ERROR_KINDS if kind != "swapped")
    return max(others, key=lambda kind: (scores[kind], kind != "wrong face"))


# --- files -------------------------------------------------------------------------------


def write_suspects(path: PathLike, listed: Sequence[Suspect]) -> None:
    """CSV with a row for each suspect, the most suspicious first."""
    kinds = list(listed[0].scores) if listed else []
    rows = [
        [
            word_cell(suspect.name),
            image_cell(Path(suspect.image).name),
            f"{suspect.suspicion:.2f}",
            suspect.kind,
            word_cell(suspect.sentence),
            *(f"{suspect.scores[kind]:.2f}" for kind in kinds),
        ]
        for suspect in listed
    ]
    with text_file(Path(path)) as stream:
        write_rows(stream, [["face", "image", "suspicion", "kind", "what", *kinds], *rows])


def write_audit_page(
    path: PathLike, title: str, listed: Sequence[Suspect], fail_above: float
) -> None:
    """One HTML file with the images inside; labels are green, predictions yellow. What is wrong
    with a label is said of those whose suspicion is at least `fail_above`."""
    wrong = sum(suspect.suspicion >= fail_above for suspect in listed)
    parts: list[PagePart] = [
        "Labels are green, predictions yellow with their ellipses. Suspicion is -log of the share "
        f"of faces that look as wrong: 7 is one in a thousand. {wrong or 'None'} of the labels "
        f"below {'is' if wrong == 1 else 'are'} probably wrong: their suspicion is at least "
        f"{fail_above:g}."
    ]
    for suspect in listed:
        words = f"{suspect.name}: no error found ({suspect.suspicion:.1f})"
        if suspect.suspicion >= fail_above:
            words = f"{suspect.name}: {suspect.kind} ({suspect.suspicion:.1f}): {suspect.sentence}"
        image = label_and_prediction(suspect)
        parts.append(words if image is None else Picture(words, _jpeg(image)))
    write_text(path, html_page(title, parts))


def label_and_prediction(suspect: Suspect) -> ImageArray | None:
    """The face cut out with both; None where its image cannot be read."""
    source = image_at(suspect.image) or suspect.image  # in Parquet the image is beside the label
    if not source:
        return None
    try:
        image = read_image(source)
    except InputError:
        return None
    return draw_tile(image, suspect.face, CELL, suspect.label)


def _jpeg(image: ImageArray) -> bytes:
    return cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes()
