"""How people disagree, beside what a model predicts: Figure 8 of the paper, measured.

A file of annotators is JSON:

    {"points": [{"index": 0, "name": "left_eyebrow_out", "ibug68": 17}, ...],
     "faces": {"image_0001": {"workers": {"worker_0": {"points": [[x, y], ...],
                                                        "visibility": [0, ...]}, ...}}, ...}}

`points` maps the annotators' points to a markup by its name (null or absent: no landmark of it).
`visibility` may be left out; what is not 0 is not visible. Coordinates are in any pixels: every
face is turned upright and measured in its own inter-ocular distance.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, require
from luvli.evaluation.accuracy import known_mean
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.table import Table, number
from luvli.evaluation.uncertainty import face_affines, mean_ellipses
from luvli.files import PathLike, read_text
from luvli.image import affine
from luvli.likelihood import Gauss
from luvli.likelihood import covariance as algebra
from luvli.likelihood.ellipses import Ellipses
from luvli.markup import get_markup

OUTLIER = 0.2
"""inter-ocular distances from the median of a face's annotators: a slip, not a disagreement"""
ELONGATED = 1.3
"""ratio of the half-axes from which an ellipse has a direction"""
MIN_FACES = 10
"""faces that a point needs"""


class Annotators(NamedTuple):
    """The landmarks of a markup that several people placed on the same faces."""

    landmarks: list[int]
    """(m) numbers in the markup"""
    covariance: Floats
    """(m, 2, 2) pooled between annotators, upright, inter-ocular distances squared"""
    faces: list[int]
    """(m) how many faces each landmark is pooled over"""
    people: int
    """annotators of a face, at most"""


class HumanComparison(NamedTuple):
    """Human and predicted ellipses of the same m landmarks, upright, in inter-ocular distances."""

    annotators: Annotators
    model: Floats
    """(m, 2, 2) log-Euclidean mean of the predicted covariances, as in Figure 8"""
    points: Floats
    """(k, 2) mean predicted face"""
    faces: int
    """predicted faces"""
    markup: str
    method: str

    @property
    def deviations(self) -> Floats:
        """(2, m) |Sigma|^(1/4), human and predicted."""
        return np.stack([algebra.spread(self.annotators.covariance), algebra.spread(self.model)])

    @property
    def elongations(self) -> Floats:
        """(2, m) the longer half-axis over the shorter one, human and predicted."""
        return np.stack([each.half_axes[:, 0] / each.half_axes[:, 1] for each in self._ellipses])

    @property
    def angle(self) -> Floats:
        """(m,) degrees between the long axes, 0 to 90; NaN where people's ellipse is round."""
        people, model = self._ellipses
        gap = np.abs(people.angle - model.angle)
        return np.where(self.elongations[0] > ELONGATED, np.minimum(gap, 180.0 - gap), np.nan)

    @property
    def divergence(self) -> Floats:
        """(m,) D_KL(human || model) of Gaussians with these covariances, in nats."""
        sides = self.annotators.covariance, self.model
        people, model = (Gauss.from_covariance(np.zeros((len(s), 2)), s) for s in sides)
        return np.asarray(people.kl_divergence(model))

    @property
    def _ellipses(self) -> list[Ellipses]:
        sides = self.annotators.covariance, self.model
        return [Ellipses.of(np.zeros((len(s), 2)), s, np.ones(len(s))) for s in sides]


def read_annotators(path: PathLike, markup: str = "ibug68") -> Annotators:
    """The pooled disagreement of a file's annotators about the landmarks of `markup`.

    Of a face and landmark those are left out where an annotator calls it not visible or lies more
    than `OUTLIER` from the median of all. The covariance is the sum of squares about each face's
    own mean over the degrees of freedom, which is unbiased.
    """
    try:
        content = json.loads(read_text(path))
        return _pooled(content["points"], content["faces"].values(), markup)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is not a file of annotators of {markup} ({type(error).__name__}: {error}): it "
            "needs points with their map to the markup, and faces with workers."
        ) from error


