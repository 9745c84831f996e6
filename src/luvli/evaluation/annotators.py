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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, require
from luvli.evaluation.curve import known_mean
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.plot_style import (
    BLUE,
    ORANGE,
    draw_edges,
    draw_ellipses,
    face_axis,
    new_figure,
)
from luvli.evaluation.table import Table, number
from luvli.files import PathLike, read_text, whole_file, write_text
from luvli.likelihood import Gauss
from luvli.likelihood import covariance as algebra
from luvli.markup import get_markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUTLIER = 0.2
"""inter-ocular distances from the median of a face's annotators: a slip, not a disagreement"""
ELONGATED = 1.3
"""ratio of the half-axes from which an ellipse has a direction"""
MIN_FACES = 10
"""faces that a point needs"""


class Annotators(NamedTuple):
    """The landmarks of a markup that several people placed on the same faces."""

    landmarks: tuple[int, ...]
    """(m) numbers in the markup"""
    covariance: Floats
    """(m, 2, 2) pooled between annotators, upright, inter-ocular distances squared"""
    faces: tuple[int, ...]
    """(m) how many faces each landmark is pooled over"""
    people: int
    """annotators of a face, at most"""


class HumanComparison(NamedTuple):
    """Human and predicted ellipses of the same landmarks, upright, in inter-ocular distances."""

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
    def ratio(self) -> Floats:
        """(m,) predicted / human standard deviation, |Sigma|^(1/4)."""
        return np.asarray(algebra.spread(self.model) / algebra.spread(self.annotators.covariance))

    @property
    def angle(self) -> Floats:
        """(m,) degrees between the long axes, 0 to 90; NaN where people's ellipse is round."""
        turns = [_direction(side) for side in (self.annotators.covariance, self.model)]
        gap = np.abs(turns[0] - turns[1]) % 180.0
        directed = _elongation(self.annotators.covariance) > ELONGATED
        return np.where(directed, np.minimum(gap, 180.0 - gap), np.nan)

    @property
    def divergence(self) -> Floats:
        """(m,) D_KL(human || model) of Gaussians with these covariances, in nats."""
        zero = np.zeros((len(self.model), 2))
        human = Gauss.from_covariance(zero, self.annotators.covariance)
        return np.asarray(human.kl_divergence(Gauss.from_covariance(zero, self.model)))


def read_annotators(path: PathLike, markup: str = "ibug68") -> Annotators:
    """The pooled disagreement of a file's annotators about the landmarks of `markup`.

    Of a face and landmark those are left out where an annotator calls it not visible or lies more
    than `OUTLIER` from the median of all. The covariance is the sum of squares about each face's
    own mean over the degrees of freedom, which is unbiased.
    """
    try:
        content = json.loads(read_text(path))
        index = {
            int(point[markup]): int(point["index"])
            for point in content["points"]
            if point.get(markup) is not None
        }
        corners = [index[j] for j in get_markup(markup).outer_eye_corners]
        sums = np.zeros((len(index), 2, 2))
        freedom, faces = np.zeros(len(index)), np.zeros(len(index), dtype=int)
        people = 0
        for face in content["faces"].values():
            upright, visible = _votes(face, corners)
            people = max(people, len(upright))
            for m, place in enumerate(index.values()):
                votes = upright[:, place]
                off = np.linalg.norm(votes - np.median(votes, axis=0), axis=1)
                if len(votes) > 1 and visible[:, place].all() and (off <= OUTLIER).all():
                    gap = votes - votes.mean(axis=0)
                    sums[m] += gap.T @ gap
                    freedom[m] += len(votes) - 1
                    faces[m] += 1
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not a file of annotators of {markup} ({type(error).__name__}: {error}): it "
            "needs points with their map to the markup, and faces with workers."
        ) from error
    enough = faces >= MIN_FACES
    if not enough.any():
        raise InputError(f"{path} has no landmark that several people placed on {MIN_FACES} faces.")
    covariance = sums[enough] / freedom[enough, None, None]
    numbers = tuple(int(j) for j in np.array(list(index))[enough])
    return Annotators(numbers, covariance, tuple(faces[enough].tolist()), people)


def compare_with_annotators(faces: LabelledFaces, annotators: Annotators) -> HumanComparison:
    """The mean predicted ellipses of many faces beside the annotators' disagreement.

    The faces should be ones that were held out of training.
    """
    if faces.covariance is None or faces.markup is None:
        raise InputError(f"{faces.method} predicts no covariances of a known markup.")
    whole = np.isfinite(faces.points).all(axis=(1, 2))
    whole &= np.isfinite(faces.covariance).all(axis=(1, 2, 3))
    if not whole.any():
        raise InputError(f"{faces.method} has no face with all its landmarks: nothing to average.")
    points, spread = faces.points[whole], faces.covariance[whole]
    corners = list(faces.markup.outer_eye_corners)
    turns = np.stack([_similarity(face[corners]) for face in points])
    middle = points[:, corners].mean(axis=1, keepdims=True)
    upright = np.einsum("nij,nkj->nki", turns, points - middle)
    covariance = np.einsum("nij,nkjl,nml->nkim", turns, spread, turns)
    return HumanComparison(
        annotators,
        np.asarray(algebra.log_euclidean_mean(covariance[:, list(annotators.landmarks)])),
        upright.mean(axis=0),
        len(points),
        faces.markup.name,
        faces.method,
    )


