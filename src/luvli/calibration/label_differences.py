"""How labels differ from predictions, compared with what is usual in their data set."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from luvli.arrays import Bools, Floats
from luvli.data.record import Visibility
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.faces import Faces
from luvli.markup import get_markup, is_markup
from luvli.network.calibration import face_area
from luvli.trust.features import predicted_poses

ErrorKind = Literal["shifted", "scaled", "wrong face", "swapped", "one landmark", "visibility"]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)

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
    def of(cls, faces: LabelledFaces, difference: Floats) -> UsualDifferences:
        """From `difference` (m, k, 2) in parts of the box, NaN where a landmark has no label."""
        poses = predicted_poses(faces.faces)
        by_pose = {}
        for pose in ("all", *np.unique(poses).tolist()):
            part = difference if pose == "all" else difference[poses == pose]
            if pose != "all" and len(part) < MIN_FACES // 2:
                continue
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # no labels
                middle = np.nan_to_num(np.nanmedian(part, axis=0))
                away = np.nanmedian(np.linalg.norm(part - middle, axis=2), axis=0)
            by_pose[pose] = middle, np.maximum(np.nan_to_num(away), MIN_DIFFERENCE)
        hidden = (faces.label_visibility == Visibility.SELF_OCCLUDED).any(axis=1)
        if not faces.faces.visibility_trained or not hidden.any():
            return cls(by_pose, "none")
        return cls(by_pose, "all" if hidden.mean() >= MIN_HIDDEN else "hidden")

    def for_faces(self, faces: Faces) -> tuple[Floats, Floats]:
        """(m, k, 2) and (m, k): what is usual for each of these faces."""
        rows = [self.by_pose.get(pose, self.by_pose["all"]) for pose in predicted_poses(faces)]
        return np.stack([middle for middle, _ in rows]), np.stack([away for _, away in rows])


class Differences:
    """Labels minus predictions of m faces, in parts of the box, and how strong each explanation of
    them is."""

    def __init__(self, labelled: LabelledFaces, usual: UsualDifferences | None = None) -> None:
        """`usual`: what is usual in the set, where these are only some of its faces."""
        faces = self.faces = labelled.faces
        self.classes = labelled.label_visibility
        self.known = _comparable(labelled)
        size = np.sqrt(np.maximum(face_area(faces.points), 1e-9))[:, None, None]
        difference = (labelled.labels - faces.points) / size
        if usual is None:
            usual = UsualDifferences.of(
                labelled, np.where(self.known[..., None], difference, np.nan)
            )
        self.usual = usual
        middle, away = usual.for_faces(faces)
        own = np.sqrt(np.trace(faces.covariance, axis1=2, axis2=3) / 2) / size[..., 0]
        self.noise = np.sqrt(away**2 / 2 + own**2)
        self.weight = np.where(self.known, 1 / self.noise**2, 0.0)
        plain = difference - middle
        self.shift = self._robust_mean(plain)
        centred = plain - self.shift[:, None]
        self.factor, self.rest = self._scaled(centred, faces.points / size)
        mirrored = None
        if is_markup(faces.markup):
            swapped = labelled.labels[:, get_markup(faces.markup).flip]
            mirrored = (swapped - faces.points) / size - middle
        self.strength = self._strengths(plain, centred, mirrored)

    def _robust_mean(self, values: Floats) -> Floats:
        """(m, 2) weighted mean that a few far landmarks do not pull."""
        mean = _weighted_mean(values, self.weight)
        for _ in range(5):
            far = np.linalg.norm(values - mean[:, None], axis=2) / self.noise
            mean = _weighted_mean(values, self.weight / np.fmax(far, 1.0))
        return mean

    def _scaled(self, centred: Floats, places: Floats) -> tuple[Floats, Floats]:
        """Best scale about the face's middle after the shift, and the rest."""
        arm = places - _weighted_mean(places, self.weight)[:, None]
        weight = self.weight[..., None]
        up = (arm * np.nan_to_num(centred) * weight).sum(axis=(1, 2))
        factor = up / np.maximum((arm**2 * weight).sum(axis=(1, 2)), 1e-12)
        return 1 + factor, centred - factor[:, None, None] * arm

    def _costs(self, difference: Floats) -> Floats:
        """(m, k) distances in units of the noise: Laplace, as the model's; 0 where unknown."""
        far = np.linalg.norm(difference, axis=2) / self.noise
        return np.where(self.known & np.isfinite(far), far, 0.0)

    def _strengths(
        self, plain: Floats, centred: Floats, mirrored: Floats | None
    ) -> dict[ErrorKind, tuple[Floats, Floats]]:
        """How strong each explanation is, for every face (m,), and what a unit of that is worth as
        a log-likelihood ratio: means over landmarks count for each of them."""
        landmarks = self.known.sum(axis=1).astype(np.float64)
        once = np.ones_like(landmarks)
        cost, after_shift, unexplained = (
            self._costs(difference).sum(axis=1) / np.maximum(landmarks, 1.0)
            for difference in (plain, centred, self.rest)
        )
        far = np.linalg.norm(self.shift, axis=1) > FAR
        ordered = np.sort(self._costs(self.rest), axis=1)
        return {
            "shifted": (cost - after_shift, landmarks),
            "scaled": (after_shift - unexplained, landmarks),
            "wrong face": (np.where(far, cost, unexplained), landmarks),
            "swapped": self._swapped(plain, mirrored),
            # how far the worst landmark is off beyond the others of its face
            "one landmark": (ordered[:, -1] - ordered[:, -4], once),
            "visibility": (self._visibility_cost(), once),
        }

    def _swapped(self, plain: Floats, mirrored: Floats | None) -> tuple[Floats, Floats]:
        """How much better the label fits with left and right exchanged: log of the ratio of
        costs, above 0 where it does; and their logarithmic mean, which times that is their
        difference."""
        if mirrored is None:
            return np.full(len(plain), -np.inf), np.zeros(len(plain))
        both = np.isfinite(mirrored).all(axis=2) & self.known
        now, then = (
            np.where(both, self._costs(difference), 0.0).sum(axis=1)
            for difference in (plain, mirrored)
        )
        ratio = np.log(now + 1.0) - np.log(then + 1.0)
        mean = np.where(ratio == 0.0, now, (now - then) / np.where(ratio == 0.0, 1.0, ratio))
        return np.where(both.sum(axis=1) >= 10, ratio, -np.inf), mean

    def _visibility_cost(self) -> Floats:
        """Cost of the visibility labels under the predicted probabilities."""
        labels = self.usual.visibility_labels
        if labels == "none":
            return np.full(len(self.faces), -np.inf)
        probability = np.clip(self.faces.visibility, 0.02, 0.98)
        hidden = self.classes == Visibility.SELF_OCCLUDED
        visible = -np.log(probability) if labels == "all" else np.zeros_like(probability)
        cost = np.where(hidden, -np.log(1 - probability), visible)
        return np.asarray(np.where(self.classes == Visibility.UNLABELLED, 0.0, cost).sum(axis=1))

    def sentence(self, row: int, kind: ErrorKind) -> str:
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
            j = int(self._costs(self.rest)[row].argmax())
            off = float(np.linalg.norm(self.rest[row, j]) * 100)
            return f"{self.faces.names[j]} (landmark {j}) is {off:.1f} % of the box off"
        visible, classes = self.faces.visibility[row] > 0.5, self.classes[row]
        wrong = np.where(classes == Visibility.SELF_OCCLUDED, visible, ~visible)
        count = int(wrong[classes != Visibility.UNLABELLED].sum())
        return f"visibility of {count} landmarks contradicts the image"


def _comparable(labelled: LabelledFaces) -> Bools:
    """(m, k) landmarks with a location that the model sees; all with a location where these are
    too few to say anything."""
    located = np.isfinite(labelled.labels).all(axis=2)
    visible = located
    if labelled.faces.visibility_trained:
        visible = located & labelled.faces.visible(0.3)
    few = visible.sum(axis=1) < 3
    return np.asarray(np.where(few[:, None], located, visible))


def _weighted_mean(values: Floats, weight: Floats) -> Floats:
    """(m, 2) of values (m, k, 2); those without weight may be NaN."""
    total = np.maximum(weight.sum(axis=1), 1e-12)[:, None]
    return np.asarray((np.nan_to_num(values) * weight[..., None]).sum(axis=1) / total)
