"""How labels differ from predictions, compared with what is usual in their data set."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from luvli.arrays import Bools, Floats
from luvli.calibration.label_batches import LabelBatch
from luvli.data.record import Visibility
from luvli.faces import Faces
from luvli.markup import get_markup, is_markup
from luvli.network.calibration import face_area
from luvli.trust.features import predicted_poses

MIN_FACES = 50
"""faces from which what is usual in a set can be estimated"""
MIN_DIFFERENCE = 0.004
"""parts of the box: no label is more exact than that"""
FAR = 0.35
"""parts of the box: a label further away than this belongs to another face"""
MIN_HIDDEN = 0.05
"""share of faces with hidden landmarks from which a set counts as labelling visibility"""


@dataclass(frozen=True)
class UsualDifferences:
    """What is usual in a set: how its labels differ from predictions, and what they label."""

    by_pose: Mapping[str, tuple[Floats, Floats]]
    """class of pose -> median difference (k, 2) of each landmark, and the median distance (k,)
    from it, in parts of the box; "all" for classes with few faces"""
    visibility_labels: Literal["none", "hidden", "all"]
    """`none`: nothing that predictions could be compared with. `hidden`: in a set that calls nearly
    everything visible, only hidden landmarks are informative"""

    @classmethod
    def of(cls, batch: LabelBatch, difference: Floats) -> UsualDifferences:
        """From `difference` (m, k, 2) in parts of the box, NaN where a landmark has no label."""
        poses = predicted_poses(batch.faces)
        by_pose = {}
        for pose in ("all", *np.unique(poses).tolist()):
            part = difference if pose == "all" else difference[poses == pose]
            if pose != "all" and len(part) < MIN_FACES // 2:
                continue
            middle = np.nan_to_num(_nanmedian(part))
            away = np.linalg.norm(part - middle, axis=2)
            usual = np.nan_to_num(_nanmedian(away), nan=MIN_DIFFERENCE)
            by_pose[pose] = middle, np.maximum(usual, MIN_DIFFERENCE)
        hidden = batch.label_visibility == Visibility.SELF_OCCLUDED
        if not batch.faces.visibility_trained or not hidden.any():
            return cls(by_pose, "none")
        labelled = hidden.any(axis=1).mean() >= MIN_HIDDEN
        return cls(by_pose, "all" if labelled else "hidden")

    def for_faces(self, faces: Faces) -> tuple[Floats, Floats]:
        """(m, k, 2) and (m, k): what is usual for each of these faces."""
        rows = [self.by_pose.get(pose, self.by_pose["all"]) for pose in predicted_poses(faces)]
        return np.stack([middle for middle, _ in rows]), np.stack([away for _, away in rows])


class Differences:
    """Labels minus predictions of m faces, and how each explanation changes them."""

    def __init__(self, batch: LabelBatch, usual: UsualDifferences | None = None) -> None:
        """`usual`: what is usual in the set, where these are only some of its faces."""
        faces = batch.faces
        self.batch, self.faces, self.markup = batch, faces, faces.markup
        self.labels, self.classes = batch.labels, batch.label_visibility
        size = np.sqrt(np.maximum(face_area(faces.points), 1e-9))[:, None]
        self.size = size
        located: Bools = np.asarray(np.isfinite(self.labels).all(axis=2))
        visible = faces.visible(0.3) if faces.visibility_trained else np.ones_like(located)
        self.known: Bools = np.asarray(located & visible)
        few: Bools = np.asarray(self.known.sum(axis=1) < 3)
        self.known[few] = located[few]
        own = np.sqrt(np.trace(faces.covariance, axis1=2, axis2=3) / 2) / size
        centre = (faces.boxes[:, :2] + faces.boxes[:, 2:]) / 2
        self.places = (faces.points - centre[:, None]) / size[..., None]
        difference = (self.labels - faces.points) / size[..., None]
        if usual is None:
            unlabelled = np.where(self.known[..., None], difference, np.nan)
            usual = UsualDifferences.of(batch, unlabelled)
        self.usual = usual
        self.middle, away = usual.for_faces(faces)
        self.noise = np.sqrt(away**2 / 2 + own**2)
        self.plain = difference - self.middle
        weight = np.where(self.known, 1 / self.noise**2, 0.0)
        self.weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
        self.shift = self._robust_mean(np.where(self.known[..., None], self.plain, 0.0))
        self.centred = self.plain - self.shift[:, None]
        self.factor, self.matched = self._scaled()

    def _robust_mean(self, values: Floats) -> Floats:
        """(m, 2) weighted mean that a few far landmarks do not pull."""
        mean = (values * self.weight[..., None]).sum(axis=1)
        for _ in range(5):
            far = np.linalg.norm(values - mean[:, None], axis=2) / self.noise
            weight = self.weight / np.maximum(far, 1.0)
            weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
            mean = (values * weight[..., None]).sum(axis=1)
        return np.asarray(mean)

    def _scaled(self) -> tuple[Floats, Floats]:
        """Best scale about the face's middle after the shift, and the rest."""
        middle = (self.places * self.weight[..., None]).sum(axis=1, keepdims=True)
        arm = self.places - middle
        clean = np.where(self.known[..., None], self.centred, 0.0)
        up = (arm * clean * self.weight[..., None]).sum(axis=(1, 2))
        down = (arm**2 * self.weight[..., None]).sum(axis=(1, 2))
        factor = up / np.maximum(down, 1e-12)
        return 1 + factor, self.centred - factor[:, None, None] * arm

    def energy(self, difference: Floats) -> Floats:
        """(m,) mean cost of the known landmarks' differences: Laplace, as the model's."""
        far = np.linalg.norm(difference, axis=2) / self.noise
        return np.asarray(np.where(self.known, far, 0.0).sum(axis=1) / self.known.sum(axis=1))

    def gain(self, explained: Floats, beyond: Floats | None = None) -> Floats:
        """How much an explanation lowers the cost, beyond a simpler one."""
        return self.energy(self.plain if beyond is None else beyond) - self.energy(explained)

    def wrong_face(self) -> Floats:
        """The cost that neither shift nor scale explains; all of it where the shift is far."""
        far = np.linalg.norm(self.shift, axis=1) > FAR
        return np.where(far, self.energy(self.plain), self.energy(self.matched))

    def swapped(self) -> tuple[Floats, Floats]:
        """How much better the label fits with left and right exchanged: log of the ratio of
        costs, above 0 where it does; and their logarithmic mean, which times that is their
        difference."""
        count = len(self.faces)
        if not is_markup(self.markup):
            self.swap = np.full(count, -np.inf)
            return self.swap, np.zeros(count)
        labels = self.labels[:, get_markup(self.markup).flip]
        other = (labels - self.faces.points) / self.size[..., None] - self.middle
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
        labels = self.usual.visibility_labels
        if labels == "none":
            return np.full(len(self.faces), -np.inf)
        probability = np.clip(self.faces.visibility, 0.02, 0.98)
        hidden = self.classes == Visibility.SELF_OCCLUDED
        visible = -np.log(probability) if labels == "all" else np.zeros_like(probability)
        cost = np.where(hidden, -np.log(1 - probability), visible)
        return np.asarray(np.where(self.classes == Visibility.UNLABELLED, 0.0, cost).sum(axis=1))

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
            return f"{self.faces.names[j]} (landmark {j}) is {off:.1f} % of the box off"
        visible = self.faces.visibility[row]
        hidden = self.classes[row] == Visibility.SELF_OCCLUDED
        shown = self.classes[row] > Visibility.SELF_OCCLUDED
        wrong = (hidden & (visible > 0.5)) | (shown & (visible < 0.5))
        return f"visibility of {int(wrong.sum())} landmarks contradicts the image"


def _nanmedian(values: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a landmark that nobody labelled
        return np.asarray(np.nanmedian(values, axis=0))