def _pooled(points: Any, faces: Any, markup: str) -> Annotators:
    place = {int(p[markup]): int(p["index"]) for p in points if p.get(markup) is not None}
    corners = [place[j] for j in get_markup(markup).outer_eye_corners]
    columns = list(place.values())
    sums, freedom = np.zeros((len(place), 2, 2)), np.zeros(len(place))
    count, people = np.zeros(len(place), dtype=int), 0
    for face in faces:
        workers = list(face["workers"].values())
        votes = np.array([worker["points"] for worker in workers], dtype=np.float64)
        hidden = [worker.get("visibility", [0] * votes.shape[1]) for worker in workers]
        eyes = votes[:, corners].mean(axis=0)
        votes = affine.apply(face_affines(eyes, upright=True), votes)[:, columns]  # (a, m, 2)
        visible = (np.array(hidden, dtype=np.float64)[:, columns] == 0).all(axis=0)
        away = np.linalg.norm(votes - np.median(votes, axis=0), axis=2).max(axis=0)
        used = visible & (away <= OUTLIER) & (len(votes) > 1)
        gap = (votes - votes.mean(axis=0))[:, used]
        sums[used] += np.einsum("ami,amj->mij", gap, gap)
        freedom[used] += len(votes) - 1
        count[used] += 1
        people = max(people, len(votes))
    enough = count >= MIN_FACES
    if not enough.any():
        raise InputError(f"no landmark was placed by several people on {MIN_FACES} faces.")
    numbers = np.array(list(place))[enough].tolist()
    pooled = sums[enough] / freedom[enough, None, None]
    return Annotators(numbers, pooled, count[enough].tolist(), people)


def compare_with_annotators(faces: LabelledFaces, annotators: Annotators) -> HumanComparison:
    """The mean predicted ellipses of many faces beside the annotators' disagreement.

    The faces should be ones that were held out of training.
    """
    if faces.markup is None:
        raise InputError(f"{faces.method} has no known point set.")
    markup, covariance = faces.markup.name, faces.needed("covariance")
    points, mean, count = mean_ellipses(faces.points, covariance, markup, upright=True)
    model = mean[annotators.landmarks]
    return HumanComparison(annotators, model, points, count, markup, faces.method)


def comparison(faces: LabelledFaces, path: PathLike | None) -> HumanComparison:
    """These faces beside the annotators of a file."""
    if path is None:
        raise InputError("the figure human needs --annotators FILE.")
    return compare_with_annotators(faces, read_annotators(path, faces.faces.markup))


def human_table(compared: HumanComparison) -> Table:
    """Both deviations, elongation, angle and KL of each landmark, and what they come to."""
    names, people = get_markup(compared.markup).names, compared.annotators
    human, model = compared.deviations
    angle, divergence = compared.angle, compared.divergence
    columns = (
        (human * 100, 2), (model * 100, 2), (model / human, 2),
        *((each, 2) for each in compared.elongations), (angle, 0), (divergence, 3),
    )  # fmt: skip
    rows = [
        [f"{j} {names[j].replace('_', ' ')}", f"{people.faces[m]:,}",
         *(number(float(values[m]), digits) for values, digits in columns)]
        for m, j in enumerate(people.landmarks)
    ]  # fmt: skip
    spearmanr = require("scipy.stats", "evaluate").spearmanr
    rank = float(spearmanr(human, model).statistic) if len(rows) > 2 else float("nan")
    notes = [
        f"{compared.method} on {compared.faces:,} faces, upright; up to {people.people} annotators "
        "of each face. Deviations |Σ|^¼ in % of the inter-ocular distance.",
        f"Ratio of deviations, mean: {np.mean(model / human):.2f}; angle between the long axes of "
        f"{np.isfinite(angle).sum()} elongated points, mean: {number(known_mean(angle), 0)} "
        f"degrees (chance: 45); KL(human || model), mean: {np.mean(divergence):.2f} nats; rank "
        f"correlation of areas: {number(rank)}.",
    ]
    heads = ["landmark", "faces", "human", "model", "ratio", "human elongation",
             "model elongation", "angle", "KL"]  # fmt: skip
    units = ["", "", "%", "%", "", "", "", "degrees", "nats"]
    return Table("People and model", heads, rows, units, notes)