def human_table(compared: HumanComparison) -> Table:
    """Both deviations, elongation, angle and KL of each landmark, and what they come to."""
    names = get_markup(compared.markup).names
    human = compared.annotators.covariance
    deviations = [np.asarray(algebra.spread(side)) for side in (human, compared.model)]
    columns = (
        (deviations[0] * 100, 2), (deviations[1] * 100, 2), (compared.ratio, 2),
        (_elongation(human), 2), (_elongation(compared.model), 2), (compared.angle, 0),
        (compared.divergence, 3),
    )  # fmt: skip
    rows = [
        [f"{j} {names[j].replace('_', ' ')}", f"{compared.annotators.faces[m]:,}",
         *(number(float(values[m]), digits) for values, digits in columns)]
        for m, j in enumerate(compared.annotators.landmarks)
    ]  # fmt: skip
    stats = require("scipy.stats", "evaluate")
    rank = float(stats.spearmanr(*deviations).statistic) if len(rows) > 2 else float("nan")
    turn, directed = number(known_mean(compared.angle), 0), np.isfinite(compared.angle).sum()
    notes = [
        f"{compared.method} on {compared.faces:,} faces, upright; up to "
        f"{compared.annotators.people} annotators of each face. Deviations |Σ|^¼ in % of the "
        "inter-ocular distance.",
        f"Ratio of deviations, mean: {np.mean(compared.ratio):.2f}; angle between the long axes of "
        f"{directed} elongated points, mean: {turn} degrees (chance: 45); KL(human || model), "
        f"mean: {np.mean(compared.divergence):.2f} nats; rank correlation of areas: "
        f"{number(rank)}.",
    ]
    return Table(
        "People and model",
        ["landmark", "faces", "human", "model", "ratio", "human elongation", "model elongation",
         "angle", "KL"],
        rows,
        ["", "", "%", "%", "", "", "", "degrees", "nats"],
        notes,
    )  # fmt: skip


def comparison(faces: LabelledFaces, path: PathLike | None) -> HumanComparison:
    """These faces beside the annotators of a file."""
    if path is None:
        raise InputError("the figure human needs --annotators FILE.")
    return compare_with_annotators(faces, read_annotators(path, faces.faces.markup))


def write_human(folder: PathLike, faces: LabelledFaces, path: PathLike) -> Table:
    """`human.png` and `human.md` in a report folder; returns the table."""
    compared = comparison(faces, path)
    table = human_table(compared)
    with whole_file(Path(folder) / "human.png") as temporary:
        plot_human(compared).savefig(temporary, format="png")
    write_text(Path(folder) / "human.md", table.markdown(1) + "\n")
    return table


def plot_human(compared: HumanComparison, sigma: float = 2.0) -> Figure:
    """Human ellipses (orange) and the model's mean ellipses (blue) on the mean face."""
    people, points = compared.annotators, compared.points
    places = points[list(people.landmarks)]
    sides = (
        (people.covariance, ORANGE, f"{people.people} people"),
        (compared.model, BLUE, f"the model, mean of {compared.faces:,} faces"),
    )
    with new_figure(size=(6.4, 6.2)) as (figure, (axis,)):
        draw_edges(axis, points, get_markup(compared.markup).edges)
        axis.scatter(*places.T, s=6, color="black", zorder=3)
        shown = [points]
        for covariance, colour, label in sides:
            shown.append(draw_ellipses(axis, places, covariance, sigma, colour, 1.8))
            axis.plot([], [], color=colour, label=label)
        face_axis(axis, np.concatenate(shown))
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, -0.08), ncols=2)
        axis.set_title(f"where people put landmarks, and where the model expects them ({sigma:g}σ)")
    return figure


def _votes(face: Any, corners: list[int]) -> tuple[Floats, Any]:
    """A face's labels (a, p, 2) by a people, turned and scaled by the mean outer eye corners of
    all, and which are visible (a, p)."""
    workers = list(face["workers"].values())
    points = np.array([worker["points"] for worker in workers], dtype=np.float64)
    hidden = [worker.get("visibility", np.zeros(points.shape[1])) for worker in workers]
    upright = points @ _similarity(points[:, corners].mean(axis=0)).T
    return upright, np.array(hidden, dtype=np.float64) == 0


def _similarity(corners: Floats) -> Floats:
    """(2, 2) that takes the line from the right to the left eye corner (2, 2) to (1, 0)."""
    x, y = corners[1] - corners[0]
    square = x * x + y * y
    if not square > 0:
        raise InputError("a face whose outer eye corners lie in one place has no size.")
    return np.asarray(np.array([[x, y], [-y, x]]) / square)


def _elongation(covariance: Floats) -> Floats:
    values = np.asarray(algebra.eigenvalues(covariance))
    return np.asarray(np.sqrt(values[..., 0] / values[..., 1]))


def _direction(covariance: Floats) -> Floats:
    """Degrees of the long axis, -90 to 90."""
    xx, xy, yy = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
    return np.asarray(np.degrees(0.5 * np.arctan2(2 * xy, xx - yy)))
