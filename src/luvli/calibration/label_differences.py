"""How labels differ from predictions, and how strong each explanation of the difference is,
compared with what is usual in their data set.

Lengths are in parts of the face's box; m faces have k landmarks each.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools, Floats
from luvli.data.record import Visibility
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.markup import get_markup, is_markup
from luvli.network.calibration import face_area
from luvli.trust.features import predicted_poses

ErrorKind = Literal["shifted", "scaled", "wrong face", "swapped", "one landmark", "visibility"]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)

MIN_FACES = 50
"""faces from which what is usual in a set can be estimated"""
MIN_DIFFERENCE = 0.004
"""no label is more exact than that"""
FAR = 0.35
"""a label further away than this belongs to another face"""
MIN_HIDDEN = 0.05
"""share of faces with hidden landmarks from which a set counts as labelling visibility"""
MIN_MIRRORED = 10
"""landmarks with a label on both sides that a comparison with left and right exchanged takes"""


class UsualDifferences(NamedTuple):
    """What is usual in a set: how its labels differ from predictions, and what they label."""

    by_pose: Mapping[str, tuple[Floats, Floats]]
    """class of pose -> median difference (k, 2) of each landmark, and the median distance (k,)
    from it; "all" for classes with few faces"""
    visibility_labels: Literal["none", "hidden", "all"]
    """`none`: nothing that predictions could be compared with. `hidden`: in a set that calls nearly
    everything visible, only hidden landmarks are informative"""


class Strength(NamedTuple):
    """How strong one explanation is."""

    values: Floats
    """(m,)"""
    nats: Floats
    """(m,) what a unit is worth as a log-likelihood ratio: means over landmarks count for each"""


@dataclass(frozen=True)
class Differences:
    """Labels minus predictions of m faces, taken apart."""

    labelled: LabelledFaces
    shift: Floats
    """(m, 2) of the whole label"""
    factor: Floats
    """(m,) by which the label is larger than the face"""
    worst: NDArray[np.intp]
    """(m,) the landmark that neither explains least"""
    off: Floats
    """(m,) how far it is off"""
    strength: Mapping[ErrorKind, Strength]

    def sentence(self, row: int, kind: ErrorKind) -> str:
        """The explanation in words and numbers, in percent of the box."""
        x, y = self.shift[row] * 100
        faces, classes = self.labelled.faces, self.labelled.label_visibility[row]
        if kind == "shifted":
            return f"label moved by {x:+.1f} % of the box in x and {y:+.1f} % in y"
        if kind == "scaled":
            return f"label {self.factor[row]:.2f} times as large as the face"
        if kind == "wrong face":
            return f"label fits no transform of the face ({np.hypot(x, y):.0f} % away)"
        if kind == "swapped":
            return "label fits better with left and right exchanged"
        if kind == "one landmark":
            j, off = int(self.worst[row]), self.off[row] * 100
            return f"{faces.names[j]} (landmark {j}) is {off:.1f} % of the box off"
        visible = faces.visibility[row] > 0.5
        wrong = np.where(classes == Visibility.SELF_OCCLUDED, visible, ~visible)
        count = int(wrong[classes != Visibility.UNLABELLED].sum())
        return f"visibility of {count} landmarks contradicts the image"


def usual_differences(labelled: LabelledFaces) -> UsualDifferences:
    """What is usual in a set, from some of its faces."""
    faces = labelled.faces
    difference = (labelled.labels - faces.points) / _size(labelled)
    difference[~_comparable(labelled)] = np.nan
    poses = predicted_poses(faces)
    by_pose = {}
    for pose in ("all", *np.unique(poses).tolist()):
        part = difference if pose == "all" else difference[poses == pose]
        if pose != "all" and len(part) < MIN_FACES // 2:
            continue
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # no labels
            middle = np.nan_to_num(np.nanmedian(part, axis=0))
            away = np.nanmedian(np.linalg.norm(part - middle, axis=2), axis=0)
        by_pose[pose] = middle, np.maximum(np.nan_to_num(away), MIN_DIFFERENCE)
    hidden = (labelled.label_visibility == Visibility.SELF_OCCLUDED).any(axis=1)
    if not faces.visibility_trained or not hidden.any():
        return UsualDifferences(by_pose, "none")
    return UsualDifferences(by_pose, "all" if hidden.mean() >= MIN_HIDDEN else "hidden")


def take_apart(labelled: LabelledFaces, usual: UsualDifferences) -> Differences:
    """Each label moved, scaled and mirrored to where it fits its prediction best."""
    faces, size = labelled.faces, _size(labelled)
    rows = [usual.by_pose.get(pose, usual.by_pose["all"]) for pose in predicted_poses(faces)]
    middle, away = (np.stack(each) for each in zip(*rows, strict=True))
    own = np.sqrt(np.trace(faces.covariance, axis1=2, axis2=3) / 2) / size[..., 0]
    noise, known = np.sqrt(away**2 / 2 + own**2), _comparable(labelled)
    weight = np.where(known, 1 / noise**2, 0.0)
    plain = (labelled.labels - faces.points) / size - middle
    shift = _weighted_mean(plain, weight)
    for _ in range(5):  # a mean that a few far landmarks do not pull
        far = np.linalg.norm(plain - shift[:, None], axis=2) / noise
        shift = _weighted_mean(plain, weight / np.fmax(far, 1.0))
    centred = plain - shift[:, None]
    arm = faces.points / size - _weighted_mean(faces.points / size, weight)[:, None]
    up = (arm * np.nan_to_num(centred) * weight[..., None]).sum(axis=(1, 2))
    growth = up / np.maximum((arm**2 * weight[..., None]).sum(axis=(1, 2)), 1e-12)
    rest = centred - growth[:, None, None] * arm

    landmarks = known.sum(axis=1).astype(np.float64)
    costs = [_costs(difference, noise, known) for difference in (plain, centred, rest)]
    cost, after_shift, unexplained = (c.sum(axis=1) / np.maximum(landmarks, 1.0) for c in costs)
    ordered, once = np.sort(costs[-1], axis=1), np.ones_like(landmarks)
    elsewhere = np.linalg.norm(shift, axis=1) > FAR
    swapped = Strength(np.full(len(faces), -np.inf), np.zeros(len(faces)))
    if is_markup(faces.markup):
        other = labelled.labels[:, get_markup(faces.markup).flip]
        mirrored = (other - faces.points) / size - middle
        both = np.isfinite(mirrored).all(axis=2) & known
        swapped = _swapped(costs[0], _costs(mirrored, noise, known), both)
    strength: dict[ErrorKind, Strength] = {
        "shifted": Strength(cost - after_shift, landmarks),
        "scaled": Strength(after_shift - unexplained, landmarks),
        "wrong face": Strength(np.where(elsewhere, cost, unexplained), landmarks),
        "swapped": swapped,
        # how far the worst landmark is off beyond the others of its face
        "one landmark": Strength(ordered[:, -1] - ordered[:, -4], once),
        "visibility": Strength(_visibility_costs(labelled, usual), once),
    }
    worst = costs[-1].argmax(axis=1)
    off = np.linalg.norm(rest[np.arange(len(faces)), worst], axis=1)
    return Differences(labelled, shift, 1 + growth, worst, off, strength)


def _swapped(plain: Floats, mirrored: Floats, both: Bools) -> Strength:
    """How much better the label fits with left and right exchanged, from the costs (m, k): log of
    the ratio of their sums, above 0 where it does; and their logarithmic mean, which times that
    is their difference."""
    now, then = (np.where(both, costs, 0.0).sum(axis=1) for costs in (plain, mirrored))
    ratio = np.log(now + 1.0) - np.log(then + 1.0)
    mean = np.where(ratio == 0.0, now, (now - then) / np.where(ratio == 0.0, 1.0, ratio))
    return Strength(np.where(both.sum(axis=1) >= MIN_MIRRORED, ratio, -np.inf), mean)


def _visibility_costs(labelled: LabelledFaces, usual: UsualDifferences) -> Floats:
    """(m,) cost of the visibility labels under the predicted probabilities."""
    if usual.visibility_labels == "none":
        return np.full(len(labelled), -np.inf)
    probability, classes = np.clip(labelled.faces.visibility, 0.02, 0.98), labelled.label_visibility
    visible = -np.log(probability) if usual.visibility_labels == "all" else 0.0
    cost = np.where(classes == Visibility.SELF_OCCLUDED, -np.log(1 - probability), visible)
    return np.asarray(np.where(classes == Visibility.UNLABELLED, 0.0, cost).sum(axis=1))


def _comparable(labelled: LabelledFaces) -> Bools:
    """(m, k) landmarks with a location that the model sees; all with a location where these are
    too few to say anything."""
    located = np.isfinite(labelled.labels).all(axis=2)
    visible = located
    if labelled.faces.visibility_trained:
        visible = located & labelled.faces.visible(0.3)
    few = visible.sum(axis=1) < 3
    return np.asarray(np.where(few[:, None], located, visible))


def _costs(difference: Floats, noise: Floats, known: Bools) -> Floats:
    """(m, k) distances in units of the noise: Laplace, as the model's; 0 where unknown."""
    far = np.linalg.norm(difference, axis=2) / noise
    return np.where(known & np.isfinite(far), far, 0.0)


def _weighted_mean(values: Floats, weight: Floats) -> Floats:
    """(m, 2) of values (m, k, 2); those without weight may be NaN."""
    total = np.maximum(weight.sum(axis=1), 1e-12)[:, None]
    return np.asarray((np.nan_to_num(values) * weight[..., None]).sum(axis=1) / total)


def _size(labelled: LabelledFaces) -> Floats:
    """(m, 1, 1) of the predicted faces' boxes, in pixels."""
    return np.sqrt(np.maximum(face_area(labelled.points), 1e-9))[:, None, None]
