"""Label audit: which labels of a data set are probably wrong, and how.

A trained model disagrees with every label a little. For each face the disagreement is
weighed by the model's own uncertainty and by what is usual for that landmark, class of pose
and data set; then six explanations compete: the label is shifted, scaled, of another face,
has left and right swapped, has one landmark off, or a wrong visibility. A face's suspicion is
that of its best explanation: how rare an explanation of that strength is among all faces of
the set, as -log of the share (3 means 5 in 100, 7 means 1 in 1,000), from the tail of the set
itself, so that a set with a practice of its own is not suspected as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError, unknown_choice
from luvli.faces import FaceLandmarks
from luvli.markup import get_markup, is_markup
from luvli.network.face_features import pose_kind

Floats = NDArray[np.float64]

ErrorKind = Literal["shifted", "scaled", "wrong face", "swapped", "one landmark", "visibility"]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)

FEWEST = 50
"""faces that make a set: fewer have no usual disagreement"""
FLOOR = 0.004
"""parts of the box: no label is more exact than that"""
FAR = 0.35
"""parts of the box: a label further away than this belongs to another face"""
TELLS_VISIBILITY = 0.05
"""share of faces with hidden landmarks from which a set is taken to label visibility"""
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
    """-log of the share of faces that look as wrong"""
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
    chosen = [records[i] for i in judged]
    found = [faces[i] for i in judged]
    work = _Differences(chosen, found)
    strength = {
        "shifted": work.gain(work.centred),
        "scaled": work.gain(work.matched, beyond=work.centred),
        "wrong face": work.wrong_face(),
        "swapped": work.swapped(),
        "one landmark": work.one_landmark(),
        "visibility": work.visibility(),
    }
    sure = np.array([1.0 if face.confidence is None else face.confidence for face in found])
    tails = {
        kind: tail_score(values) * (0.25 + 0.75 * sure) + PRIOR[kind]
        for kind, values in strength.items()
    }
    suspects = []
    for row, i in enumerate(judged):
        scores = {kind: float(values[row]) for kind, values in tails.items()}
        kind = _best(scores, work, row, kinds)
        suspects.append(
            Suspect(
                index=i,
                name=records[i].name,
                suspicion=round(max(scores[name] for name in kinds), 3),
                kind=kind,
                sentence=work.sentence(row, kind),
                scores={name: round(value, 3) for name, value in scores.items()},
            )
        )
    return sorted(suspects, key=lambda suspect: (-suspect.suspicion, suspect.index))


def check_kinds(kinds: Sequence[str]) -> tuple[ErrorKind, ...]:
    """The kinds of label errors of these names; a sentence that lists them for any other."""
    chosen = tuple(kind for kind in ERROR_KINDS if kind in kinds)
    for kind in kinds or [""]:
        if kind not in ERROR_KINDS:
            raise unknown_choice("kind of label error", kind, ERROR_KINDS)
    return chosen


def tail_score(values: Floats) -> Floats:
    """-log of how rare each value is, from the exponential tail of the set itself.

    The tail is read between the 70th and the 90th percentile, so that a few wrong labels in a
    hundred hardly move it.
    """
    known = values[np.isfinite(values)]
    if len(known) < FEWEST:
        return np.zeros_like(values)
    start, end = np.quantile(known, (0.7, 0.9))
    scale = max(float(end - start) / np.log(3.0), 1e-9)
    scores = (values - start) / scale - np.log(0.3)
    return np.where(np.isfinite(scores), np.maximum(scores, 0.0), 0.0)


class _Differences:
    """Labels minus predictions of n faces, and how each explanation changes them."""

    def __init__(self, records: Sequence[FaceRecord], faces: Sequence[FaceLandmarks]) -> None:
        self.records, self.faces = records, faces
        self.markup = records[0].markup
        self.size = np.array([_size(face) for face in faces])
        points = np.stack([face.points for face in faces])
        self.seen = np.stack(
            [face.visibility > 0.3 if face.visibility_trained else np.full(len(face), True)
             for face in faces]
        )  # fmt: skip
        labels = np.stack([record.points for record in records])
        self.known = np.isfinite(labels).all(axis=2) & self.seen
        few = self.known.sum(axis=1) < 3
        self.known[few] = np.isfinite(labels[few]).all(axis=2)
        spread = np.stack([face.covariance for face in faces])
        own = np.sqrt((spread[:, :, 0, 0] + spread[:, :, 1, 1]) / 2) / self.size[:, None]
        self.centre = np.stack([face.box for face in faces])
        self.centre = (self.centre[:, :2] + self.centre[:, 2:]) / 2
        self.places = (points - self.centre[:, None]) / self.size[:, None, None]
        difference = (labels - points) / self.size[:, None, None]
        usual, noise = self._usual(difference, own)
        self.usual = usual
        self.plain = difference - usual
        self.noise = noise
        weight = np.where(self.known, 1 / noise**2, 0.0)
        self.weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
        clean = np.where(self.known[..., None], self.plain, 0.0)
        self.shift = self._robust_mean(clean)
        self.centred = self.plain - self.shift[:, None]
        self.factor, self.matched = self._scaled()

    def _usual(self, difference: Floats, own: Floats) -> tuple[Floats, Floats]:
        """Median difference of each landmark by class of pose, and deviations by face."""
        kinds = np.array([pose_kind(face) for face in self.faces])
        usual = np.zeros_like(difference)
        rest = np.full(difference.shape[:2], FLOOR)
        hidden = np.where(self.known[..., None], difference, np.nan)
        for kind in np.unique(kinds):
            part = kinds == kind
            if part.sum() < FEWEST // 2:
                part = np.full(len(kinds), True)
            with np.errstate(all="ignore"):
                middle = np.nan_to_num(_nanmedian(hidden[part]))
                away = np.nan_to_num(
                    _nanmedian(np.linalg.norm(hidden[part] - middle, axis=2)), nan=FLOOR
                )
            usual[kinds == kind], rest[kinds == kind] = middle, np.maximum(away, FLOOR)
        return usual, np.sqrt(rest**2 / 2 + own**2)

    def _robust_mean(self, values: Floats) -> Floats:
        """(n, 2) weighted mean that a few far landmarks do not pull."""
        mean = (values * self.weight[..., None]).sum(axis=1)
        for _ in range(5):
            far = np.linalg.norm(values - mean[:, None], axis=2) / self.noise
            weight = self.weight / np.maximum(far, 1.0)
            weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
            mean = (values * weight[..., None]).sum(axis=1)
        return np.asarray(mean)

    def _scaled(self) -> tuple[Floats, Floats]:
        """Best scale about the face's middle after the shift, and what it leaves."""
        middle = (self.places * self.weight[..., None]).sum(axis=1, keepdims=True)
        arm = self.places - middle
        clean = np.where(self.known[..., None], self.centred, 0.0)
        up = (arm * clean * self.weight[..., None]).sum(axis=(1, 2))
        down = (arm**2 * self.weight[..., None]).sum(axis=(1, 2))
        factor = up / np.maximum(down, 1e-12)
        return 1 + factor, self.centred - factor[:, None, None] * arm

    def energy(self, difference: Floats) -> Floats:
        """(n,) mean cost of the known landmarks' differences: Laplace, as the model's."""
        far = np.linalg.norm(difference, axis=2) / self.noise
        return np.asarray(np.where(self.known, far, 0.0).sum(axis=1) / self.known.sum(axis=1))

    def gain(self, explained: Floats, beyond: Floats | None = None) -> Floats:
        """How much an explanation lowers the cost, beyond a simpler one."""
        return self.energy(self.plain if beyond is None else beyond) - self.energy(explained)

    def wrong_face(self) -> Floats:
        """What is left when neither a shift nor a scale explains, or when the shift is far."""
        left = self.energy(self.matched)
        far = np.linalg.norm(self.shift, axis=1) > FAR
        return np.where(far, self.energy(self.plain), left)

    def swapped(self) -> Floats:
        """How much better the label fits with left and right exchanged: log of the ratio of
        costs, above 0 where it does."""
        self.swap = np.full(len(self.faces), -np.inf)
        if not is_markup(self.markup):
            return self.swap
        flip = get_markup(self.markup).flip
        labels = np.stack([record.points for record in self.records])[:, flip]
        points = np.stack([face.points for face in self.faces])
        other = (labels - points) / self.size[:, None, None] - self.usual
        both = np.isfinite(other).all(axis=2) & self.known
        now = np.where(both, np.linalg.norm(self.plain, axis=2) / self.noise, 0.0).sum(axis=1)
        then = np.where(both, np.linalg.norm(other, axis=2) / self.noise, 0.0).sum(axis=1)
        ratio = np.log(now + 1.0) - np.log(then + 1.0)
        self.swap = np.where(both.sum(axis=1) >= 10, ratio, -np.inf)
        return self.swap

    def one_landmark(self) -> Floats:
        """How far the worst landmark is off beyond the others of its face."""
        far = np.where(self.known, np.linalg.norm(self.matched, axis=2) / self.noise, 0.0)
        self.worst = far.argmax(axis=1)
        ordered = np.sort(far, axis=1)
        return np.asarray(ordered[:, -1] - ordered[:, -4])

    def visibility(self) -> Floats:
        """Cost of the visibility labels under the predicted probabilities."""
        trained = all(face.visibility_trained for face in self.faces)
        classes = np.stack([record.visibility for record in self.records])
        if not trained or not (classes == Visibility.SELF_OCCLUDED).any():
            return np.full(len(self.faces), -np.inf)
        said = np.clip(np.stack([face.visibility for face in self.faces]), 0.02, 0.98)
        hidden = classes == Visibility.SELF_OCCLUDED
        # a set that calls everything visible says nothing about what it does not call hidden
        tells = hidden.any(axis=1).mean() >= TELLS_VISIBILITY
        cost = np.where(hidden, -np.log(1 - said), -np.log(said) if tells else 0.0)
        cost = np.where(classes == Visibility.UNLABELLED, 0.0, cost)
        return np.asarray(cost.sum(axis=1))

    def sentence(self, row: int, kind: str) -> str:
        """The explanation in words and numbers, in percent of the box."""
        x, y = self.shift[row] * 100
        if kind == "shifted":
            return f"label moved by {x:+.1f} % of the box in x and {y:+.1f} % in y"
        if kind == "scaled":
            return f"label {self.factor[row]:.2f} times as large as the face"
        if kind == "wrong face":
            return f"label fits no transform of the face ({np.hypot(x, y):.0f} % away)"
        if kind == "swapped":
            return "label fits better with left and right exchanged"
        if kind == "one landmark":
            j = int(self.worst[row])
            off = float(np.linalg.norm(self.matched[row, j]) * 100)
            name = get_markup(self.markup).names[j] if is_markup(self.markup) else f"point {j}"
            return f"{name} (landmark {j}) is {off:.1f} % of the box off"
        record, face = self.records[row], self.faces[row]
        hidden = record.visibility == Visibility.SELF_OCCLUDED
        wrong = (hidden & (face.visibility > 0.5)) | (record.visible & (face.visibility < 0.5))
        return f"visibility of {int(wrong.sum())} landmarks contradicts the image"


def _best(
    scores: dict[str, float], work: _Differences, row: int, kinds: Sequence[ErrorKind]
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


def _size(face: FaceLandmarks) -> float:
    width, height = face.points.max(axis=0) - face.points.min(axis=0)
    return float(np.sqrt(max(width * height, 1e-9)))


def _nanmedian(values: Floats) -> Floats:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a landmark that nobody labelled
        return np.asarray(np.nanmedian(values, axis=0))
