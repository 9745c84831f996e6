"""How the labels of faces differ from predictions, beside what is usual in their set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from luvli.arrays import Floats
from luvli.data.record import FaceRecord, Visibility
from luvli.faces import FaceLandmarks
from luvli.markup import get_markup, is_markup
from luvli.network.face_features import pose_kind

FEWEST = 50
"""faces that make a set: fewer have no usual disagreement"""
FLOOR = 0.004
"""parts of the box: no label is more exact than that"""
FAR = 0.35
"""parts of the box: a label further away than this belongs to another face"""
TELLS_VISIBILITY = 0.05
"""share of faces with hidden landmarks from which a set is taken to label visibility"""


@dataclass(frozen=True)
class SetHabits:
    """What is usual in a set: how its labels differ from predictions, what they tell."""

    usual: Mapping[str, tuple[Floats, Floats]]
    """class of pose -> median difference (k, 2) of each landmark, and the median distance (k,)
    from it, in parts of the box; "all" for classes with few faces"""
    visibility_labels: Literal["none", "hidden", "all"]
    """what the classes say. `none`: nothing that predictions could be compared with. `hidden`: a
    set that calls nearly everything visible says nothing about what it does not call hidden"""

    def of(self, faces: Sequence[FaceLandmarks]) -> tuple[Floats, Floats]:
        """(n, k, 2) and (n, k): what is usual for each of these faces."""
        found = [self.usual.get(pose_kind(face), self.usual["all"]) for face in faces]
        return np.stack([middle for middle, _ in found]), np.stack([away for _, away in found])


def _habits(
    records: Sequence[FaceRecord], faces: Sequence[FaceLandmarks], difference: Floats
) -> SetHabits:
    """From `difference` (n, k, 2), NaN where a landmark has no label."""
    kinds = np.array([pose_kind(face) for face in faces])
    usual = {}
    for kind in ("all", *np.unique(kinds)):
        part = difference if kind == "all" else difference[kinds == kind]
        if kind != "all" and len(part) < FEWEST // 2:
            continue
        with np.errstate(all="ignore"):
            middle = np.nan_to_num(_nanmedian(part))
            away = np.nan_to_num(_nanmedian(np.linalg.norm(part - middle, axis=2)), nan=FLOOR)
        usual[str(kind)] = middle, np.maximum(away, FLOOR)
    hidden = np.stack([record.visibility for record in records]) == Visibility.SELF_OCCLUDED
    if not all(face.visibility_trained for face in faces) or not hidden.any():
        return SetHabits(usual, "none")
    tells = hidden.any(axis=1).mean() >= TELLS_VISIBILITY
    return SetHabits(usual, "all" if tells else "hidden")


class Differences:
    """Labels minus predictions of n faces, and how each explanation changes them."""

    def __init__(
        self,
        records: Sequence[FaceRecord],
        faces: Sequence[FaceLandmarks],
        habits: SetHabits | None = None,
    ) -> None:
        """`habits`: what is usual in the set, where these are only some of its faces."""
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
        hidden = np.where(self.known[..., None], difference, np.nan)
        self.habits = _habits(records, faces, hidden) if habits is None else habits
        usual, rest = self.habits.of(faces)
        noise = np.sqrt(rest**2 / 2 + own**2)
        self.usual = usual
        self.plain = difference - usual
        self.noise = noise
        weight = np.where(self.known, 1 / noise**2, 0.0)
        self.weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
        clean = np.where(self.known[..., None], self.plain, 0.0)
        self.shift = self._robust_mean(clean)
        self.centred = self.plain - self.shift[:, None]
        self.factor, self.matched = self._scaled()

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

    def swapped(self) -> tuple[Floats, Floats]:
        """How much better the label fits with left and right exchanged: log of the ratio of
        costs, above 0 where it does; and their logarithmic mean, which times that is their
        difference."""
        self.swap = np.full(len(self.faces), -np.inf)
        if not is_markup(self.markup):
            return self.swap, np.zeros(len(self.faces))
        flip = get_markup(self.markup).flip
        labels = np.stack([record.points for record in self.records])[:, flip]
        points = np.stack([face.points for face in self.faces])
        other = (labels - points) / self.size[:, None, None] - self.usual
        both = np.isfinite(other).all(axis=2) & self.known
        now = np.where(both, np.linalg.norm(self.plain, axis=2) / self.noise, 0.0).sum(axis=1)
        then = np.where(both, np.linalg.norm(other, axis=2) / self.noise, 0.0).sum(axis=1)
        ratio = np.log(now + 1.0) - np.log(then + 1.0)
        self.swap = np.where(both.sum(axis=1) >= 10, ratio, -np.inf)
        mean = np.where(ratio == 0.0, now, (now - then) / np.where(ratio == 0.0, 1.0, ratio))
        return self.swap, mean

    def one_landmark(self) -> Floats:
        """How far the worst landmark is off beyond the others of its face."""
        far = np.where(self.known, np.linalg.norm(self.matched, axis=2) / self.noise, 0.0)
        self.worst = far.argmax(axis=1)
        ordered = np.sort(far, axis=1)
        return np.asarray(ordered[:, -1] - ordered[:, -4])

    def visibility(self) -> Floats:
        """Cost of the visibility labels under the predicted probabilities."""
        labels = self.habits.visibility_labels
        if labels == "none":
            return np.full(len(self.faces), -np.inf)
        classes = np.stack([record.visibility for record in self.records])
        said = np.clip(np.stack([face.visibility for face in self.faces]), 0.02, 0.98)
        hidden = classes == Visibility.SELF_OCCLUDED
        cost = np.where(hidden, -np.log(1 - said), -np.log(said) if labels == "all" else 0.0)
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


def _size(face: FaceLandmarks) -> float:
    width, height = face.points.max(axis=0) - face.points.min(axis=0)
    return float(np.sqrt(max(width * height, 1e-9)))


def _nanmedian(values: Floats) -> Floats:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a landmark that nobody labelled
        return np.asarray(np.nanmedian(values, axis=0))
